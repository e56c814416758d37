// Transfer learning by hand: layers that take their weights from an opened file, frozen layers, and their rates.
import { count, lastPart } from "./format.js";

const m = window.m;
const storeKey = "lockstep-weights";

// The file of weights that is open: {path, tensors: {name: shape}}, or null. It stays as the drawing does.
export function storedWeights() {
  try { return JSON.parse(localStorage.getItem(storeKey)); } catch { return null; }
}

export function keepWeights(weights) {
  try {
    if (weights) localStorage.setItem(storeKey, JSON.stringify(weights));
    else localStorage.removeItem(storeKey);
  } catch { /* it is not kept, then */ }
}

const tensorsOf = (check, layer) => Object.entries(check?.layers?.[layer.name]?.tensors || {});

// Where a layer's first weights come from: {isTaken, reason}; null for a layer without weights, or if no file is open.
export function originOf(weights, check, layer) {
  const own = tensorsOf(check, layer);
  if (!weights || own.length === 0) return null;
  if (layer.fresh) return { isTaken: false, reason: "as you said" };
  for (const [name, shape] of own) {
    const have = weights.tensors[`${layer.name}.${name}`];
    if (!have) return { isTaken: false, reason: "the file has no such layer" };
    if (String(have) !== String(shape)) return { isTaken: false, reason: `its ${name} in the file is ${have.join(" × ")}, here ${shape.join(" × ")}` };
  }
  return { isTaken: true, reason: "" };
}

// Names, or the name of a group of which all are meant.
function patterns(names, all) {
  const meant = new Set(names);
  const groupOf = (name) => name.split(".")[0];
  const isWhole = (group) => all.filter((name) => groupOf(name) === group).every((name) => meant.has(name));
  return [...new Set(names.map((name) => (name.includes(".") && isWhole(groupOf(name)) ? groupOf(name) : name)))].join(",");
}

// The options of lockstep train that a drawing with these weights stands for.
export function transferOptions(graph, weights, check) {
  const options = {};
  const layers = graph.layers.filter((layer) => tensorsOf(check, layer).length > 0);
  const all = layers.map((layer) => layer.name);
  if (weights) {
    options.weights = weights.path;
    const fresh = layers.filter((layer) => !originOf(weights, check, layer).isTaken).map((layer) => layer.name);
    if (fresh.length > 0) Object.assign(options, { head: "new", "new-layers": patterns(fresh, all) });
  }
  const frozen = layers.filter((layer) => layer.frozen).map((layer) => layer.name);
  if (frozen.length > 0) options.freeze = patterns(frozen, all);
  const rates = layers.filter((layer) => layer.rate !== undefined).map((layer) => `${layer.name}=${layer.rate}`);
  if (rates.length > 0) options["learning-rate-factors"] = rates.join(",");
  return options;
}

function set(designer, names, field, value) {
  designer.graph.change(() => {
    for (const layer of designer.graph.layers) {
      if (!names.includes(layer.name)) continue;
      if (value === undefined) delete layer[field];
      else layer[field] = value;
    }
  }, `${field} ${names.join()}`);
}

export function freezeButtons(designer, names) {
  return [m("button", { type: "button", onclick: () => set(designer, names, "frozen", true) }, "Freeze"),
    m("button", { type: "button", onclick: () => set(designer, names, "frozen", undefined) }, "Unfreeze")];
}

// For a layer with weights: where they come from, and how it learns. attrs: {designer, layer}
export const LayerTraining = {
  view: ({ attrs: { designer, layer } }) => {
    const { check, graph, weights } = designer;
    const name = [layer.name];
    const origin = originOf(weights, check, layer);
    const cut = m("button", { type: "button", disabled: graph.after(layer.name).length === 0, onclick: () => designer.cutAfter(layer.name) }, "Cut after this layer");
    const before = m("button", { type: "button", onclick: () => set(designer, [layer.name, ...graph.before(layer.name)], "frozen", true) }, "Freeze up to here");
    if (tensorsOf(check, layer).length === 0) return m(".buttons-left", before, cut);
    const box = (id, label, field, help) => m(".option.switch", m("input", { type: "checkbox", id, checked: Boolean(layer[field]), "aria-describedby": `${id}-help`,
      onchange: (event) => set(designer, name, field, event.target.checked || undefined) }), m("label", { for: id }, label), m("small", { id: `${id}-help` }, help));
    return [m("h3", "Training"),
      origin ? m("p.soft.origin", origin.isTaken ? ["Weights of ", m("bdi", lastPart(weights.path))] : `New weights: ${origin.reason}`) : null,
      origin && (origin.isTaken || layer.fresh) ? box("layer-fresh", "new weights", "fresh", "random ones instead of those of the file") : null,
      box("layer-frozen", "frozen", "frozen", "its weights do not change"),
      m(".option", m("label", { for: "layer-rate" }, "learning rate factor"), m("input", { id: "layer-rate", type: "number", min: 0, step: "any", value: layer.rate ?? "", placeholder: origin && !origin.isTaken ? "10, bias 20" : "1",
        disabled: layer.frozen, oninput: (event) => set(designer, name, "rate", event.target.value === "" || !(Number(event.target.value) >= 0) ? undefined : Number(event.target.value)) })),
      m(".buttons-left", before, cut)];
  },
};

// For the whole network: opens a file, and says what it fills. attrs: {designer}
export class FileOnMachine {
  constructor() { this.path = ""; }

  view({ attrs: { designer } }) {
    const { weights, graph, check } = designer;
    const go = (event) => { event.preventDefault(); designer.openPath(this.path.trim()); };
    const origins = graph.layers.map((layer) => originOf(weights, check, layer)).filter(Boolean);
    return m("form.weights", { onsubmit: go }, m("h2.spaced", "Weights or network of a file"),
      m(".option", m("label", { for: "open-path" }, "path"), m("input", { id: "open-path", type: "text", value: this.path, autocomplete: "off", "aria-describedby": "open-path-help",
        oninput: (event) => { this.path = event.target.value; } }), m("small", { id: "open-path-help" }, "on the machine of studio: weights (.safetensors, .pt), ONNX, or a layer graph (.json)")),
      m(".buttons-left", m("button", { disabled: !this.path.trim() || designer.isOpening }, designer.isOpening ? "Reading…" : "Open"),
        weights ? m("button", { type: "button", onclick: () => designer.useWeights(null) }, "Forget the weights") : null),
      weights ? m("p.soft.filled", m("bdi", lastPart(weights.path)), ` fills ${count(origins.filter((one) => one.isTaken).length)} of ${count(origins.length)} layers with weights.`) : null);
  }
}
