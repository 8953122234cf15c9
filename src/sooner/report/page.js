/* The controls, the tables and what they say. Texts are set as text, never as markup. */

const contents = JSON.parse(document.getElementById("contents").textContent);
const numbers = new Numbers(contents);
const chosen = new Records(contents.chosen);
const trajectories = contents.trajectories.map((one) => ({
  ...one, times: unpack(one.times), leads: unpack(one.leads), statistic: unpack(one.statistic),
}));
const READABLE = 20; // classes; more of them are drawn as a picture instead of a table

const find = (id) => document.getElementById(id);
const part = (name) => document.querySelector(`[data-testid="${name}"]`);
const whole = (count) => count.toLocaleString("en-US");
const percentNumber = (share) => (100 * share).toFixed(Math.abs(share) < 0.0995 ? 2 : 1);
const percent = (share) => `${percentNumber(share)}\u00a0%`;
const brief = (value) => (value === Infinity ? "∞" : String(Number(value.toPrecision(4))));

/* The rounded number for eyes, the exact one for machines (and for the tests). */
function say(element, text, value) {
  element.textContent = text;
  if (value !== undefined) element.dataset.value = showNumber(value);
}

function make(tag, { text, testid, ...more } = {}, ...children) {
  const element = Object.assign(document.createElement(tag), more);
  if (text !== undefined) element.textContent = text;
  if (testid) element.dataset.testid = testid;
  element.append(...children);
  return element;
}

const current = parseNumber(contents.threshold);
const state = { threshold: numbers.settle(current), series: 0, now: null };
const curveChart = new CurveChart(find("curve"), contents, numbers);
const timesChart = new TimesChart(find("times"), numbers, contents.horizon);
const trajectoryChart = new TrajectoryChart(find("trajectory"), contents);

/* The tables are built once; moving the slider only changes what stands in them. */

function buildConfusion() {
  if (numbers.classes > READABLE) {
    find("confusion").classList.add("plot", "tall");
    return null;
  }
  const head = make("tr", {}, make("td"), ...contents.classes.map((name) => make("th", { text: name, title: name, scope: "col" })));
  const cells = [];
  const rows = contents.classes.map((name, truth) => {
    const row = contents.classes.map((_, label) => make("td", { testid: `confusion-${truth}-${label}` }));
    cells.push(...row);
    return make("tr", {}, make("th", { text: name, title: name, scope: "row" }), ...row);
  });
  const longest = Math.max(...contents.classes.map((name) => name.length));
  const digits = String(Math.max(...numbers.counts)).length;
  const style = find("confusion").style;
  style.setProperty("--classes", numbers.classes);
  style.setProperty("--names", `${Math.min(1 + 0.65 * longest, 7)}em`);
  style.setProperty("--cell", `${0.85 + 0.6 * digits}em`);
  find("confusion").append(make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
  return cells;
}

function buildClasses() {
  return contents.classes.map((name, k) => {
    const cell = (what) => make("td", { testid: `class-${k}-${what}` });
    const parts = { count: cell("count"), error: cell("error"), limits: cell("limits"), time: cell("time") };
    const whisker = make("div", { className: "whisker" }, make("i"), make("b"));
    const drawn = make("td", { className: "wide" }, whisker);
    find("classes").tBodies[0].append(
      make("tr", {}, make("th", { text: name, scope: "row" }), parts.count, parts.error, parts.limits, drawn, parts.time),
    );
    return { ...parts, whisker };
  });
}

const confusionCells = buildConfusion();
const classCells = buildClasses();

function fillConfusion({ confusion, rows }) {
  if (!confusionCells) return drawHeat(find("confusion"), contents.classes, state.now);
  confusionCells.forEach((cell, index) => {
    const truth = Math.floor(index / numbers.classes), label = index % numbers.classes;
    const share = rows[truth].count ? confusion[index] / rows[truth].count : 0;
    say(cell, whole(confusion[index]), confusion[index]);
    cell.className = confusion[index] ? "" : "none";
    // A square root, so that rare mistakes can be seen; never so strong that the number is hard to read.
    const tone = truth === label ? "--tint" : "--warn-tint";
    cell.style.background = share ? `rgba(var(${tone}), ${0.06 + 0.4 * Math.sqrt(share)})` : "none";
    cell.title = `${contents.classes[truth]} → ${contents.classes[label]}: ${percent(share)}`;
  });
}

function fillClasses({ rows }) {
  const widest = Math.max(...rows.map((row) => (row.count ? row.high : 0)), 1e-9);
  rows.forEach((row, k) => {
    const cells = classCells[k], absent = row.count === 0;
    say(cells.count, whole(row.count), row.count);
    say(cells.error, absent ? "–" : percent(row.error), row.error);
    say(cells.limits, absent ? "–" : `${percentNumber(row.low)}–${percent(row.high)}`);
    Object.assign(cells.limits.dataset, { low: showNumber(row.low), high: showNumber(row.high) });
    say(cells.time, absent ? "–" : row.time.toFixed(2), row.time);
    const [bar, dot] = cells.whisker.children;
    cells.whisker.hidden = absent;
    bar.style.left = `${(100 * row.low) / widest}%`;
    bar.style.width = `${(100 * (row.high - row.low)) / widest}%`;
    dot.style.left = `${(100 * row.error) / widest}%`;
  });
}

function fillValues(now) {
  say(part("balanced-error"), percent(now.error), now.error);
  say(part("balanced-limits"), `${percentNumber(now.low)}–${percent(now.high)}`);
  Object.assign(part("balanced-limits").dataset, { low: showNumber(now.low), high: showNumber(now.high) });
  say(part("mean-time"), now.time.toFixed(2), now.time);
  say(part("horizon"), `of at most ${whole(contents.horizon)}`);
  say(part("forced"), percent(now.forced), now.forced);
  say(part("forced-count"), `${whole(now.forcedCount)} of ${whole(numbers.series)}`, now.forcedCount);
  say(part("plain-error"), percent(now.plain), now.plain);
  say(part("wrong-count"), `${whole(now.wrong)} of ${whole(numbers.series)}`, now.wrong);
}

/* The series that is looked at, as it is decided now. */
function decision() {
  return chosen.decide(state.series, state.threshold);
}

function fillVerdict() {
  const { label, time, crossed } = decision(), truth = chosen.truths[state.series];
  const right = label === truth;
  const words = `${right ? "right" : "wrong"}${crossed ? "" : ", forced by the end of the series"}`;
  const shown = trajectories[state.series];
  part("verdict").replaceChildren(
    `Series ${shown.series}: named `, make("b", { text: contents.classes[label] }), ` at t = ${time} of ${shown.times.at(-1)}, `,
    make("b", { text: words, className: right ? "right" : "wrong" }), right ? "." : ` (it is ${contents.classes[truth]}).`,
  );
  Object.assign(part("verdict").dataset, { label, time, crossed });
}

let frame = 0;

/* Numbers change at once; drawings follow with the next frame, however fast the slider is moved. */
function go(threshold) {
  state.threshold = numbers.settle(threshold);
  state.now = numbers.measure(state.threshold);
  find("message").textContent = "";
  const slider = find("slider");
  slider.value = Math.min(firstAtLeast(numbers.drawn.thresholds, state.threshold), numbers.drawn.thresholds.length - 1);
  const { error, time } = state.now;
  slider.setAttribute("aria-valuetext", `${brief(state.threshold)}: error ${percent(error)}, mean time ${time.toFixed(2)}`);
  find("exact").value = showNumber(state.threshold);
  // What was certified is one threshold; at any other place of the slider nothing is promised.
  find("promise").textContent = state.threshold === numbers.settle(current) ? (contents.promise ?? "") : "";
  fillValues(state.now);
  if (confusionCells) fillConfusion(state.now);
  fillClasses(state.now);
  fillVerdict();
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(() => {
    curveChart.move(state.now);
    timesChart.draw(state.now);
    if (!confusionCells) fillConfusion(state.now);
    trajectoryChart.move({ threshold: state.threshold, decision: decision() });
  });
}

function drawAll() {
  curveChart.draw({ logError: find("log-error").checked, logTime: find("log-time").checked }, state.now);
  timesChart.draw(state.now);
  fillConfusion(state.now);
  trajectoryChart.draw(trajectories[state.series], { threshold: state.threshold, decision: decision() });
}

function look(series) {
  state.series = (series + trajectories.length) % trajectories.length;
  find("series").value = state.series;
  fillVerdict();
  trajectoryChart.draw(trajectories[state.series], { threshold: state.threshold, decision: decision() });
}

/* What Python would refuse is refused here too; the field goes back to what holds. */
function typed() {
  const threshold = parseNumber(find("exact").value);
  const low = parseNumber(contents.rule.low), high = parseNumber(contents.rule.high);
  const fits = threshold === Infinity || (threshold >= low && threshold <= high);
  if (fits && (contents.rule.grain === "any" || threshold === Infinity || Number.isInteger(threshold))) return go(threshold);
  const kind = contents.rule.grain === "whole" ? "an integer" : "a number";
  const bounds = high < Infinity ? ` in ${low}..${high}` : low > -Infinity ? ` of at least ${low}` : "";
  const got = find("exact").value;
  go(state.threshold);
  find("message").textContent = `The threshold must be ${kind}${bounds}, or inf; got ${short(got)}.`;
}

function neighbour(side) {
  const { thresholds } = numbers.curve;
  const here = firstAtLeast(thresholds, state.threshold);
  const there = side < 0 ? here - 1 : thresholds[here] > state.threshold ? here : here + 1;
  if (thresholds[there] !== undefined) go(thresholds[there]);
}

function aim(event, field, choose, refuse) {
  event.preventDefault();
  const text = find(field).value.trim();
  if (text === "") return;
  const threshold = choose(text);
  if (threshold !== null) go(threshold);
  else find("message").textContent = refuse();
}

/* The decimal point is moved in the text, so that 2.9 % is the very number 0.029. */
const asShare = (text) => (/e/i.test(text) ? Number(text) / 100 : Number(`${text}e-2`));
const least = (values) => values.reduce((one, other) => Math.min(one, other));

function listen() {
  find("slider").addEventListener("input", (event) => go(numbers.drawn.thresholds[event.target.valueAsNumber]));
  find("exact").addEventListener("change", typed);
  find("previous").addEventListener("click", () => neighbour(-1));
  find("next").addEventListener("click", () => neighbour(1));
  find("reset").addEventListener("click", () => go(current));
  find("wait").addEventListener("click", () => go(Infinity));
  find("error-form").addEventListener("submit", (event) => aim(
    event, "max-error", (text) => numbers.leastForError(asShare(text)),
    () => `No threshold has an error that small on these data: the smallest is ${percent(least(numbers.curve.errors))}.`,
  ));
  find("time-form").addEventListener("submit", (event) => aim(
    event, "max-time", (text) => numbers.greatestForTime(Number(text)),
    () => `No threshold has a mean time that small: the smallest is ${numbers.curve.times[0].toFixed(2)}.`,
  ));
  for (const box of ["log-error", "log-time"]) find(box).addEventListener("change", drawAll);
  find("series").addEventListener("change", (event) => look(Number(event.target.value)));
  find("series-previous").addEventListener("click", () => look(state.series - 1));
  find("series-next").addEventListener("click", () => look(state.series + 1));
  find("curve").on("plotly_click", ({ points: [point] }) => {
    if (point.data.customdata) go(numbers.drawn.thresholds[point.pointNumber]);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  for (const [event, light] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(event, () => {
      document.documentElement.toggleAttribute("data-print", light);
      drawAll();
    });
  }
}

function start() {
  find("slider").max = numbers.drawn.thresholds.length - 1;
  find("reset").textContent = `Back to ${brief(current)}`;
  // Logarithmic where the errors span more than a factor of ten, and where nothing happens for most of the time.
  const { errors, times } = numbers.drawn;
  const positive = errors.filter((error) => error > 0);
  find("log-error").checked = positive.length > 0 && Math.max(...positive) > 10 * Math.min(...positive);
  find("log-time").checked = times[errors.indexOf(least(errors))] < 0.3 * times.at(-1);
  contents.categories.forEach((category, index) => {
    const name = (one, i) => `Series ${one.series} – ${contents.classes[chosen.truths[i]]}`;
    const option = (one, i) => make("option", { text: name(one, i), value: i });
    const options = trajectories.flatMap((one, i) => (one.category === index ? [option(one, i)] : []));
    if (options.length) find("series").append(make("optgroup", { label: category }, ...options));
  });
  go(current);
  drawAll();
  listen();
  document.documentElement.dataset.ready = "yes";
}

start();
