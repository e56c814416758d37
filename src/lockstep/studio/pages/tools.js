// Around the sheet of the designer: the bar above it, and the palette of layers beside it.
import { get, program } from "./api.js";
import { openTraining } from "./train.js";
import { originOf, transferOptions } from "./transfer.js";

const m = window.m;

// What lockstep export must be told of a drawing.
function exportValues({ graph, weights, check }) {
  const values = graph.inputOptions();
  const isFilled = weights && graph.layers.every((layer) => originOf(weights, check, layer)?.isTaken ?? true);
  return isFilled ? { ...values, weights: weights.path } : values;
}

// attrs: {designer, networks}
export const Toolbar = {
  view: ({ attrs: { designer, networks } }) => {
    const { graph, check } = designer;
    const tool = (text, title, act, off) => m("button", { type: "button", title, onclick: act, disabled: off }, text);
    const startFrom = (event) => {
      const name = event.target.value;
      event.target.value = "";
      if (name === "empty") designer.empty();
      else if (name) designer.open(() => get("/api/network", { name }));
    };
    const { name } = graph.drawing;
    return m(".toolbar", { role: "toolbar", "aria-label": "Drawing" },
      m("input.name", { type: "text", "aria-label": "Name of the network", value: name, onchange: (event) => graph.change((drawing) => { drawing.name = event.target.value.trim() || "network"; }) }),
      m("select", { "aria-label": "Start from a built-in network", value: "", onchange: startFrom },
        m("option", { value: "" }, "Start from…"), m("option", { value: "empty" }, "an empty sheet"), networks.map((one) => m("option", { value: one.name }, one.name))),
      tool("Open", "A file of a network", () => document.getElementById("open-file").click()),
      m("input#open-file", { type: "file", hidden: true, accept: ".json", onchange: (event) => {
        if (event.target.files[0]) designer.openFile(event.target.files[0]);
        event.target.value = "";
      } }),
      tool("Save", "Download as JSON, which lockstep train --network takes", () => designer.save(), graph.layers.length === 0),
      program.commands.includes("export") ? tool("Export…", "ONNX, PyTorch or C++ code, or weights", () => designer.export.open({ network: graph.asFile(), name }, name, exportValues(designer)), !check?.complete) : null,
      m("span.gap-x"),
      tool("Undo", "Ctrl+Z", () => designer.undo(), graph.past.length === 0), tool("Redo", "Ctrl+Y", () => designer.undo(true), graph.future.length === 0),
      tool("Arrange", "L: place all layers", () => { designer.arrange(); designer.fit(); }), tool("Fit", "F: show all", () => designer.fit()),
      m("button", { type: "button", "aria-pressed": String(designer.showsTable), onclick: () => { designer.showsTable = !designer.showsTable; } }, "Analysis"),
      m("span.fill"),
      m("button.main", { type: "button", disabled: !check?.complete, onclick: () => openTraining(graph, transferOptions(graph, designer.weights, check)) }, "Train…"));
  },
};

// attrs: {designer, palette: kinds of layers}
export class Palette {
  constructor() { Object.assign(this, { search: "", isDropped: false }); }

  drop(designer, event, type) {
    const edge = designer.sheet.getBoundingClientRect();
    this.isDropped = event.clientX > edge.left && event.clientX < edge.right && event.clientY > edge.top && event.clientY < edge.bottom;
    if (!this.isDropped) return;
    const { x, y, zoom } = designer.window;
    designer.add(type, { x: (event.clientX - edge.left - x) / zoom, y: (event.clientY - edge.top - y) / zoom });
    setTimeout(() => { this.isDropped = false; });
  }

  view({ attrs: { designer, palette } }) {
    const words = this.search.trim().toLowerCase();
    const called = (type) => type.replaceAll("_", " ");
    const found = palette.filter(({ type }) => called(type).includes(words));
    const first = found.find(({ type }) => called(type) === words) || found[0];
    const onkeydown = (event) => {
      if (event.key !== "Enter" || !first) return;
      designer.add(first.type);
      event.target.select();
    };
    return m("aside.palette", { "aria-label": "Layers" },
      m("input", { type: "search", placeholder: "Search layers", "aria-label": "Search layers", value: this.search, oninput: (event) => { this.search = event.target.value; }, onkeydown }),
      [...new Set(found.map((one) => one.group))].map((group) => [m("h2", group), found.filter((one) => one.group === group).map(({ type }) => m("button", {
        type: "button", class: designer.groupOf(type), title: "Click to add after the selected layer, or drag onto the sheet",
        onclick: () => { if (!this.isDropped) designer.add(type); this.isDropped = false; },
        onpointerdown: (event) => event.target.setPointerCapture(event.pointerId),
        onpointerup: (event) => this.drop(designer, event, type),
      }, called(type)))]));
  }
}
