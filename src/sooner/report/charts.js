/* The drawings. Plotly reads a little HTML and formulas between dollar signs in its texts, so names go through `plain` first. */

const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset" };
const DASHES = ["dash", "dot", "dashdot", "longdash"];

const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");
const short = (text, most = 28) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function tint(name, share) {
  return `rgba(${colour(name)}, ${share})`;
}

function axis(title, more) {
  return {
    title: { text: title, standoff: 8 }, gridcolor: colour("grid"), linecolor: colour("line"), zeroline: false, automargin: true,
    ticks: "", fixedrange: matchMedia("(pointer: coarse)").matches, ...more,
  };
}

function layout(more = {}) {
  const small = innerWidth < 760;
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: small ? 44 : 56, r: 12, t: 12, b: 44 },
    font: { family: getComputedStyle(document.body).fontFamily, size: small ? 12 : 13, color: colour("soft") },
    hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") } },
    legend: { x: 1, xanchor: "right", y: 1, yanchor: "top", bgcolor: tint("card-tint", 0.7), font: { color: colour("ink") } },
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", ...more,
  };
}

/* A mark that lies over a plot and moves without the plot being drawn again, which would take twenty times as long. */
class Mark {
  constructor(element, kind) {
    this.element = element;
    this.node = make("div", { className: `mark ${kind}`, testid: `${element.id}-${kind}`, hidden: true });
    element.parentElement.append(this.node);
  }

  /* To a point of the plot; without x, a level across it. */
  place({ x, y, yaxis = "yaxis" }) {
    const { xaxis: across, [yaxis]: up } = this.element._fullLayout;
    const left = x === undefined ? 0 : across.d2p(x), top = up.d2p(y);
    this.node.hidden = !(left >= -1 && left <= across._length + 1 && top >= -1 && top <= up._length + 1);
    Object.assign(this.node.dataset, { x: x === undefined ? "" : showNumber(x), y: showNumber(y) });
    if (this.node.hidden) return;
    this.node.style.left = `${across._offset + left}px`;
    this.node.style.top = `${up._offset + top}px`;
    if (x === undefined) this.node.style.width = `${across._length}px`;
  }
}

/* Error over time: the exact curve with its band, the baselines and points beside it, and the point that moves. */
class CurveChart {
  constructor(element, contents, numbers) {
    Object.assign(this, { element, contents, drawn: numbers.drawn });
    this.others = contents.baselines.map((other) => ({ name: other.name, ...unpackAll({ x: other.times, y: other.errors }) }));
    // On a logarithmic axis, no error at all is drawn half as high as the least there can be.
    this.floor = 0.5 / (numbers.counts.filter(Boolean).length * Math.max(...numbers.counts));
    this.mark = new Mark(element, "point");
  }

  percent(errors) {
    const least = this.log ? this.floor : 0;
    return Array.from(errors, (error) => 100 * Math.max(error, least));
  }

  draw({ logError, logTime }, now) {
    this.log = logError;
    const { times, errors, low, high, thresholds } = this.drawn;
    const line = { color: colour("accent"), width: 2.5 };
    const hover = "time %{x:.2f}, error %{y:.2f} %";
    const quiet = { mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
    const traces = [
      { x: times, y: this.percent(low), ...quiet },
      { x: times, y: this.percent(high), ...quiet, fill: "tonexty", fillcolor: tint("tint", 0.16) },
      ...this.others.map((other, i) => ({
        x: other.x, y: this.percent(other.y), name: plain(short(other.name)), mode: "lines",
        line: { color: colour(`other-${(i % 5) + 1}`), width: 2, dash: DASHES[i % 4] }, hovertemplate: hover,
      })),
      {
        x: times, y: this.percent(errors), name: plain(this.contents.rule.name), mode: "lines", line, legendrank: 1,
        customdata: Array.from(thresholds, (value) => (value === Infinity ? "∞" : value.toPrecision(4))),
        hovertemplate: `${hover}<br>threshold %{customdata}<extra></extra>`,
      },
      {
        x: this.contents.points.map((point) => point.x), y: this.percent(this.contents.points.map((point) => point.y)),
        text: this.contents.points.map((point) => plain(short(point.name))), mode: "markers+text", textposition: "top center",
        marker: { color: colour("ink"), size: 8, symbol: "diamond" }, textfont: { color: colour("ink") }, showlegend: false,
        hovertemplate: `%{text}<br>${hover}<extra></extra>`, cliponaxis: false,
      },
    ];
    const linear = { type: "linear", rangemode: "tozero" };
    Plotly.react(this.element, traces, layout({
      hovermode: "closest", legend: { ...layout().legend, traceorder: "normal" },
      xaxis: axis("mean time (observations)", logTime ? { type: "log", ...this.logTicks(1, Math.max(...times)) } : linear),
      yaxis: axis("balanced error (%)", logError ? this.logErrors() : linear),
    }), CONFIG);
    this.move(now);
    if (!this.follows) this.follows = this.element.on("plotly_afterplot", () => this.move(this.now));
  }

  logErrors() {
    const others = [...this.others.flatMap((other) => Array.from(other.y)), ...this.contents.points.map((point) => point.y)];
    const top = 100 * Math.max(...this.drawn.high, ...others), lowest = 100 * Math.min(...this.drawn.low, ...others);
    const least = 100 * this.floor, bottom = Math.max(lowest, least);
    const { tickvals, ticktext } = this.logTicks(Math.max(bottom, 2 * least), top);
    const zero = bottom === least ? { tickvals: [least, ...tickvals], ticktext: ["0", ...ticktext] } : { tickvals, ticktext };
    return { ...zero, type: "log", range: [Math.log10(bottom) - 0.08, Math.log10(top) + 0.08] };
  }

  /* 1, 2, 5, 10, ... or powers of ten alone where those would be many. */
  logTicks(low, high) {
    const decades = Math.log10(high / low);
    const values = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      for (const digit of decades > 2.5 ? [1] : [1, 2, 5]) values.push(Number(`${digit}e${power}`));
    }
    const tickvals = values.filter((value) => value >= low && value <= high);
    return { tickvals, ticktext: tickvals.map(String) };
  }

  move(now) {
    this.now = now;
    this.mark.place({ x: now.time, y: this.percent([now.error])[0] });
  }
}

/* How many series are decided when, rightly and wrongly. */
class TimesChart {
  constructor(element, numbers, horizon) {
    Object.assign(this, { element, numbers, horizon });
  }

  draw({ bins }) {
    const { width } = this.numbers;
    const starts = Array.from({ length: this.numbers.bins }, (_, i) => i * width + 1);
    const spans = starts.map((t) => (width === 1 ? `t = ${t}` : `t = ${t}–${Math.min(t + width - 1, this.horizon)}`));
    const bars = ["right", "wrong"].map((name, side) => ({
      type: "bar", name, x: starts.map((t) => t + (width - 1) / 2), y: starts.map((_, i) => bins[2 * i + side]), width,
      text: spans, textposition: "none", hovertemplate: "%{text}: %{y} %{fullData.name}<extra></extra>",
      marker: { color: colour(side ? "warn" : "accent"), line: { color: colour("card"), width: starts.length > 60 ? 0 : 1 } },
    }));
    Plotly.react(this.element, bars, layout({
      barmode: "stack", bargap: 0, margin: { l: 48, r: 8, t: 12, b: 44 },
      legend: { ...layout().legend, orientation: "h", y: 1.02, yanchor: "bottom", traceorder: "normal" },
      xaxis: axis("observations read", { range: [0.5, this.horizon + 0.5], tickformat: "d" }),
      yaxis: axis("series", { tickformat: "d" }),
    }), CONFIG);
  }
}

/* Shares of each true class; a table (see `page.js`) while the classes are few enough to read. */
function drawHeat(element, names, { confusion, rows }) {
  const labels = names.map((name) => plain(short(name, 16)));
  const ticks = names.length > 40 ? { showticklabels: false } : {
    tickvals: names.map((_, k) => k), ticktext: labels, tickfont: { size: Math.max(6, Math.min(11, 280 / names.length)) },
  };
  const row = (k) => Array.from(confusion.subarray(k * names.length, (k + 1) * names.length));
  Plotly.react(element, [{
    type: "heatmap", z: rows.map(({ count }, k) => row(k).map((cell) => (count ? cell / count : 0))),
    text: names.map((_, k) => row(k)),
    x: names.map((_, k) => k), y: names.map((_, k) => k), zmin: 0, zmax: 1, showscale: false,
    colorscale: [[0, tint("tint", 0)], [0.1, tint("tint", 0.35)], [1, tint("tint", 1)]],
    customdata: names.map((_, k) => names.map((_, l) => `${labels[k]} → ${labels[l]}`)),
    hovertemplate: "%{customdata}: %{text}<extra></extra>",
  }], layout({
    margin: { l: 60, r: 8, t: 8, b: 50 }, xaxis: axis("named", { ...ticks, tickangle: -90, constrain: "domain" }),
    yaxis: axis("true", { ...ticks, autorange: "reversed", scaleanchor: "x", constrain: "domain" }),
  }), CONFIG);
}

/* One series: the true class against its strongest rival, every other class against its own, and where it is decided. */
class TrajectoryChart {
  constructor(element, contents) {
    Object.assign(this, { element, contents, own: contents.rule.unit === "own" });
    this.level = new Mark(element, "level");
    this.ring = new Mark(element, "ring");
  }

  draw(shown, now) {
    const { times, leads, lines, statistic } = shown;
    const steps = times.length, names = this.contents.classes.map((name) => plain(short(name)));
    this.shown = shown;
    const line = (i) => leads.subarray(i * steps, (i + 1) * steps);
    const one = steps === 1 ? "lines+markers" : "lines";
    const traces = lines.map((k, i) => ({
      x: times, y: line(i), mode: one, name: i ? "other classes" : `true class: ${names[k]}`,
      legendgroup: i ? "others" : "truth", legendrank: i ? 2 : 1, showlegend: i < 2,
      line: i ? { color: tint("warn-tint", 0.55), width: 1.4 } : { color: colour("accent"), width: 3 },
      hovertemplate: `${names[k]}: %{y:.2f} at t = %{x}<extra></extra>`,
    })).reverse();
    if (this.own) {
      const name = plain(`below: ${this.contents.rule.statistic.replace(/^The /, "")}`);
      traces.push({
        x: times, y: statistic, mode: one, name, yaxis: "y2", line: { color: colour("ink"), width: 1.6 },
        hovertemplate: "%{y:.3f}<extra></extra>",
      });
    }
    const least = leads.reduce((a, b) => Math.min(a, b)), most = leads.reduce((a, b) => Math.max(a, b), 1e-9);
    const range = [Math.max(least, -1.6 * most) - 0.06 * most, 1.12 * most];
    Plotly.react(this.element, traces, layout({
      hovermode: "closest",
      legend: { ...layout().legend, orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", traceorder: "normal" },
      xaxis: axis("observations read", { range: [0.5, times[steps - 1] + 0.5], tickformat: "d", anchor: this.own ? "y2" : "y" }),
      yaxis: axis(this.own ? "lead (LLR)" : "lead (log-likelihood ratio)", {
        range, domain: this.own ? [0.36, 1] : [0, 1], zeroline: true, zerolinecolor: colour("line"),
      }),
      ...(this.own ? { yaxis2: axis("", { domain: [0, 0.27] }) } : {}),
    }), CONFIG);
    this.move(now);
    if (!this.follows) this.follows = this.element.on("plotly_afterplot", () => this.move(this.now));
  }

  move(now) {
    this.now = now;
    const { times, leads, lines } = this.shown;
    const line = Math.max(lines.indexOf(now.decision.label), 0);
    // Of a long series only some steps are drawn: the ring goes to the nearest one before.
    const step = Math.max(firstAtLeast(times, now.decision.time + 0.5) - 1, 0);
    this.level.place({ y: now.threshold, yaxis: this.own ? "yaxis2" : "yaxis" });
    this.ring.place({ x: now.decision.time, y: leads[line * times.length + step] });
  }
}
