// Results of a sweep over its trials: a dot for each trial, and a line for the best until then of those that were trained
// in full.
import { counted, isNumber, resultText } from "./format.js";
import { figureTexts, leastSpan, ticks } from "./plot.js";

const m = window.m;
const [width, height] = [460, 236];
const box = { left: 72, right: 10, top: 12, bottom: 34 };

function pointsOf({ rows, maximize }, isShown) {
  let best = null;
  return rows.flatMap((row) => {
    if (!isNumber(row.result) || row.state === "failed" || !isShown(row.trial)) return [];
    const isFull = row.state === "ended";
    if (isFull && (best === null || (maximize ? row.result > best : row.result < best))) best = row.result;
    return [{ trial: row.trial, result: row.result, isFull, best }];
  });
}

// Results beyond the axis that the server names, as of trainings that diverged, leave the others room.
function scaleOf(points, axis) {
  const inside = points.filter(({ result }) => result >= axis.low && result <= axis.high);
  const results = (inside.length > 0 ? inside : points).map((one) => one.result);
  let [low, high] = [Math.min(...results), Math.max(...results)];
  const pad = high > low ? Math.max((high - low) * 0.06, leastSpan(low, high)) : Math.abs(high) * 0.1 || 1;
  [low, high] = [Math.max(low - pad, -Number.MAX_VALUE), Math.min(high + pad, Number.MAX_VALUE)];
  const share = (result) => Math.max(0, Math.min(1, (result / 2 - low / 2) / (high / 2 - low / 2))); // the whole distance may be infinite
  const [first, last] = [points[0].trial, points[points.length - 1].trial];
  return { low, high, first, last, x: (trial) => box.left + (last === first ? 0.5 : (trial - first) / (last - first)) * (width - box.left - box.right),
    y: (result) => box.top + (1 - share(result)) * (height - box.top - box.bottom) };
}

// As steps: the best changes at a trial.
function bestPath(points, scale) {
  let path = "";
  for (const { trial, best } of points) {
    if (best === null) continue;
    const [x, y] = [scale.x(trial).toFixed(1), scale.y(best).toFixed(1)];
    path += path ? `H${x}V${y}` : `M${x} ${y}`;
  }
  return path;
}

const isBeyond = ({ result }, { low, high }) => result < low || result > high;

// A dot, or a triangle at the end of the axis.
function mark(one, scale, light) {
  const attrs = { class: one.isFull ? "" : "early", onpointerenter: () => light(one.trial), onpointerleave: () => light(null) };
  const [x, y] = [scale.x(one.trial), scale.y(one.result)];
  const title = m("title", `trial ${one.trial}: ${resultText(one.result)}`);
  return isBeyond(one, scale) ? m("path.dot", { ...attrs, d: `M${x.toFixed(1)} ${y.toFixed(1)}l-4.5 ${one.result > scale.high ? 8 : -8}h9z` }, title)
    : m("circle.dot", { ...attrs, cx: x, cy: y, r: 3.2 }, title);
}

// Thousands of dots are drawn again only when there are others.
const Drawing = {
  onbeforeupdate: ({ attrs }, old) => attrs.points !== old.attrs.points,
  view: ({ attrs: { points, scale, light } }) => {
    const steps = ticks(scale.low, scale.high, 4);
    const texts = figureTexts(steps);
    const numbers = ticks(scale.first, scale.last, 5, 1);
    return m("g", steps.map((value, at) => [m("line.grid", { x1: box.left, x2: width - box.right, y1: scale.y(value), y2: scale.y(value) }),
      m("text", { x: box.left - 8, y: scale.y(value) + 4, "text-anchor": "end" }, texts[at])]),
    numbers.map((trial) => m("text", { x: scale.x(trial), y: height - 16, "text-anchor": "middle" }, trial)),
    m("text", { x: (box.left + width - box.right) / 2, y: height - 2, "text-anchor": "middle" }, "trial"),
    m("path.best-line", { d: bestPath(points, scale) }),
    points.map((one) => mark(one, scale, light)));
  },
};

// attrs: {about, lit: number of a trial or null, light(trial), isShown(trial)}
export class History {
  // The same list while it has the same dots.
  points(about, isShown) {
    const points = pointsOf(about, isShown);
    const axis = about.parallel.axes[about.parallel.axes.length - 1];
    const key = JSON.stringify([points, axis.low, axis.high]);
    if (key !== this.key) Object.assign(this, { key, known: points, scale: points.length > 0 ? scaleOf(points, axis) : null });
    return this.known;
  }

  view({ attrs: { about, lit, light, isShown } }) {
    const points = this.points(about, isShown);
    if (points.length === 0) return m("p.soft", "No trial that is shown has a result");
    const { scale } = this;
    const { best } = points[points.length - 1];
    const at = points.find((one) => one.trial === lit);
    const beyond = points.filter((one) => isBeyond(one, scale)).length;
    const label = `Results of ${counted(points.length, "trial")}${best === null ? "" : `, the best ${resultText(best)}`}; the table has the same values`;
    return [m("svg.history", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, m(Drawing, { points, scale, light }),
      at ? m("circle.lit", { cx: scale.x(at.trial), cy: scale.y(at.result), r: 6 }) : null),
    m("p.soft", `The line is the best until then.${points.every((one) => one.isFull) ? "" : " Paler dots are trials that were not trained in full."}${
      beyond > 0 ? ` Triangles: ${counted(beyond, "trial")} beyond the axis.` : ""}`)];
  }
}
