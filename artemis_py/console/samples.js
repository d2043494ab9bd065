// What was seen in the last minutes, kept in this page: rates between two samples, and small drawings of them.

import { drawing } from "./dom.js";

const KEPT_MS = 10 * 60_000;

// At one sample in five seconds these are more than the ten minutes.
const MAX_SAMPLES = 600;

// Samples that are further apart belong to no common line: the page was in the background, or another one was shown.
const MAX_GAP_MS = 90_000;

const WIDTH = 120;
const HEIGHT = 28;

export class Samples {
  #found = [];

  /** Add a sample at a time in milliseconds. A clock that went back is that of another start: forget the rest. */
  add(time, values) {
    const last = this.#found.at(-1);
    if (last && time < last.time) {
      this.#found = [];
    } else if (last && time === last.time) {
      return;
    }
    this.#found.push({ time, values });
    while (this.#found[0].time < time - KEPT_MS || this.#found.length > MAX_SAMPLES) {
      this.#found.shift();
    }
  }

  /** Return `[time, value]` of each sample. */
  levels(name) {
    return this.#found.map(({ time, values }) => [time, values[name]]);
  }

  /** Return `[time, per second]` between each two samples; NaN where a counter went back, and after a gap. */
  rates(name) {
    return this.#found.slice(1).map(({ time, values }, index) => {
      const before = this.#found[index];
      const rise = values[name] - before.values[name];
      const length = time - before.time;
      return [time, rise < 0 || length > MAX_GAP_MS ? NaN : (1000 * rise) / length];
    });
  }
}

/** Return the last value of a series; NaN without one. */
export function latest(series) {
  return series.at(-1)?.[1] ?? NaN;
}

/** Return a small line of a series; `label` says what it shows, for those who do not see it. */
export function sparkline(series, label, show) {
  const known = series.filter(([, value]) => Number.isFinite(value));
  const highest = Math.max(0, ...known.map(([, value]) => value));
  const said = known.length < 2 ? `${label}: no history yet` : `${label}: at most ${show(highest)} in the time shown`;
  const picture = drawing("svg", {
    class: "sparkline", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": said,
  });
  if (known.length > 1) {
    for (const points of lines(series, highest)) {
      const ground = [`${points[0].split(",")[0]},${HEIGHT}`, `${points.at(-1).split(",")[0]},${HEIGHT}`];
      picture.append(drawing("polygon", { points: [ground[0], ...points, ground[1]].join(" ") }),
        drawing("polyline", { points: points.join(" ") }));
    }
  }
  return picture;
}

function lines(series, highest) {
  const start = series[0][0];
  const span = series.at(-1)[0] - start || 1;
  const found = [[]];
  let last = start;
  for (const [time, value] of series) {
    if (time - last > MAX_GAP_MS) {
      found.push([]);
    }
    last = time;
    if (Number.isFinite(value)) {
      const x = (WIDTH * (time - start)) / span;
      const y = HEIGHT - 2 - ((HEIGHT - 4) * value) / (highest || 1);
      found.at(-1).push(`${x.toFixed(1)},${y.toFixed(1)}`);
    } else {
      found.push([]);
    }
  }
  return found.filter((line) => line.length > 1);
}
