// The sheet of the designer: boxes, connections with their shapes, and what the pointer and the keys do to them.
import { counted } from "./format.js";
import { framesOf, lastOf, picture } from "./groups.js";
import { box, routeOf } from "./layout.js";
import { originOf } from "./transfer.js";

const m = window.m;
const half = { x: box.width / 2, y: box.height / 2 };
const input = { key: "input", x: 0, y: 0 };

export function shapeText(shape) { return shape ? shape.join(" × ") : ""; }

function curve(a, b) {
  const bend = Math.max(24, Math.abs(b.y - a.y) / 2);
  return `M${a.x},${a.y}C${a.x},${a.y + bend} ${b.x},${b.y - bend} ${b.x},${b.y}`;
}

// Through the points on the way, around other boxes.
function path(a, b, points) {
  if (points.length < 2) return curve(a, b);
  let text = `M${a.x},${a.y}`;
  for (let i = 0; i < points.length; ++i) {
    const next = points[i + 1] || b;
    const middle = i + 1 < points.length ? { x: (points[i].x + next.x) / 2, y: (points[i].y + next.y) / 2 } : b;
    text += `Q${points[i].x},${points[i].y} ${middle.x},${middle.y}`;
  }
  return text;
}

// attrs: {designer}: see designer.js
export class Sheet {
  oncreate({ dom, attrs }) {
    this.dom = dom;
    this.designer = attrs.designer;
    dom.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    this.width = 0;
    this.sizes = new ResizeObserver(() => this.onSize());
    this.sizes.observe(dom);
    this.designer.sheet = dom;
  }

  onremove() { this.sizes.disconnect(); }

  // Fits again, or keeps the middle of what someone has moved or zoomed to.
  onSize() {
    const { designer, width: before } = this;
    const width = this.dom.clientWidth;
    if (width === 0 || width === before) return;
    this.width = width;
    if (before === 0 || designer.isFitted()) { designer.fit(0.7); return; }
    designer.window.x += (width - before) / 2;
    m.redraw();
  }

  onWheel(event) {
    event.preventDefault();
    const view = this.designer.window;
    if (event.ctrlKey || event.metaKey) this.designer.zoom(event.deltaY > 0 ? 0.9 : 1.11, event.offsetX, event.offsetY);
    else { view.x -= event.deltaX; view.y -= event.deltaY; }
    m.redraw();
  }

  at(event) {
    const edge = this.dom.getBoundingClientRect();
    const view = this.designer.window;
    return { x: (event.clientX - edge.left - view.x) / view.zoom, y: (event.clientY - edge.top - view.y) / view.zoom };
  }

  // What begins on a box, on the circle below it, or on the paper.
  onDown(event) {
    if (event.button !== 0) return;
    const { designer } = this;
    const node = event.target.closest("[data-layer]");
    const key = node?.dataset.layer;
    const names = this.namesOf(key);
    const start = this.at(event);
    this.dom.setPointerCapture(event.pointerId);
    if (event.target.closest(".port")) {
      this.drag = { kind: "connect", from: key };
      designer.pulled = { from: key, to: start };
    } else if (key) {
      if (event.shiftKey) names.forEach((name) => designer.toggle(name));
      else if (!names.every((name) => designer.selected.has(name))) designer.select(names);
      this.isPressed = true; // what is below the pointer stays there
      if (names.every((name) => designer.selected.has(name))) node.focus(); // which selects it
      else this.dom.focus();
      this.isPressed = false;
      this.drag = key === "input" ? null : { kind: "move", last: start, moved: false };
    } else if (event.target.closest("[data-edge]")) {
      designer.selectEdge(event.target.closest("[data-edge]").dataset.edge);
      this.dom.focus();
      this.drag = null;
    } else if (event.target.closest("[data-frame]") && !event.shiftKey) {
      designer.selectGroup(event.target.closest("[data-frame]").dataset.frame);
      this.dom.focus();
      this.drag = { kind: "move", last: start, moved: false };
    } else {
      designer.select([]);
      this.dom.focus();
      this.drag = { kind: "pan", x: event.clientX, y: event.clientY };
    }
  }

  onMove(event) {
    const { drag, designer } = this;
    if (!drag) { event.redraw = false; return; }
    if (drag.kind === "pan") {
      designer.window.x += event.clientX - drag.x;
      designer.window.y += event.clientY - drag.y;
      Object.assign(drag, { x: event.clientX, y: event.clientY });
    } else if (drag.kind === "connect") {
      designer.pulled.to = this.at(event);
    } else {
      const now = this.at(event);
      const dx = now.x - drag.last.x;
      const dy = now.y - drag.last.y;
      if (!drag.moved && Math.hypot(dx, dy) * designer.window.zoom < 4) return;
      designer.moveSelected(dx, dy, drag);
      Object.assign(drag, { last: now, moved: true });
    }
  }

  onUp(event) {
    const { drag, designer } = this;
    this.drag = null;
    designer.graph.word = "";
    if (drag?.kind !== "connect") return;
    const point = this.at(event);
    designer.pulled = null;
    const target = this.shown.boxes.find((one) => Math.abs(one.x - point.x) < half.x + 8 && Math.abs(one.y - point.y) < half.y + 14);
    if (target && target.key !== drag.from) designer.connect(this.lastIn(drag.from), this.firstIn(target.key));
  }

  boxCalled(key) { return key === "input" ? input : this.shown.boxes.find((one) => one.key === key); }
  namesOf(key) { return key === undefined ? [] : key === "input" ? ["input"] : (this.boxCalled(key)?.layers || []).map((layer) => layer.name); }
  lastIn(key) { return key === "input" ? key : lastOf(this.designer.graph, this.boxCalled(key).layers); }
  firstIn(key) { return this.boxCalled(key).layers[0].name; }

  edges({ boxes, links }) {
    const { check, selectedEdge, graph } = this.designer;
    const drawn = new Map([["input", input], ...boxes.map((one) => [one.key, one])]);
    return links.map((link) => {
      const [from, to] = [drawn.get(link.from), drawn.get(link.to)];
      const spread = to.layer ? (link.number - (link.target.inputs.length - 1) / 2) * 22 : 0;
      const a = { x: from.x, y: from.y + half.y };
      const b = { x: to.x + spread, y: to.y - half.y };
      const way = routeOf(graph, from, to);
      const line = path(a, b, way);
      const middle = way.length > 2 ? way[Math.floor(way.length / 2)] : { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
      const key = `${link.source}\n${link.target.name}`;
      const shape = shapeText(this.designer.shapeOf(link.source));
      const isBad = check?.problem?.layer === link.target.name;
      return m("g", { key, "data-edge": key, class: `edge ${selectedEdge === key ? "selected" : ""} ${isBad ? "bad" : ""}` },
        m("path.hit", { d: line }), m("path", { d: line, "marker-end": "url(#arrow)" }),
        shape ? m("text", { x: middle.x + 8, y: middle.y + 4 }, shape) : null);
    });
  }

  //   names  of the layers that the box stands for;  last  the one whose output leaves it
  node({ key, names, last, title, detail, place, extra, mark = "" }) {
    const { selected, check, connecting } = this.designer;
    const problem = names.includes(check?.problem?.layer);
    const isSelected = names.every((name) => selected.has(name));
    const shape = shapeText(this.designer.shapeOf(last));
    const said = `${title}${detail ? `, ${detail}` : ""}${shape ? `, gives ${shape}` : ""}${mark ? `, ${mark}` : ""}${problem ? ", does not fit" : ""}`;
    return m("g", {
      key: `:${key}`, "data-layer": key, tabindex: 0, role: "button", "aria-label": said, "aria-pressed": String(isSelected),
      class: `node ${extra} ${isSelected ? "selected" : ""} ${problem ? "bad" : ""} ${connecting === last ? "from" : ""}`,
      transform: `translate(${place.x},${place.y})`, onfocus: () => this.designer.focused(names, this.isPressed ? null : place),
    }, m("rect.box", { x: -half.x, y: -half.y, width: box.width, height: box.height, rx: 9 }),
    m("rect.strip", { x: -half.x, y: -half.y + 9, width: 4, height: box.height - 18, rx: 2 }),
    m("text.title", { x: -half.x + 15, y: detail ? -4 : 4 }, short(title)), detail ? m("text.detail", { x: -half.x + 15, y: 13 }, short(detail)) : null,
    mark ? m("text.mark", { x: half.x - 4, y: -half.y - 5, "text-anchor": "end" }, mark) : null,
    m("circle.port", { cx: 0, cy: half.y, r: 6 }, m("title", "Drag to a layer to connect")));
  }

  // What a box says of its training.
  mark(layer) {
    const { weights, check } = this.designer;
    const origin = originOf(weights, check, layer);
    return [origin && !origin.isTaken ? "new" : "", layer.frozen ? "frozen" : "", layer.rate === undefined ? "" : `rate × ${layer.rate}`].filter(Boolean).join(", ");
  }

  groupNode(one) {
    const names = one.layers.map((layer) => layer.name);
    const marks = [...new Set(one.layers.map((layer) => (layer.frozen ? "frozen" : "")))];
    return this.node({ key: one.key, names, last: lastOf(this.designer.graph, one.layers), title: one.group, detail: `${names.length} layers`, place: one, extra: "of-group",
      mark: marks.length === 1 ? marks[0] : "" });
  }

  nodes({ boxes }) {
    const { graph, check, groupOf } = this.designer;
    const sizes = graph.drawing.input;
    return [this.node({ key: "input", names: ["input"], last: "input", title: sizes.time_steps > 0 ? "Sequences" : "Images", detail: counted(sizes.classes, "class"), place: input, extra: "of-input" }),
      ...boxes.map((one) => {
        const { layer } = one;
        if (!layer) return this.groupNode(one);
        return this.node({ key: layer.name, names: [layer.name], last: layer.name, title: layer.type.replaceAll("_", " "), detail: check?.layers?.[layer.name]?.detail || layer.name, place: layer,
          extra: `${groupOf(layer.type)} ${layer.frozen ? "frozen" : ""}`, mark: this.mark(layer) });
      })];
  }

  frames(shown) {
    const { designer } = this;
    return framesOf(designer.graph, shown, box).map(({ group, left, right, top, bottom }) => m("g.frame", { key: `frame ${group}`, "data-frame": group },
      m("rect", { x: left, y: top, width: right - left, height: bottom - top, rx: 12 }), m("text", { x: left + 8, y: top + 12 }, short(group))));
  }

  view({ attrs: { designer } }) {
    this.designer = designer;
    const { window: view, pulled, graph } = designer;
    const shown = picture(graph);
    this.shown = shown;
    const from = pulled && this.boxCalled(pulled.from);
    return m("svg.sheet", {
      tabindex: 0, role: "group", "aria-label": "Drawing of the network",
      onmousedown: (event) => { event.redraw = false; event.preventDefault(); }, // onDown says what gets the focus
      onpointerdown: (event) => this.onDown(event), onpointermove: (event) => this.onMove(event), onpointerup: (event) => this.onUp(event),
      onkeydown: (event) => designer.onKey(event),
    }, m("defs", m("marker#arrow", { viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto" },
      m("path.arrow", { d: "M0,0L10,5L0,10z" }))),
    m("g", { transform: `translate(${view.x},${view.y}) scale(${view.zoom})` }, m("g", this.frames(shown)), m("g", this.edges(shown)), m("g", this.nodes(shown)),
      from ? m("path.pulled", { d: curve({ x: from.x, y: from.y + half.y }, pulled.to) }) : null));
  }
}

function short(text) { return text.length > 23 ? `${text.slice(0, 22)}…` : text; }
