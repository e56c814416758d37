// The dialog that starts a sweep.
import { ShownCommand } from "./command_form.js";
import { NetworkField, Options, formOf, given, usualOfTraining } from "./fields.js";
import { openDialog } from "./parts.js";

const m = window.m;

const usualOfSweep = ["search", "count", "stop-rule", "trials", "workers", "seed"];

// Kept for the next sweep.
const choice = { data: "", network: "", parameters: [{ name: "learning-rate", values: "0.001..0.1:log" }], options: {}, training: {} };
const forms = { sweep: [], train: [] };

function body() {
  return { command: "sweep", data: choice.data.trim(), network: choice.network.trim(), options: given(choice.options), training: given(choice.training),
    parameters: choice.parameters.map(({ name, values }) => ({ name, values: values.trim() })) };
}

// Nothing is asked of the server, nor refused, while an option has no values yet.
const isHalfFilled = () => !choice.data.trim() || choice.parameters.some(({ values }) => !values.trim());

const Parameters = {
  view: () => m("fieldset.parameters", m("legend", "What is searched"),
    choice.parameters.map((one, at) => m(".parameter", { key: at },
      m("select", { "aria-label": `Option ${at + 1}`, value: one.name, onchange: (event) => { one.name = event.target.value; } },
        ["network", ...forms.train.map((info) => info.name)].map((name) => m("option", { value: name }, name))),
      m("input", { type: "text", "aria-label": `Values of option ${at + 1}`, "aria-describedby": "sweep-values-help", value: one.values, required: true, autocomplete: "off",
        oninput: (event) => { one.values = event.target.value; } }),
      m("button", { type: "button", "aria-label": `Leave out option ${at + 1}`, disabled: choice.parameters.length === 1, onclick: () => choice.parameters.splice(at, 1) }, "×"))),
    m("small", { id: "sweep-values-help" }, "a range, such as 0.001..0.1:log or 1..5, or values, such as sgdm,adam; with :when=optimizer=sgdm it counts only there"),
    m("div", m("button", { type: "button", onclick: () => choice.parameters.push({ name: "mini-batch-size", values: "" }) }, "Add an option"))),
};

const Form = {
  oninit: () => {
    const take = (name) => (list) => { forms[name] = list; m.redraw(); };
    formOf("sweep").then(take("sweep"));
    formOf("train").then(take("train"));
  },
  view: () => m(".training",
    m(".option", m("label", { for: "sweep-data" }, "data"), m("input", { id: "sweep-data", type: "text", value: choice.data, required: true, autocomplete: "off",
      "aria-describedby": "sweep-data-help", oninput: (event) => { choice.data = event.target.value; } }),
    m("small", { id: "sweep-data-help" }, "a folder with a folder of images for each class, an archive or an address, as lockstep train takes it")),
    m(NetworkField, { id: "sweep-network", value: choice.network, set: (text) => { choice.network = text; }, help: "the name of a built-in network or a file; leave it out if it is searched" }),
    forms.train.length > 0 ? m(Parameters) : null, // a select keeps no value that it has no option for
    m("h3", "The sweep"), m(Options, { form: forms.sweep, usual: usualOfSweep, values: choice.options, prefix: "sweep" }),
    m("h3", "Each training"), m(Options, { form: forms.train.filter((info) => info.name !== "workers"), usual: usualOfTraining.filter((name) => name !== "workers"),
      values: choice.training, prefix: "trial" }),
    m(ShownCommand, { body: body(), isEmpty: isHalfFilled() })),
};

// page: shows the output of the command.
export function openNewSweep(page) {
  openDialog({ title: "New sweep", button: "Start", body: Form, act: () => page.start(body()) });
}
