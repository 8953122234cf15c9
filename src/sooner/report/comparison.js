/* Our curves over the published ones, and single series below. What is drawn here was computed by Python. */

const contents = JSON.parse(document.getElementById("contents").textContent);
const find = (id) => document.getElementById(id);
const lines = contents.lines.map((line) => ({
  ...line, ...unpackAll({ times: line.times, errors: line.errors }), band: line.band && unpackAll(line.band), shown: true,
}));
const HUES = ["accent", "warn", "other-1", "other-2", "other-3", "other-4", "other-6", "other-5"];
const latest = Math.max(...lines.map((line) => line.times.at(-1)));

/* A colour between two hexadecimal ones: `share` of the first. */
function blend(one, other, share = 1, alpha = 1) {
  const [first, second] = [one, other].map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
  return `rgba(${first.map((part, i) => Math.round(share * part + (1 - share) * second[i])).join(", ")}, ${alpha})`;
}

/* Ours in the full hue of the model, the published one on its way to grey. */
function hue({ hue: index, origin }, alpha = 1) {
  return blend(colour(HUES[index % HUES.length]), colour("pale"), origin === "ours" ? 1 : 0.55, alpha);
}

const ready = (errors, log) => Array.from(errors, (error) => Math.max(error, log ? contents.floor : 0));

function bandOf(line, log) {
  const { times, low, high } = line.band;
  return {
    x: [...times, ...Array.from(times).reverse()], y: [...ready(low, log), ...ready(high, log).reverse()], mode: "lines",
    line: { width: 0 }, fill: "toself", fillcolor: hue(line, 0.2), hoverinfo: "skip", visible: line.shown, meta: "band",
  };
}

/* A single point has its standard error as a bar. */
function barOf(line, log) {
  const [error] = ready(line.errors, log), [low] = ready(line.band.low, log), [high] = ready(line.band.high, log);
  return { type: "data", symmetric: false, array: [high - error], arrayminus: [error - low], thickness: 1.5, width: 5 };
}

function traceOf(line, log) {
  const ours = line.origin === "ours", single = line.times.length === 1, hued = hue(line);
  const [width, size] = line.highlight === "headline" ? [4, 13] : [ours ? 2.4 : 1.8, 10];
  return {
    x: line.times, y: ready(line.errors, log), mode: single ? "markers" : "lines", visible: line.shown, meta: "line",
    line: { color: hued, width, dash: ours ? "solid" : "dash" },
    marker: { color: ours ? hued : colour("card"), size, line: { color: hued, width: 2 } },
    ...(single && line.band ? { error_y: { ...barOf(line, log), color: hued } } : {}),
    // In data, not in the template: a name is never read as one.
    text: line.texts.map((text) => `<b>${plain(short(line.name, 48))}</b> (${line.label})<br>${text}`),
    hovertemplate: "%{text}<extra></extra>", cliponaxis: false,
  };
}

/* The published ones lie below ours, and the headline on top of all. */
const height = (line) => 2 * (line.highlight === "headline") + (line.origin === "ours");

function tracesOf(log) {
  return [...lines].sort((one, other) => height(one) - height(other)).flatMap((line) => {
    const banded = line.highlight === "headline" && line.band && line.times.length > 1;
    return banded ? [bandOf(line, log), traceOf(line, log)] : [traceOf(line, log)];
  });
}

function errorAxis(log) {
  const [low, high] = contents.span;
  if (!log) return { range: [0, 1.05 * high] };
  const none = lines.some((line) => line.errors.includes(0));
  const { tickvals, ticktext } = CurveChart.prototype.logTicks(none ? 2 * contents.floor : low, high);
  const zero = none ? { tickvals: [contents.floor, ...tickvals], ticktext: ["0", ...ticktext] } : { tickvals, ticktext };
  const ticks = none || tickvals.length > 1 ? zero : {}; // too narrow for round numbers: as the library has it
  return { ...ticks, type: "log", range: [Math.log10(low) - 0.06, Math.log10(high) + 0.06] };
}

function timeAxis(log) {
  if (!log) return { range: [0, 1.03 * latest] };
  const first = Math.min(...lines.map((line) => line.times[0]));
  const { tickvals, ticktext } = CurveChart.prototype.logTicks(first, latest);
  const ticks = tickvals.length > 1 ? { tickvals, ticktext } : {};
  return { ...ticks, type: "log", range: [Math.log10(first) - 0.03, Math.log10(latest) + 0.03] };
}

function drawCurves() {
  const logError = find("log-error").checked, logTime = find("log-time").checked;
  Plotly.react(find("curves"), tracesOf(logError), layout({
    // A zoom outlives a click on the legend, but not a change of axes.
    hovermode: "closest", showlegend: false, uirevision: `${logError} ${logTime}`,
    xaxis: axis("mean time (observations)", timeAxis(logTime)), yaxis: axis("balanced error (%)", errorAxis(logError)),
  }), { ...CONFIG, showTips: false });
  for (const key of document.querySelectorAll(".keys button")) {
    key.firstElementChild.style.color = hue(lines[key.dataset.line]);
  }
}

/* One series: the true class against its strongest rival, every other class against its own, and the threshold. */
function drawTrajectories(element, { classes, truth, leads: packed, threshold, stop }) {
  const leads = unpack(packed), steps = leads.length / classes.length;
  const times = Array.from({ length: steps }, (_, t) => t + 1);
  const lineOf = (k) => ({
    x: times, y: leads.subarray(k * steps, (k + 1) * steps), mode: steps === 1 ? "markers" : "lines", meta: k,
    line: k === truth ? { color: colour("accent"), width: 3 } : { color: tint("warn-tint", 0.55), width: 1.4 },
    marker: { color: k === truth ? colour("accent") : tint("warn-tint", 0.55), size: 8 },
    text: times.map((t) => `${plain(short(classes[k]))}: ${leads[k * steps + t - 1].toFixed(2)} at t = ${t}`),
    hovertemplate: "%{text}<extra></extra>",
  });
  const others = classes.map((_, k) => k).filter((k) => k !== truth);
  const ring = stop && {
    x: [stop[1]], y: [leads[stop[0] * steps + stop[1] - 1]], mode: "markers", hoverinfo: "skip", meta: "ring", cliponaxis: false,
    marker: { color: colour("card"), size: 11, line: { color: colour("ink"), width: 2.5 } },
  };
  const leastOf = (values) => values.reduce((a, b) => Math.min(a, b));
  const top = leads.reduce((a, b) => Math.max(a, b), threshold || 1e-9);
  // All of the true class and of what is above it; the rest may leave the panel below.
  const bottom = Math.max(leastOf(leads), Math.min(leastOf(lineOf(truth).y), -1.6 * top));
  Plotly.react(element, [...others, truth].map(lineOf).concat(ring ? [ring] : []), layout({
    hovermode: "closest", showlegend: false,
    xaxis: axis("observations read", { range: [0.5, steps + 0.5], tickformat: "d" }),
    yaxis: axis("lead (log-likelihood ratio)", {
      range: [bottom - 0.06 * top, 1.12 * top], zeroline: true, zerolinecolor: colour("line"),
    }),
    shapes: threshold === null ? [] : [{
      type: "line", xref: "paper", x0: 0, x1: 1, y0: threshold, y1: threshold,
      line: { color: colour("ink"), width: 1.5, dash: "dash" },
    }],
  }), CONFIG);
}

function drawAll() {
  drawCurves();
  contents.trajectories.forEach((one, i) => drawTrajectories(find(`trajectory-${i}`), one));
}

function listen() {
  for (const key of document.querySelectorAll(".keys button")) {
    key.addEventListener("click", () => {
      const line = lines[key.dataset.line];
      line.shown = !line.shown;
      key.setAttribute("aria-pressed", line.shown);
      drawCurves();
    });
  }
  for (const box of ["log-error", "log-time"]) find(box).addEventListener("change", drawCurves);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  for (const [event, light] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(event, () => {
      document.documentElement.toggleAttribute("data-print", light);
      drawAll();
    });
  }
}

drawAll();
listen();
document.documentElement.dataset.ready = "yes";
