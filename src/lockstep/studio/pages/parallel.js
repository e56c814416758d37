// Parallel coordinates of a sweep: an axis for each parameter and one for the result, a line for each trial.
import { count, counted, figure, resultText } from "./format.js";

const m = window.m;
const top = 34;
const height = 210;
const leastSpacing = 116;
const letter = 7; // width of one, about
const belowAxis = 26; // where lines pass on which a parameter does not count
const steps = 20; // of a limit, from the least to the greatest

// From the least to the greatest of an axis.
function valueAt(axis, place) {
  return axis.log ? axis.low * (axis.high / axis.low) ** place : axis.low + (axis.high - axis.low) * place;
}

function labels(axis) {
  if (axis.choices.length > 0) return axis.choices.map((choice, at) => [(at + 0.5) / axis.choices.length, choice]);
  return axis.low === axis.high ? [[0, figure(axis.low)]] : [[0, figure(axis.low)], [0.5, figure(valueAt(axis, 0.5), 3)], [1, figure(axis.high)]];
}

// What a limit stops at, as people call it.
function limitText(axis, place, isLower) {
  if (axis.choices.length === 0) return figure(valueAt(axis, place));
  const at = Math.round(place * axis.choices.length) - (isLower ? 0 : 1);
  return axis.choices[Math.max(0, Math.min(axis.choices.length - 1, at))];
}

const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const mostLetters = 18;

// The room that the words of an axis need at its outer side.
function besideAxis(axis) {
  const names = labels(axis).map(([, text]) => shortened(text, mostLetters).length);
  return Math.max(48, 16 + letter * Math.max(...names), 8 + (letter + 1) * shortened(axis.name, mostLetters).length / 2);
}

// Whether a line goes through all chosen parts of axes. brushes: name of the axis -> [from, to] in [0, 1]
export function isInside(line, axes, brushes) {
  return axes.every((axis, at) => {
    const brush = brushes.get(axis.name);
    const place = line.places[at];
    return !brush || (place !== null && place >= brush[0] && place <= brush[1]);
  });
}

// attrs: {drawn: lines, from the back to the front, spacing, draw(line)}. A sweep may have thousands: they are drawn again
// only when there are others, or the axes have moved.
const Lines = {
  onbeforeupdate: ({ attrs }, old) => attrs.drawn !== old.attrs.drawn || attrs.spacing !== old.attrs.spacing,
  view: ({ attrs }) => m("g", { "aria-hidden": "true" }, attrs.drawn.map(attrs.draw)),
};

// attrs: {axes, lines, brushes, lit: number of a trial or null, light(trial), isShown(trial)}
export class Parallel {
  x(at) { return this.left + at * this.spacing; }

  // The axes fill the box. Where they are many, it scrolls.
  placeAxes(axes) {
    const right = besideAxis(axes[axes.length - 1]);
    const between = Math.max(1, axes.length - 1);
    this.left = besideAxis(axes[0]);
    this.spacing = Math.max(leastSpacing, Math.floor(((this.wide || 0) - this.left - right) / between));
    this.width = this.left + this.spacing * (axes.length - 1) + right;
  }

  place(event) {
    const box = this.dom.getBoundingClientRect();
    return Math.max(0, Math.min(1, 1 - ((event.clientY - box.top) * (this.tall / box.height) - top) / height));
  }

  oncreate({ dom }) {
    this.dom = dom.querySelector("svg");
    this.sizes = new ResizeObserver(() => {
      if (this.wide === dom.clientWidth) return;
      this.wide = dom.clientWidth;
      m.redraw();
    });
    this.sizes.observe(dom);
  }

  onremove() { this.sizes.disconnect(); }

  // brush: [from, to], of which everything is no choice. The limits do not cross.
  choose(brushes, axis, [from, to]) {
    if (from <= 0 && to >= 1) brushes.delete(axis.name);
    else brushes.set(axis.name, [from, to]);
  }

  // The ends of the chosen part as sliders, for the keyboard and screen readers.
  limit({ brushes }, axis, at, end) {
    const brush = brushes.get(axis.name) || [0, 1];
    const place = brush[end];
    const parts = axis.choices.length || steps;
    const move = (to) => {
      const moved = [...brush];
      moved[end] = end === 0 ? Math.max(0, Math.min(to, brush[1])) : Math.min(1, Math.max(to, brush[0]));
      this.choose(brushes, axis, moved);
    };
    const by = (number) => move((Math.round(place * parts) + number) / parts);
    const keys = { ArrowUp: () => by(1), ArrowRight: () => by(1), ArrowDown: () => by(-1), ArrowLeft: () => by(-1), PageUp: () => by(5), PageDown: () => by(-5),
      Home: () => move(0), End: () => move(1), Escape: () => brushes.delete(axis.name) };
    return m("rect.limit", { x: this.x(at) - 6, y: top + (1 - place) * height - 2, width: 12, height: 4, rx: 2, tabindex: 0, role: "slider", "aria-orientation": "vertical",
      "aria-label": `${end === 0 ? "Lower" : "Upper"} limit of ${axis.name}`, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(place * 100),
      "aria-valuetext": limitText(axis, place, end === 0), class: brushes.has(axis.name) ? "chosen" : "",
      onkeydown: (event) => {
        if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) { event.redraw = false; return; } // the browser's own
        event.preventDefault();
        keys[event.key]();
      } });
  }

  // A drag along an axis chooses a part of it; a click lets go of that.
  axis({ brushes, lines }, axis, at) {
    const x = this.x(at);
    const brush = brushes.get(axis.name);
    const isName = axis.choices.length > 0;
    // Beside the first axis there are no lines on the left.
    const beside = at === 0 ? { x: x - 9, "text-anchor": "end" } : { x: x + 9 };
    const most = Math.min(mostLetters, Math.floor((this.spacing - 16) / letter));
    return m("g.axis", { key: `axis ${axis.name}`, "aria-hidden": "true" },
      m("line", { x1: x, x2: x, y1: top, y2: top + height }),
      m("text.title", { x, y: 16, "text-anchor": "middle" }, m("title", axis.name), shortened(axis.name, most)),
      labels(axis).map(([place, text]) => m("text", { ...beside, y: top + (1 - place) * height + 4 }, isName ? m("title", text) : null, shortened(text, most))),
      lines.some((line) => line.places[at] === null) ? [m("circle.none", { cx: x, cy: top + height + belowAxis, r: 3 }), m("text", { ...beside, y: top + height + belowAxis + 4 }, "none")] : null,
      brush ? m("rect.brush", { x: x - 9, width: 18, y: top + (1 - brush[1]) * height, height: Math.max(2, (brush[1] - brush[0]) * height) }) : null,
      m("rect.catch", { x: x - 14, width: 28, y: top - 6, height: height + 12,
        onpointerdown: (event) => { event.target.setPointerCapture(event.pointerId); this.from = this.place(event); },
        onpointermove: (event) => {
          if (this.from === undefined) { event.redraw = false; return; }
          const to = this.place(event);
          if (Math.abs(to - this.from) > 0.01) this.choose(brushes, axis, [Math.min(this.from, to), Math.max(this.from, to)]);
        },
        onpointerup: (event) => {
          if (this.from !== undefined && Math.abs(this.place(event) - this.from) <= 0.01) brushes.delete(axis.name);
          this.from = undefined;
        } }));
  }

  // Where a parameter does not count, the line passes below its axis.
  path(line) {
    const y = (place) => top + (place === null ? height + belowAxis : (1 - place) * height);
    return `M${line.places.map((place, at) => `${this.x(at)} ${y(place).toFixed(1)}`).join("L")}`;
  }

  line({ light }, line) {
    return m("path.trial", { key: line.trial, d: this.path(line), style: { stroke: `color-mix(in oklab, var(--accent) ${Math.round((1 - line.rank) * 100)}%, var(--line-2))` },
      onpointerenter: () => light(line.trial), onpointerleave: () => light(null) }, m("title", `trial ${line.trial}: ${resultText(line.result)}`));
  }

  // The same list while the same lines are shown. The best are above the others.
  drawn(shown) {
    if (this.shown?.length !== shown.length || shown.some((line, at) => line !== this.shown[at])) Object.assign(this, { shown, sorted: [...shown].sort((a, b) => b.rank - a.rank) });
    return this.sorted;
  }

  view({ attrs }) {
    const { axes, lines, lit, brushes, isShown } = attrs;
    this.placeAxes(axes);
    const { width, spacing } = this;
    this.tall = top + height + 16 + (lines.some((line) => line.places.includes(null)) ? belowAxis : 0);
    const shown = lines.filter((line) => isShown(line.trial));
    const pointedAt = shown.filter((line) => line.trial === lit);
    return m(".table-box.parallel", { tabindex: 0, role: "region", "aria-label": "Parallel coordinates" },
      m("svg", { width, height: this.tall, viewBox: `0 0 ${width} ${this.tall}`, role: "group",
        "aria-label": `Parallel coordinates of ${shown.length} trials; the table has the same values` },
      m(Lines, { drawn: this.drawn(shown), spacing, draw: (line) => this.line(attrs, line) }),
      m("g", { "aria-hidden": "true" }, pointedAt.map((line) => m("path.lit", { d: this.path(line) }))), m("g", axes.map((axis, at) => this.axis(attrs, axis, at))),
      m("g", axes.map((axis, at) => m("g", { key: axis.name }, [0, 1].map((end) => this.limit(attrs, axis, at, end)))))),
      m("p.soft.lines", { role: "status" }, brushes.size > 0 ? `${count(shown.length)} of ${count(lines.length)} lines` : ""),
      axes[axes.length - 1].beyond > 0 ? m("p.soft", `${counted(axes[axes.length - 1].beyond, "result")} beyond the end of the last axis, to which the lines go.`) : null,
      brushes.size > 0 ? m("button.quiet", { type: "button", onclick: () => brushes.clear() }, "Show all lines") : null);
  }
}
