// A chart of curves that the server makes small: hover, zoom with the pointer or the keyboard, follow a run.
import { get, listen, throttled } from "./api.js";
import { count, duration, figure, percent } from "./format.js";
import { drawPlot, nearest } from "./plot.js";
import { theme } from "./theme.js";

const m = window.m;

// Distinguishable for most people, in light and in dark. After these, dashes tell curves apart.
const light = ["#2b50c8", "#c2410c", "#0f7b6c", "#9333a8", "#8a6a00", "#b3265e", "#4d6b1f", "#55606e"];
const dark = ["#8fabff", "#ff9d66", "#4fd1bd", "#d897ef", "#e3c04f", "#ff8fb6", "#a9cf6c", "#aab4c2"];
const dashes = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

export function colorOf(number) { return (theme.isDark() ? dark : light)[number % light.length]; }
export function dashOf(number) { return dashes[Math.floor(number / light.length) % dashes.length]; }

const mostRows = 12; // of values at the cursor

export const axisText = { step: count, epoch: (value) => figure(value), time: duration };
export const axisName = { step: "Step", epoch: "Epoch", time: "Training time" };

// attrs: {title, series: [{id, name, label, number}], axis, smoothing, log, percent}
export class Chart {
  constructor() {
    this.answers = new Map();
    this.window = null; // [from, to]; null: everything
    this.cursor = null;
    this.spoken = ""; // the values at the cursor that keys have moved
    this.drag = null;
    this.error = null;
    this.loaded = false;
    this.asked = 0;
    this.shown = 0; // the question whose answer is shown
    this.fetch = throttled(() => this.load(), 50);
    this.follow = throttled(() => this.load(), 1000);
  }

  oninit({ attrs }) { this.attrs = attrs; }

  oncreate({ dom }) {
    this.plot = dom.querySelector(".plot");
    this.canvas = dom.querySelector("canvas");
    this.sizes = new ResizeObserver(() => { this.draw(); this.fetch(); });
    this.sizes.observe(this.plot);
    const isMine = (id) => this.attrs.series.some((one) => one.id === id);
    this.ends = [
      listen("run", ({ id }) => { if (isMine(id)) this.follow(); }),
      listen("reset", () => this.fetch()),
      theme.listen(() => this.draw()),
    ];
    this.plot.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
  }

  onbeforeupdate({ attrs }) {
    const key = (a) => JSON.stringify([a.series.map((s) => [s.id, s.name]), a.axis, a.smoothing]);
    const isOther = key(attrs) !== key(this.attrs);
    if (attrs.axis !== this.attrs.axis) this.window = null;
    this.attrs = attrs;
    if (isOther) this.fetch();
  }

  onupdate() { this.draw(); }

  onremove() {
    this.sizes.disconnect();
    this.fetch.cancel();
    this.follow.cancel();
    for (const end of this.ends) end();
  }

  async load() {
    const { series, axis = "step", smoothing = 0 } = this.attrs;
    if (series.length === 0 || !this.canvas) return;
    const query = {
      ids: [...new Set(series.map((one) => one.id))].join(","),
      names: [...new Set(series.map((one) => one.name))].join(","),
      x: axis, columns: Math.max(100, Math.round(this.canvas.clientWidth * (window.devicePixelRatio || 1))), smoothing,
    };
    if (this.window) [query.from, query.to] = this.window;
    const number = ++this.asked;
    try {
      const answers = await get("/api/curves", query);
      if (number < this.shown) return; // a later question was answered sooner
      this.shown = number;
      this.answers = new Map(answers.map((one) => [`${one.id} ${one.name}`, one]));
      this.error = null;
    } catch (error) {
      this.error = error;
      throw error;
    } finally {
      this.loaded = true;
      m.redraw();
    }
  }

  lines() {
    const lines = [];
    for (const one of this.attrs.series) {
      const answer = this.answers.get(`${one.id} ${one.name}`);
      if (answer) lines.push({ ...answer, label: one.label, color: colorOf(one.number), dash: dashOf(one.number) });
    }
    return lines;
  }

  whole() {
    const lines = this.lines();
    if (lines.length === 0) return [0, 1];
    const from = Math.min(...lines.map((line) => line.first));
    const to = Math.max(...lines.map((line) => line.last));
    return to > from ? [from, to] : [from - 1, from + 1]; // a single value lies in the middle
  }

  draw() {
    if (!this.canvas || this.canvas.clientWidth === 0) return;
    const [from, to] = this.window || this.whole();
    const { percent: isShare, log, axis = "step", series } = this.attrs;
    // Each redraw of the page comes here, also when another chart was moved.
    const state = [this.answers, from, to, this.cursor, this.drag?.join(), this.canvas.clientWidth, this.canvas.clientHeight,
      window.devicePixelRatio, theme.isDark(), log, series.map((one) => `${one.id} ${one.name} ${one.number}`).join()];
    if (this.drawnState?.every((value, at) => Object.is(value, state[at]))) return;
    this.drawnState = state;
    this.drawn = drawPlot(this.canvas, {
      lines: this.lines(), from, to, isLog: Boolean(log), cursor: this.cursor, drag: this.drag,
      theme: theme.colors(), xText: axisText[axis], xLeast: axis === "step" ? 1 : 0, yText: isShare ? (y) => `${Number((y * 100).toPrecision(4))} %` : null,
    });
  }

  setWindow(from, to) {
    const [first, last] = this.whole();
    const span = Math.min(to - from, last - first);
    const low = Math.max(first, Math.min(from, last - span));
    this.window = span >= (last - first) * 0.999 || span <= 0 ? null : [low, low + span];
    this.draw();
    this.fetch();
  }

  zoom(factor, around) {
    const [from, to] = this.window || this.whole();
    const middle = around ?? this.cursor ?? (from + to) / 2;
    this.setWindow(middle - (middle - from) * factor, middle + (to - middle) * factor);
  }

  pan(share) {
    const [from, to] = this.window || this.whole();
    this.setWindow(from + (to - from) * share, to + (to - from) * share);
  }

  at(event) { return this.drawn ? this.drawn.unplace(event.clientX - this.canvas.getBoundingClientRect().left) : 0; }

  onWheel(event) {
    if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
    event.preventDefault();
    this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.at(event));
  }

  onKey(event) {
    const keys = {
      ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1),
      "+": () => this.zoom(0.6), "=": () => this.zoom(0.6), "-": () => this.zoom(1.7),
      "0": () => { this.window = null; this.fetch(); },
      Escape: () => { this.cursor = null; },
      PageUp: () => this.pan(-0.5), PageDown: () => this.pan(0.5),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) { event.redraw = false; return; } // the browser's own
    event.preventDefault();
    keys[event.key]();
    this.spoken = this.saidAtCursor();
  }

  // To a point of a curve about a sixtieth of the window further, and to the next one at least.
  step(sign) {
    const [from, to] = this.window || this.whole();
    const inside = this.lines().flatMap((line) => line.raw.x).filter((x) => x >= from && x <= to);
    const ahead = this.cursor === null ? inside : inside.filter((x) => sign * (x - this.cursor) > 0);
    if (ahead.length === 0) return;
    const wanted = this.cursor === null ? (sign > 0 ? from : to) : this.cursor + sign * (to - from) / 60;
    this.cursor = ahead.reduce((best, x) => (Math.abs(x - wanted) < Math.abs(best - wanted) ? x : best));
  }

  onDown(event) {
    if (event.button !== 0 || event.pointerType === "touch") return;
    this.plot.setPointerCapture(event.pointerId);
    this.drag = [this.at(event), this.at(event)];
  }

  onMove(event) {
    this.cursor = this.at(event);
    if (this.drag) this.drag[1] = this.cursor;
  }

  onUp() {
    if (!this.drag) return;
    const [a, b] = this.drag.slice().sort((x, y) => x - y);
    this.drag = null;
    const [from, to] = this.window || this.whole();
    if (b - a > (to - from) * 0.01) this.setWindow(a, b);
  }

  text(value) { return this.attrs.percent ? percent(value) : figure(value); }

  // What a screen reader says instead of the picture.
  summary() {
    const parts = this.lines().map((line) => {
      const last = line.raw.y[line.raw.y.length - 1];
      return `${line.label}: ${this.text(last)} at the end`;
    });
    return `${this.attrs.title}. ${parts.slice(0, 10).join("; ")}. Left and right say its values, plus and minus zoom, 0 shows all.`;
  }

  // The points of all curves at the cursor, and their place: {place, rows: [[line, point]]}.
  atCursor() {
    const rows = [];
    let place = null;
    for (const line of this.lines()) {
      const point = nearest(line.raw, this.cursor);
      if (!point) continue;
      place = place === null || Math.abs(point.x - this.cursor) < Math.abs(place - this.cursor) ? point.x : place;
      rows.push([line, point]);
    }
    return { place, rows };
  }

  // What a screen reader says after a key has moved the cursor.
  saidAtCursor() {
    if (this.cursor === null) return "";
    const { place, rows } = this.atCursor();
    if (rows.length === 0) return "";
    const axis = this.attrs.axis || "step";
    const isAlone = rows.length === 1;
    return `${axisName[axis]} ${axisText[axis](place)}: ${rows.slice(0, mostRows).map(([line, point]) => `${isAlone ? "" : `${line.label} `}${this.valueText(point)}`).join("; ")}`;
  }

  valueText(point) { return point.y === null ? "not finite" : this.text(point.y); }

  tip() {
    if (this.cursor === null || this.drag || !this.drawn) return null;
    const { place, rows } = this.atCursor();
    if (rows.length === 0) return null;
    const { box, place: where } = this.drawn;
    const x = where(this.cursor, 0)[0];
    if (x < box.left || x > box.left + box.width) return null;
    const isLeft = x > box.left + box.width / 2;
    const style = isLeft ? { right: `${this.canvas.clientWidth - x + 12}px` } : { left: `${x + 12}px` };
    const axis = this.attrs.axis || "step";
    return m(".tip", { "aria-hidden": "true", style: { top: "8px", ...style } }, m("div", `${axisName[axis]} ${axisText[axis](place)}`),
      m("table", { role: "presentation" }, rows.slice(0, mostRows).map(([line, point]) => m("tr", m("td", swatch(line.color, line.dash)),
        m("td", m("bdi", line.label)), m("td.number", this.valueText(point))))),
      rows.length > mostRows ? m("div", `and ${rows.length - mostRows} more`) : null);
  }

  view({ attrs }) {
    const lines = this.lines();
    return m("figure.chart",
      m("figcaption", m("h2", attrs.title), attrs.children,
        lines.some((line) => !line.complete) ? m("small", { role: "status" }, "Reading the log…") : null,
        this.window ? m("button.quiet", { type: "button", onclick: () => { this.window = null; this.fetch(); } }, "Show all") : null),
      m(".plot", {
        tabindex: 0, role: "application", "aria-roledescription": "chart", "aria-label": this.summary(),
        "aria-busy": String(!this.loaded || lines.some((line) => !line.complete)), onkeydown: (event) => this.onKey(event),
        onpointerdown: (event) => this.onDown(event), onpointermove: (event) => this.onMove(event),
        onpointerup: () => this.onUp(), onpointerleave: () => { if (!this.drag) this.cursor = null; },
        ondblclick: () => { this.window = null; this.fetch(); },
      }, m("canvas"), this.tip(), lines.length === 0 && this.loaded
        ? m(".empty", this.error ? this.error.message : "Nothing logged yet") : null),
      m("p.axis-name", { "aria-hidden": "true" }, axisName[attrs.axis || "step"]),
      m("p.out-of-sight", { "aria-live": "polite" }, this.spoken),
      attrs.legend === false ? null : m("ul.legend", lines.map((line) => m("li", swatch(line.color, line.dash), m("bdi", line.label),
        m("b", this.text(line.raw.y[line.raw.y.length - 1]))))));
  }
}

// Of a curve with dashes, with its dashes.
export function swatch(color, dash = []) {
  if (dash.length === 0) return m("span.swatch", { style: { background: color } });
  return m("svg.swatch", { "aria-hidden": "true" }, m("line", { x1: 0, x2: "100%", y1: "50%", y2: "50%", stroke: color, "stroke-width": 3, "stroke-dasharray": dash.join(" ") }));
}
