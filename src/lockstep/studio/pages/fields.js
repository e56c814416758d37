// Forms made of a command's options, as the server describes them.
import { get } from "./api.js";

const m = window.m;

export const usualOfTraining = ["max-epochs", "mini-batch-size", "learning-rate", "optimizer", "workers", "execution", "seed", "validation"];

// What train/planning/recipe.cpp chooses if it is not given. Others of its options say "auto" by themselves.
export const ofRecipe = new Set(["augment", "mini-batch-size", "optimizer", "gradient-clip", "learning-rate", "batch-norm-start", "weight-decay",
  "max-epochs", "warmup-steps"]);

// Whether a training with these options has a recipe.
function hasRecipe(values) {
  return values.recipe !== "plain" && values.exchange !== "average" && values["mini-batch-size"] !== "auto" && !Number(values["tbptt-length"]);
}

// What was filled in.
export function given(values) { return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== "")); }

const forms = new Map();

// The options of a command, asked for once.
export async function formOf(command) {
  if (!forms.has(command)) forms.set(command, await (command === "train" ? get("/api/training") : get("/api/form", { command })));
  return forms.get(command);
}

const networks = { names: [], isAsked: false };

// A built-in network or a file. attrs: {id, value, set(text), help}
export const NetworkField = {
  oninit: () => {
    if (networks.isAsked) return;
    networks.isAsked = true;
    get("/api/networks").then((list) => { networks.names = list.map((one) => one.name); m.redraw(); }, () => { networks.isAsked = false; });
  },
  view: ({ attrs: { id, value, set, help } }) => m(".option", m("label", { for: id }, "network"),
    m("input", { id, type: "text", value, placeholder: "auto", autocomplete: "off", list: `${id}-names`, "aria-describedby": `${id}-help`,
      oninput: (event) => set(event.target.value) }),
    m("datalist", { id: `${id}-names` }, networks.names.map((name) => m("option", { value: name }))), m("small", { id: `${id}-help` }, help)),
};

// attrs: {info, value, set(text), prefix of its id, usual: what happens without a value, if that is not the default}
export const Field = {
  view: ({ attrs: { info, value = "", set, prefix, usual } }) => {
    const id = `${prefix}-${info.name}`;
    const about = { id, "aria-describedby": `${id}-help` };
    const label = m("label", { for: id }, info.name);
    const help = m("small", { id: `${id}-help` }, info.help);
    if (info.type === "switch") {
      return m(".option.switch", m("input", { ...about, type: "checkbox", checked: (value || info.default) === "true",
        onchange: (event) => set(String(event.target.checked) === info.default ? "" : String(event.target.checked)) }), label, help);
    }
    const control = info.choices
      ? m("select", { ...about, value: value || (usual ? "" : info.default), onchange: (event) => set(!usual && event.target.value === info.default ? "" : event.target.value) },
        usual ? m("option", { value: "" }, usual) : null, info.choices.map((one) => m("option", { value: one }, one)))
      : m("input", { ...about, type: "text", value, placeholder: usual || info.default, autocomplete: "off", oninput: (event) => set(event.target.value) });
    return m(".option", label, control, help);
  },
};

// The usual options, and all others in their sections with a search.
//   attrs  {form, usual: [name], values: {name: text}, prefix, changed()}
export class Options {
  constructor() { this.search = ""; }

  field({ form, values, prefix, changed }, info) {
    const usual = ofRecipe.has(info.name) && form.some(({ name }) => name === "recipe") && hasRecipe(values) ? "chosen by the recipe" : "";
    return m(Field, { info, prefix, usual, value: values[info.name], set: (text) => { values[info.name] = text; changed?.(); } });
  }

  view({ attrs }) {
    const { form, usual } = attrs;
    const words = this.search.toLowerCase();
    const others = form.filter((info) => !usual.includes(info.name) && `${info.name} ${info.help}`.toLowerCase().includes(words));
    const sections = [...new Set(others.map((info) => info.section))];
    return [m(".options", usual.map((name) => form.find((info) => info.name === name)).filter(Boolean).map((info) => this.field(attrs, info))),
      form.length === usual.length ? null : m("details", m("summary", "All options"), m("input", { type: "search", placeholder: "Search options", "aria-label": `Search options of ${attrs.prefix}`,
        value: this.search, oninput: (event) => { this.search = event.target.value; } }),
      sections.map((section) => [m("h3", section), m(".options", others.filter((info) => info.section === section).map((info) => this.field(attrs, info)))]))];
  }
}
