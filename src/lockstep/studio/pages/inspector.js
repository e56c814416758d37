// Beside the sheet: the options of the selected layer, or the network's input.
import { shapeText } from "./drawing.js";
import { count, mega } from "./format.js";
import { joins } from "./graph.js";
import { GroupForm } from "./groups.js";
import { FileOnMachine, LayerTraining, freezeButtons } from "./transfer.js";

const m = window.m;

// "3" and "3x3" as the file has them; "" for the default.
function parseValue(text, type, name) {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  if (trimmed === "classes" && (name === "filters" || name === "features")) return "classes";
  if (type === "integers") {
    const list = trimmed.split(/[x×,\s]+/).map(Number);
    return list.every(Number.isFinite) ? (list.length === 1 ? list[0] : list) : trimmed;
  }
  if (type === "text" || type.includes("|")) return trimmed;
  const value = Number(trimmed);
  return Number.isFinite(value) ? value : trimmed;
}

function valueText(value) { return value === undefined ? "" : Array.isArray(value) ? value.join("x") : String(value); }

const Option = {
  view: ({ attrs: { info, value, set } }) => {
    const id = `option-${info.name}`;
    const label = m("label", { for: id }, info.name.replaceAll("_", " "));
    const help = m("small", { id: `${id}-help` }, info.help);
    const common = { id, "aria-describedby": `${id}-help` };
    if (info.type === "switch") {
      return m(".option.switch", m("input", { type: "checkbox", ...common, checked: value === undefined ? info.default === "true" : value,
        onchange: (event) => set(String(event.target.checked) === info.default ? undefined : event.target.checked) }), label, help);
    }
    if (info.choices) {
      return m(".option", label, m("select", { ...common, value: value ?? info.default, onchange: (event) => set(event.target.value === info.default ? undefined : event.target.value) },
        info.choices.map((choice) => m("option", { value: choice }, choice))), help);
    }
    const hasDefault = info.default !== "" && info.default !== "0";
    return m(".option", label, m("input", { type: "text", ...common, value: valueText(value), inputmode: info.type === "text" ? "text" : "decimal",
      autocomplete: "off", placeholder: hasDefault ? info.default : "", oninput: (event) => set(parseValue(event.target.value, info.type, info.name)) }), help);
  },
};

function inputForm(designer) {
  const { graph } = designer;
  const { input } = graph.drawing;
  const isSequence = input.time_steps > 0;
  const set = (name) => (event) => {
    const value = Number(event.target.value);
    if (Number.isInteger(value) && value >= 1) graph.change((drawing) => { drawing.input[name] = value; }, `input.${name}`);
  };
  const field = (name, label) => m(".option", m("label", { for: `input-${name}` }, label),
    m("input", { id: `input-${name}`, type: "number", min: 1, value: input[name], oninput: set(name) }));
  return [m("h2", "Input"), m(".option", m("label", { for: "input-kind" }, "samples"), m("select", { id: "input-kind", value: isSequence ? "sequences" : "images",
    onchange: (event) => graph.change((drawing) => {
      Object.assign(drawing.input, event.target.value === "images" ? { time_steps: 0, height: 28, width: 28 } : { time_steps: 30, height: 1, width: 1 });
    }) }, m("option", { value: "images" }, "images"), m("option", { value: "sequences" }, "sequences"))),
  field("channels", "channels"), isSequence ? field("time_steps", "time steps") : [field("height", "height"), field("width", "width")],
  field("classes", "classes"), m("p.soft", "A training takes the real sizes from its data; these are for the drawing."),
  m(FileOnMachine, { designer })];
}

function layerForm(designer, palette, layer) {
  const { graph, check } = designer;
  const info = palette.find((one) => one.type === layer.type);
  const about = check?.layers?.[layer.name] || {};
  const rename = (event) => {
    const to = event.target.value.trim();
    if (graph.rename(layer.name, to)) designer.select([to]);
    else event.target.value = layer.name;
  };
  const others = graph.layers.filter((one) => one !== layer && !layer.inputs.includes(one.name)).map((one) => one.name);
  return [
    m("h2", layer.type.replaceAll("_", " ")),
    about.error ? m(".problem", m("strong", about.error), about.hint ? m("p", about.hint) : null) : null,
    m(".option", m("label", { for: "layer-name" }, "name"), m("input", { id: "layer-name", type: "text", value: layer.name, onchange: rename })),
    (info?.options || []).map((one) => m(Option, { key: `${layer.name} ${one.name}`, info: one, value: layer.options[one.name],
      set: (value) => graph.setOption(layer.name, one.name, value) })),
    m("h3", layer.inputs.length === 1 && !joins.has(layer.type) ? "Input" : "Inputs"),
    m("ul.inputs", layer.inputs.map((name) => m("li", { key: name }, m("bdi", name), m("small", shapeText(designer.shapeOf(name))),
      m("button.quiet", { type: "button", "aria-label": `Disconnect ${name}`, onclick: () => graph.disconnect(name, layer.name) }, "×")))),
    m("select", { "aria-label": "Connect from", value: "", onchange: (event) => { if (event.target.value) designer.connect(event.target.value, layer.name); } },
      m("option", { value: "" }, "Connect from…"), ["input", ...others].filter((name) => !layer.inputs.includes(name)).map((name) => m("option", { value: name }, name))),
    about.shape ? m("dl.facts", m("dt", "Output"), m("dd", shapeText(about.shape)), m("dt", "Learnables"), m("dd", count(about.learnables)),
      m("dt", "MFLOP"), m("dd", mega(about.flop))) : null,
    m(LayerTraining, { designer, layer }),
    m(".buttons-left", m("button.danger", { type: "button", onclick: () => designer.remove() }, "Delete layer")),
  ];
}

export const Inspector = {
  view: ({ attrs: { designer, palette } }) => {
    const layer = designer.graph.find(designer.only());
    const several = designer.selected.size;
    return m("aside.inspector", { "aria-label": "Options", onkeydown: (event) => { if (event.key === "Escape" && designer.only()) designer.focusNode(designer.only()); } }, layer ? layerForm(designer, palette, layer)
      : several > 1 ? [m("h2", `${several} layers`), m(".buttons-left", freezeButtons(designer, [...designer.selected]), m("button", { type: "button", onclick: () => { designer.copy(); designer.paste(); } }, "Duplicate"),
        m("button.danger", { type: "button", onclick: () => designer.remove() }, "Delete")), m(GroupForm, { designer })] : inputForm(designer));
  },
};
