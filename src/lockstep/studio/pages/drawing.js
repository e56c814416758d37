// The sheet of the designer: boxes, connections with their shapes, and what the pointer and the keys do to them.
import { box, routeOf } from "./layout.js";

const m = window.m;
const half = { x: box.width / 2, y: box.height / 2 };

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
    this.sizes = new ResizeObserver(() => { if (!this.isFitted && dom.clientWidth > 0) { this.isFitted = true; this.designer.fit(0.7); } });
    this.sizes.observe(dom);
    this.designer.sheet = dom;
  }

  onremove() { this.sizes.disconnect(); }

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
    const name = node?.dataset.layer;
    const start = this.at(event);
    this.dom.setPointerCapture(event.pointerId);
    if (event.target.closest(".port")) {
      this.drag = { kind: "connect", from: name };
      designer.pulled = { from: name, to: start };
    } else if (name) {
      if (!event.shiftKey && !designer.selected.has(name)) designer.select([name]);
      else if (event.shiftKey) designer.toggle(name);
      node.focus();
      this.drag = name === "input" ? null : { kind: "move", last: start, moved: false };
    } else if (event.target.closest("[data-edge]")) {
      designer.selectEdge(event.target.closest("[data-edge]").dataset.edge);
      this.dom.focus();
      this.drag = null;
    } else {
      designer.select([]);
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
    const target = designer.graph.layers.find((layer) => Math.abs(layer.x - point.x) < half.x + 8 && Math.abs(layer.y - point.y) < half.y + 14);
    if (target && target.name !== drag.from) designer.connect(drag.from, target.name);
  }

  edges() {
    const { graph, check, selectedEdge } = this.designer;
    const list = [];
    for (const layer of graph.layers) {
      layer.inputs.forEach((name, number) => {
        const from = name === "input" ? { x: 0, y: 0 } : graph.find(name);
        if (!from) return;
        const spread = (number - (layer.inputs.length - 1) / 2) * 22;
        const a = { x: from.x, y: from.y + half.y };
        const b = { x: layer.x + spread, y: layer.y - half.y };
        const way = routeOf(graph, name, from, layer);
        const line = path(a, b, way);
        const middle = way.length > 2 ? way[Math.floor(way.length / 2)] : { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
        const key = `${name}\n${layer.name}`;
        const shape = shapeText(this.designer.shapeOf(name));
        const isBad = check?.problem?.layer === layer.name;
        list.push(m("g", { key, "data-edge": key, class: `edge ${selectedEdge === key ? "selected" : ""} ${isBad ? "bad" : ""}` },
          m("path.hit", { d: line }), m("path", { d: line, "marker-end": "url(#arrow)" }),
          shape ? m("text", { x: middle.x + 8, y: middle.y + 4 }, shape) : null));
      });
    }
    return list;
  }

  node(name, title, detail, place, extra) {
    const { selected, check, connecting } = this.designer;
    const problem = check?.problem?.layer === name;
    const shape = shapeText(this.designer.shapeOf(name));
    const said = `${title}${detail ? `, ${detail}` : ""}${shape ? `, gives ${shape}` : ""}${problem ? ", does not fit" : ""}`;
    return m("g", {
      key: `:${name}`, "data-layer": name, tabindex: 0, role: "button", "aria-label": said, "aria-pressed": String(selected.has(name)),
      class: `node ${extra} ${selected.has(name) ? "selected" : ""} ${problem ? "bad" : ""} ${connecting === name ? "from" : ""}`,
      transform: `translate(${place.x},${place.y})`, onfocus: () => this.designer.focused(name),
    }, m("rect.box", { x: -half.x, y: -half.y, width: box.width, height: box.height, rx: 9 }),
    m("rect.strip", { x: -half.x, y: -half.y + 9, width: 4, height: box.height - 18, rx: 2 }),
    m("text.title", { x: -half.x + 15, y: detail ? -4 : 4 }, title), detail ? m("text.detail", { x: -half.x + 15, y: 13 }, short(detail)) : null,
    m("circle.port", { cx: 0, cy: half.y, r: 6 }, m("title", "Drag to a layer to connect")));
  }

  nodes() {
    const { graph, check, groupOf } = this.designer;
    const { input } = graph.drawing;
    const kind = input.time_steps > 0 ? "Sequences" : "Images";
    return [this.node("input", kind, `${input.classes} classes`, { x: 0, y: 0 }, "of-input"),
      ...graph.layers.map((layer) => this.node(layer.name, layer.type.replaceAll("_", " "),
        check?.layers?.[layer.name]?.detail || layer.name, layer, groupOf(layer.type)))];
  }

  view({ attrs: { designer } }) {
    this.designer = designer;
    const { window: view, pulled, graph } = designer;
    const from = pulled && (pulled.from === "input" ? { x: 0, y: 0 } : graph.find(pulled.from));
    return m("svg.sheet", {
      tabindex: 0, role: "group", "aria-label": "Drawing of the network",
      onpointerdown: (event) => this.onDown(event), onpointermove: (event) => this.onMove(event), onpointerup: (event) => this.onUp(event),
      onkeydown: (event) => designer.onKey(event),
    }, m("defs", m("marker#arrow", { viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto" },
      m("path.arrow", { d: "M0,0L10,5L0,10z" }))),
    m("g", { transform: `translate(${view.x},${view.y}) scale(${view.zoom})` }, m("g", this.edges()), m("g", this.nodes()),
      from ? m("path.pulled", { d: curve({ x: from.x, y: from.y + half.y }, pulled.to) }) : null));
  }
}

function short(text) { return text.length > 25 ? `${text.slice(0, 24)}…` : text; }
