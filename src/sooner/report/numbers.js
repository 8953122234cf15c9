"use strict";

/* The numbers of the page. What is computed here equals what Python computes, to the last bit: the same records of the same
   statistic are searched, whole numbers are counted, and the few divisions and sums are done in the same order. */

const TYPES = { f8: Float64Array, f4: Float32Array, u1: Uint8Array, u2: Uint16Array, u4: Uint32Array };

function unpack({ type, data }) {
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new TYPES[type](bytes.buffer);
}

function unpackAll(packed) {
  return Object.fromEntries(Object.entries(packed).map(([name, array]) => [name, unpack(array)]));
}

/* "inf" and its friends, or a number as JavaScript reads it; NaN for everything else. */
function parseNumber(text) {
  const trimmed = text.trim().toLowerCase();
  const infinite = /^([+-]?)(inf|infinity|∞)$/.exec(trimmed);
  if (infinite) return infinite[1] === "-" ? -Infinity : Infinity;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/.test(trimmed) ? Number(trimmed) : NaN;
}

function showNumber(value) {
  return value === Infinity ? "inf" : value === -Infinity ? "-inf" : String(value);
}

/* The index of the first value that is at least `value`, in ascending values[low..high). */
function firstAtLeast(values, value, low = 0, high = values.length) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] >= value) high = middle;
    else low = middle + 1;
  }
  return low;
}

/* The states of all series: see `sooner.report.records`. */
class Records {
  constructor(packed) {
    Object.assign(this, unpackAll(packed));
  }

  state(series, threshold) {
    return firstAtLeast(this.values, threshold, this.starts[series], this.starts[series + 1] - 1);
  }

  decide(series, threshold) {
    const state = this.state(series, threshold);
    return { label: this.labels[state], time: this.times[state], crossed: state < this.starts[series + 1] - 1 };
  }

  tally(threshold, { classes, bins, width }) {
    const sums = {
      confusion: new Int32Array(classes * classes), bins: new Int32Array(2 * bins), waits: new Float64Array(classes), crossed: 0,
    };
    for (let series = 0; series < this.truths.length; series++) {
      const state = this.state(series, threshold);
      const truth = this.truths[series], label = this.labels[state], time = this.times[state];
      sums.confusion[truth * classes + label] += 1;
      sums.bins[2 * Math.floor((time - 1) / width) + (label === truth ? 0 : 1)] += 1;
      sums.waits[truth] += time;
      if (state < this.starts[series + 1] - 1) sums.crossed += 1;
    }
    return sums;
  }

  /* Every point of the curve, as `sooner.evaluate.sat_curve` gives it. */
  curve(counts) {
    const { values, times, labels, starts, truths } = this;
    const owner = new Uint32Array(values.length);
    const events = new Uint32Array(values.length - truths.length);
    const mistakes = new Int32Array(counts.length);
    let waited = 0, event = 0;
    for (let series = 0; series < truths.length; series++) {
      waited += times[starts[series]];
      mistakes[truths[series]] += labels[starts[series]] !== truths[series] ? 1 : 0;
      for (let state = starts[series]; state < starts[series + 1] - 1; state++) {
        owner[state] = series;
        events[event++] = state;
      }
    }
    events.sort((one, other) => values[one] - values[other]);
    const points = { thresholds: [], times: [], errors: [] };
    const note = (threshold) => {
      points.thresholds.push(threshold);
      points.times.push(waited / truths.length);
      points.errors.push(balanced(mistakes, counts));
    };
    for (let i = 0; i < events.length; i++) {
      const state = events[i], truth = truths[owner[state]];
      if (i === 0 || values[state] !== values[events[i - 1]]) note(values[state]);
      waited += times[state + 1] - times[state];
      mistakes[truth] += (labels[state + 1] !== truth ? 1 : 0) - (labels[state] !== truth ? 1 : 0);
    }
    note(Infinity);
    return points;
  }
}

/* Finished counts at the drawn points of the curve, where records would be too many for a page. */
class Steps {
  constructor(packed, drawn) {
    Object.assign(this, unpackAll(packed));
    this.drawn = drawn;
  }

  tally(threshold, { classes, bins }) {
    const index = firstAtLeast(this.drawn.thresholds, threshold);
    const row = (array, size) => array.subarray(index * size, (index + 1) * size);
    return {
      confusion: row(this.confusion, classes * classes), bins: row(this.bins, 2 * bins), waits: row(this.waits, classes),
      crossed: this.crossed[index],
    };
  }

  curve() {
    return this.drawn;
  }
}

/* The mean of the class errors, added up in the order of the classes; a class without a series is in no mean. */
function balanced(mistakes, counts) {
  let sum = 0, present = 0;
  for (let k = 0; k < counts.length; k++) {
    if (counts[k] === 0) continue;
    sum += mistakes[k] / counts[k];
    present += 1;
  }
  return sum / present;
}

class Numbers {
  constructor(contents) {
    Object.assign(this, { counts: contents.counts, classes: contents.classes.length, width: contents.width });
    this.bins = Math.ceil(contents.horizon / contents.width);
    this.series = contents.counts.reduce((sum, count) => sum + count, 0);
    this.drawn = unpackAll(contents.curve);
    this.limits = Object.fromEntries(Object.entries(contents.limits).map(([count, table]) => [count, unpackAll(table)]));
    this.byGroup = contents.by_group ? unpackAll(contents.by_group) : null;
    this.source = contents.records ? new Records(contents.records) : new Steps(contents.steps, this.drawn);
    this.everywhere = Boolean(contents.records);
  }

  /* Sorting takes a moment with many series, so it waits until someone asks. */
  get curve() {
    return (this.whole ??= this.source.curve(this.counts));
  }

  /* The threshold that is meant: itself, or the next one that the page knows. */
  settle(threshold) {
    return this.everywhere ? threshold : this.drawn.thresholds[firstAtLeast(this.drawn.thresholds, threshold)];
  }

  leastForError(limit) {
    const index = this.curve.errors.findIndex((error) => error <= limit);
    return index < 0 ? null : this.curve.thresholds[index];
  }

  greatestForTime(limit) {
    const index = this.curve.times.findLastIndex((time) => time <= limit);
    return index < 0 ? null : this.curve.thresholds[index];
  }

  measure(threshold) {
    const tally = this.source.tally(threshold, this);
    // Limits by group are known at the drawn points; between two of them they are those of the next.
    const index = firstAtLeast(this.drawn.thresholds, threshold);
    const rows = this.counts.map((count, k) => this.classRow(tally, count, k, index));
    const present = rows.filter((row) => row.count > 0);
    const wrong = rows.reduce((sum, row) => sum + row.wrong, 0);
    const spread = (distance) =>
      Math.sqrt(present.reduce((sum, row) => sum + distance(row) * distance(row), 0)) / present.length;
    const error = balanced(rows.map((row) => row.wrong), this.counts);
    return {
      threshold, rows, wrong, error, confusion: tally.confusion, bins: tally.bins,
      low: this.byGroup ? this.drawn.low[index] : Math.max(error - spread((row) => row.error - row.low), 0),
      high: this.byGroup ? this.drawn.high[index] : Math.min(error + spread((row) => row.high - row.error), 1),
      time: tally.waits.reduce((sum, wait) => sum + wait, 0) / this.series,
      forced: 1 - tally.crossed / this.series,
      forcedCount: this.series - tally.crossed,
      plain: wrong / this.series,
    };
  }

  classRow(tally, count, k, index) {
    const wrong = count - tally.confusion[k * this.classes + k];
    if (count === 0) return { count, wrong, error: NaN, low: NaN, high: NaN, time: NaN };
    const table = this.byGroup ?? this.limits[count], at = this.byGroup ? index * this.classes + k : wrong;
    return { count, wrong, error: wrong / count, low: table.low[at], high: table.high[at], time: tally.waits[k] / count };
  }
}
