// The designer: draw a network, see what fits, and train it.
import { Failure, get, post, throttled } from "./api.js";
import { Analysis } from "./analysis.js";
import { Sheet } from "./drawing.js";
import { count, mega } from "./format.js";
import { Graph, drawingOf, emptyDrawing } from "./graph.js";
import { groupsOf, lastOf, picture } from "./groups.js";
import { Inspector } from "./inspector.js";
import { box, place } from "./layout.js";
import { Export } from "./exporting.js";
import { Problem } from "./parts.js";
import { Palette, Toolbar } from "./tools.js";
import { keepWeights, originOf, storedWeights } from "./transfer.js";

const m = window.m;
const storeKey = "lockstep-drawing";
const leastZoom = 0.02; // at which hundreds of layers are in view

// What has been drawn stays when other pages are shown, and when the page is loaded again.
function stored() {
  try { return JSON.parse(localStorage.getItem(storeKey)) || emptyDrawing(); } catch { return emptyDrawing(); }
}

// To the search of the palette, from wherever the focus is.
function onSlash(event) {
  if (event.key !== "/" || /INPUT|SELECT|TEXTAREA/.test(event.target.tagName) || document.querySelector("dialog")) return;
  event.preventDefault();
  document.querySelector(".palette input").select();
}

const shared = { graph: null, weights: null, palette: [], networks: [] };

export class DesignerPage {
  constructor() {
    if (!shared.graph) Object.assign(shared, { graph: new Graph(stored()), weights: storedWeights() });
    this.graph = shared.graph;
    this.window = { x: 400, y: 60, zoom: 1 };
    this.selected = new Set();
    this.selectedEdge = null;
    this.pulled = null;
    this.connecting = null;
    this.check = null;
    this.error = null;
    this.showsTable = false;
    this.said = "";
    this.groups = new Map();
    this.export = new Export();
    this.isOpening = false;
    this.ask = throttled(() => this.checkNow(), 20);
  }

  oninit() {
    document.title = "Designer · Lockstep studio";
    if (shared.palette.length === 0) this.loadLists();
    else this.setGroups();
    this.checked = -1;
  }

  async loadLists() {
    try {
      [shared.palette, shared.networks] = await Promise.all([get("/api/layers"), get("/api/networks")]);
      this.setGroups();
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.error = error;
    }
    m.redraw();
  }

  setGroups() {
    const words = ["convolution", "normalisation", "pooling", "sequences", "joining", "activation"];
    for (const { type, group } of shared.palette) this.groups.set(type, `g-${words.find((word) => group.toLowerCase().startsWith(word))}`);
  }

  groupOf = (type) => this.groups.get(type) || "";

  // After each change: the server says what fits, and the drawing is kept.
  onbeforeupdate() { this.look(); }
  oncreate() {
    this.look();
    document.addEventListener("keydown", onSlash);
  }

  onremove() { document.removeEventListener("keydown", onSlash); }

  look() {
    if (this.checked === this.graph.version) return;
    this.checked = this.graph.version;
    try { localStorage.setItem(storeKey, JSON.stringify(this.graph.drawing)); } catch { /* it is not kept, then */ }
    this.ask();
  }

  async checkNow() {
    const version = this.graph.version;
    const check = await post("/api/drawing", this.graph.forServer()).catch((error) => ({ problem: { message: error.message, hint: error.hint } }));
    if (version !== this.graph.version) { this.ask(); return; }
    this.check = check;
    m.redraw();
  }

  shapeOf(name) {
    const { input } = this.graph.drawing;
    if (name !== "input") return this.check?.layers?.[name]?.shape;
    return input.time_steps > 0 ? [input.channels, input.time_steps] : [input.channels, input.height, input.width];
  }

  get weights() { return shared.weights; }

  useWeights(weights) {
    shared.weights = weights;
    keepWeights(weights);
  }

  // A layer graph, ONNX or weights on the machine of studio.
  async openPath(path) {
    this.isOpening = true;
    this.error = null;
    m.redraw();
    try {
      const answer = await post("/api/open", { path });
      if (answer.layers) await this.open(() => answer);
      else if (this.graph.layers.length === 0 && answer.network) await this.open(() => get("/api/network", { name: answer.network }));
      if (answer.weights) this.useWeights({ path: answer.weights, tensors: answer.tensors });
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.error = error;
    }
    this.isOpening = false;
    m.redraw();
  }

  empty() {
    this.graph.change((drawing) => { Object.assign(drawing, { layers: [], folded: [] }); });
    this.select([]);
    this.fit();
  }

  cutAfter(name) {
    const names = new Set(this.graph.after(name));
    this.arrangeAfter(() => this.graph.change((drawing) => { drawing.layers = drawing.layers.filter((layer) => !names.has(layer.name)); }));
    this.said = `${names.size} layers removed`;
    this.focusNode(name);
  }

  select(names) { this.selected = new Set(names); this.selectedEdge = null; }
  toggle(name) { if (!this.selected.delete(name)) this.selected.add(name); this.selectedEdge = null; }
  selectEdge(key) { this.selected.clear(); this.selectedEdge = key; }
  // place: of the box, which is moved into view; null where a pointer is on it
  focused(names, place) {
    if (!names.every((name) => this.selected.has(name)) && !this.connecting) this.select(names);
    if (place) this.reveal(place);
    m.redraw();
  }

  selectGroup(group) { this.select(groupsOf(this.graph.layers).get(group).map((layer) => layer.name)); }

  fold(group, isFolded) {
    this.arrangeAfter(() => this.graph.fold(group, isFolded));
    this.reveal(picture(this.graph).boxes.find((one) => one.layers.some((layer) => layer.name.startsWith(`${group}.`))));
  }

  // Whether one of the layers takes its weights from the open file, by its name.
  isTaken(names) { return names.some((name) => originOf(this.weights, this.check, this.graph.find(name) || {})?.isTaken); }

  only() { return this.selected.size === 1 ? [...this.selected][0] : null; }

  focusNode(name) {
    const key = picture(this.graph).keyOf.get(name) ?? name;
    const find = () => this.sheet?.querySelector(`[data-layer="${CSS.escape(key)}"]`);
    const node = find();
    if (node) node.focus();
    else requestAnimationFrame(() => find()?.focus()); // it is not drawn yet
  }

  add(type, at = null) {
    const last = this.graph.layers.filter((layer) => this.graph.consumers(layer.name).length === 0).pop();
    const after = at ? null : this.only() || last?.name || "input";
    const add = () => this.graph.add(type, { after, at, options: this.firstOptions(type) });
    const layer = at ? add() : this.arrangeAfter(add);
    this.select([layer.name]);
    this.said = `${type} added`;
    this.reveal(layer);
  }

  // Sizes that have no default.
  firstOptions(type) {
    return { conv2d: { filters: 32, kernel: 3, padding: 1 }, linear: { features: "classes" }, max_pool: { kernel: 2 },
      average_pool: { kernel: 2 }, lstm: { hidden: 100 }, gru: { hidden: 100 } }[type] || {};
  }

  connect(from, to) {
    this.graph.connect(from, to);
    this.select([to]);
    this.said = `${from} connected to ${to}`;
  }

  remove() {
    if (this.selectedEdge) {
      this.graph.disconnect(...this.selectedEdge.split("\n"));
      this.selectedEdge = null;
      return;
    }
    const names = [...this.selected].filter((name) => name !== "input");
    const next = this.graph.find(names[0])?.inputs[0] || "input";
    this.graph.remove(names);
    this.select([next]);
    this.focusNode(next);
  }

  copy() { this.copied = this.graph.layers.filter((layer) => this.selected.has(layer.name)).map((layer) => structuredClone(layer)); }
  paste() { if (this.copied?.length) this.select(this.graph.paste(this.copied)); }

  moveSelected(dx, dy, drag) {
    this.graph.change(() => {
      for (const name of this.selected) {
        const layer = this.graph.find(name);
        if (layer) { layer.x += dx; layer.y += dy; }
      }
      for (const one of picture(this.graph).boxes) {
        if (one.group === undefined || !one.layers.every((layer) => this.selected.has(layer.name))) continue;
        (this.graph.drawing.places ||= {})[one.group] = { x: one.x + dx, y: one.y + dy };
      }
    }, drag.moved ? "move" : "");
    this.graph.word = "move";
  }

  arrange() { this.graph.change(() => place(this.graph)); }

  // One undo takes back both.
  arrangeAfter(change) {
    return this.graph.together(() => {
      const result = change();
      this.arrange();
      return result;
    });
  }

  // All layers, or the first ones if their zoom would be less than the least.
  fit(least = leastZoom) {
    if (!this.sheet) return;
    const { boxes } = picture(this.graph);
    const xs = [0, ...boxes.map((one) => one.x)];
    const ys = [0, ...boxes.map((one) => one.y)];
    const [left, right, top, bottom] = [Math.min(...xs) - box.width / 2 - 20, Math.max(...xs) + box.width / 2 + 20, Math.min(...ys) - 44, Math.max(...ys) + 56];
    const { clientWidth: width, clientHeight: height } = this.sheet;
    const edge = 10; // pixels
    const zoom = Math.min(1, Math.max(least, Math.min(width / (right - left), (height - 2 * edge) / (bottom - top))));
    const middle = (right - left) * zoom > width ? 0 : (left + right) / 2;
    this.window = { zoom, x: width / 2 - middle * zoom, y: edge - top * zoom };
    this.fitted = JSON.stringify(this.window);
    m.redraw();
  }

  isFitted() { return this.fitted === JSON.stringify(this.window); }

  zoom(factor, x = this.sheet.clientWidth / 2, y = this.sheet.clientHeight / 2) {
    const view = this.window;
    const zoom = Math.min(2.5, Math.max(leastZoom, view.zoom * factor));
    const real = zoom / view.zoom;
    this.window = { zoom, x: x - (x - view.x) * real, y: y - (y - view.y) * real };
  }

  // Moves the sheet until a layer is in view.
  reveal({ x, y }) {
    const { window: view, sheet } = this;
    const [px, py] = [x * view.zoom + view.x, y * view.zoom + view.y];
    const pad = { x: 110, y: 60 };
    view.x += Math.max(0, pad.x - px) - Math.max(0, px - sheet.clientWidth + pad.x);
    view.y += Math.max(0, pad.y - py) - Math.max(0, py - sheet.clientHeight + pad.y);
  }

  // From box to box along the connections.
  step(key) {
    const { boxes, links } = picture(this.graph);
    const here = document.activeElement?.dataset?.layer || this.only() || "input";
    const above = links.find((link) => link.to === here)?.from;
    const below = links.find((link) => link.from === here)?.to;
    const beside = [...new Set(links.filter((link) => link.from === above).map((link) => link.to))];
    const turn = (by) => beside[(beside.indexOf(here) + by + beside.length) % beside.length];
    const next = { ArrowUp: above, ArrowDown: below, ArrowLeft: turn(-1), ArrowRight: turn(1) }[key];
    if (!next) return;
    const names = next === "input" ? [next] : boxes.find((one) => one.key === next).layers.map((layer) => layer.name);
    if (!this.connecting) this.select(names);
    this.focusNode(names[0]);
  }

  onKey(event) {
    const key = document.activeElement?.dataset?.layer;
    const here = key === "input" ? [{ name: key }] : picture(this.graph).boxes.find((one) => one.key === key)?.layers || [];
    const name = here[0]?.name;
    const isControl = event.ctrlKey || event.metaKey;
    const keys = isControl
      ? { z: () => this.undo(event.shiftKey), Z: () => this.undo(true), y: () => this.undo(true), c: () => this.copy(), v: () => this.paste(),
        a: () => this.select(this.graph.layers.map((layer) => layer.name)) }
      : {
        Delete: () => this.remove(), Backspace: () => this.remove(), "+": () => this.zoom(1.2), "=": () => this.zoom(1.2), "-": () => this.zoom(0.8),
        f: () => this.fit(), l: () => { this.arrange(); this.fit(); }, c: () => this.startConnection(here.length > 1 ? lastOf(this.graph, here) : name), Enter: () => (this.connecting ? this.endConnection(name) : this.focusOptions()),
        " ": () => this.endConnection(name), Escape: () => { this.connecting = null; this.select([]); },
        ...Object.fromEntries(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"].map((key) => [key, () => this.step(key)])),
      };
    if (!keys[event.key] || event.altKey) { event.redraw = false; return; }
    event.preventDefault();
    keys[event.key]();
  }

  focusOptions() { document.querySelector(".inspector input, .inspector select")?.focus(); }

  startConnection(name) {
    this.connecting = name || null;
    if (name) this.said = `Connecting from ${name}: go to a layer with the Tab or arrow keys and press Enter, or Escape`;
  }

  endConnection(name) {
    if (!this.connecting || !name) return;
    if (name !== "input" && name !== this.connecting) this.connect(this.connecting, name);
    this.connecting = null;
  }

  undo(isAgain) {
    if (isAgain) this.graph.redo();
    else this.graph.undo();
    this.select([...this.selected].filter((name) => this.graph.find(name)));
  }

  async open(load) {
    try {
      const answer = await load();
      this.arrangeAfter(() => this.graph.change((drawing) => Object.assign(drawing, drawingOf(answer, drawing.input))));
      this.select([]);
      this.error = null;
      this.fit(0.7);
    } catch (error) {
      if (!(error instanceof Failure) && !(error instanceof SyntaxError) && !(error instanceof DOMException)) throw error;
      this.error = error;
    }
    m.redraw();
  }

  openFile(file) {
    this.open(async () => {
      const network = JSON.parse(await file.text());
      const answer = await post("/api/network", { network });
      return { ...answer, name: network.name || file.name.replace(/\.json$/, "") };
    });
  }

  save() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${JSON.stringify(this.graph.asFile(), null, 1)}\n`], { type: "application/json" }));
    link.download = `${this.graph.drawing.name.replace(/[^\w-]+/g, "-") || "network"}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  problem() {
    const { problem } = this.check || {};
    if (!problem) return null;
    return m(".misfit", { role: "status" }, m("div", m("strong", problem.message), problem.hint ? m("p", problem.hint) : null),
      m(".buttons-left", problem.layer ? m("button.quiet", { type: "button", onclick: () => { this.select([problem.layer]); this.focusNode(problem.layer); } }, "Show") : null,
        (problem.fixes || []).map((fix) => m("button", { type: "button", onclick: () => this.arrangeAfter(() => this.graph.apply(fix.edits)) }, fix.text))));
  }

  status() {
    const { totals, complete } = this.check || {};
    return m(".status", m("span", { class: complete ? "good" : "" }, complete ? "Ready to train" : "Not complete"),
      totals ? m("span", `${count(this.graph.layers.length)} layers · ${count(totals.learnables)} learnables · ${count(totals.activations)} activations · ${mega(totals.flop)} MFLOP per sample`) : null,
      m("span.fill"), m("span.out-of-sight", { "aria-live": "polite" }, this.said),
      m("span.keys", "Drag from the circle, or press C, to connect · Delete removes · Ctrl+Z undoes"));
  }

  view() {
    return m(".designer", m("h1.out-of-sight", "Designer"), m(Toolbar, { designer: this, networks: shared.networks }), m(Palette, { designer: this, palette: shared.palette }),
      m(".middle", this.export.view(), this.error ? m(Problem, { error: this.error }) : null, m(Sheet, { designer: this }), this.problem(),
        this.showsTable ? m(Analysis, { designer: this }) : null, this.status()),
      m(Inspector, { designer: this, palette: shared.palette }));
  }
}
