// The dialog that starts a training of a drawn network.
import { Failure, get, post, program, refreshRuns, runs } from "./api.js";
import { Command, Facts, closeDialog, openDialog, startCommand } from "./parts.js";
import { Output } from "./output.js";

const m = window.m;

const usual = ["max-epochs", "mini-batch-size", "learning-rate", "optimizer", "workers", "execution", "seed", "validation"];

// Kept for the next training.
const choice = { data: "", options: {}, search: "", asJob: false };
let form = null;

class TrainingForm {
  constructor() {
    Object.assign(this, { plan: null, error: null, busy: false, words: null, number: 0 });
  }

  oninit({ attrs }) {
    this.graph = attrs.graph;
    if (!form) get("/api/training").then((list) => { form = list; m.redraw(); }, (error) => { this.error = error; m.redraw(); });
  }

  body() {
    const options = Object.fromEntries(Object.entries(choice.options).filter(([, value]) => value !== ""));
    return { command: "train", as_job: choice.asJob, data: choice.data.trim(), network: this.graph.asFile(), name: this.graph.drawing.name, options };
  }

  async ask() {
    this.busy = true;
    this.error = this.plan = null;
    m.redraw();
    try {
      const body = this.body();
      [{ words: this.words }, this.plan] = await Promise.all([post("/api/shown", body), post("/api/plan", body)]);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.error = error;
    }
    this.busy = false;
    m.redraw();
  }

  async start() {
    this.error = null;
    try {
      const answer = await startCommand(this.body());
      this.words = answer.words;
      this.number = answer.number;
      this.output = answer.words.find((word) => word.startsWith("--output=")).slice("--output=".length);
      this.follow();
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.error = error;
    }
    m.redraw();
  }

  // Until the run is in the list.
  follow() {
    clearInterval(this.timer);
    this.timer = setInterval(() => {
      refreshRuns();
      const run = [...runs.byId.values()].find((one) => one.folder === this.output);
      if (!run) return;
      clearInterval(this.timer);
      closeDialog();
      m.route.set(`/run/${run.id}`);
    }, 300);
  }

  ended(status) {
    if (status !== 0) clearInterval(this.timer);
    else if (choice.asJob) { closeDialog(); m.route.set("/jobs"); }
  }

  onremove() { clearInterval(this.timer); }

  field(info) {
    const id = `train-${info.name}`;
    const value = choice.options[info.name] ?? "";
    const set = (text) => { choice.options[info.name] = text; this.plan = null; };
    const label = m("label", { for: id }, info.name);
    const help = m("small", { id: `${id}-help` }, info.help);
    if (info.type === "switch") {
      return m(".option.switch", m("input", { id, type: "checkbox", checked: value === "true", "aria-describedby": `${id}-help`,
        onchange: (event) => set(event.target.checked ? "true" : "") }), label, help);
    }
    const control = info.choices
      ? m("select", { id, value: value || info.default, "aria-describedby": `${id}-help`, onchange: (event) => set(event.target.value === info.default ? "" : event.target.value) },
        info.choices.map((one) => m("option", { value: one }, one)))
      : m("input", { id, type: "text", value, placeholder: info.default, autocomplete: "off", "aria-describedby": `${id}-help`, oninput: (event) => set(event.target.value) });
    return m(".option", label, control, help);
  }

  options() {
    if (!form) return null;
    const words = choice.search.toLowerCase();
    const others = form.filter((info) => !usual.includes(info.name) && `${info.name} ${info.help}`.toLowerCase().includes(words));
    const sections = [...new Set(others.map((info) => info.section))];
    return [m(".options", usual.map((name) => form.find((info) => info.name === name)).filter(Boolean).map((info) => this.field(info))),
      m("details", m("summary", "All options"), m("input", { type: "search", placeholder: "Search options", "aria-label": "Search options", value: choice.search,
        oninput: (event) => { choice.search = event.target.value; } }),
      sections.map((section) => [m("h3", section), m(".options", others.filter((info) => info.section === section).map((info) => this.field(info)))]))];
  }

  view() {
    const lines = this.plan?.lines || [];
    return m(".training",
      m(".option", m("label", { for: "train-data" }, "data"), m("input", { id: "train-data", type: "text", value: choice.data, required: true, autocomplete: "off",
        "aria-describedby": "train-data-help", oninput: (event) => { choice.data = event.target.value; this.plan = null; } }),
      m("small", { id: "train-data-help" }, "a folder with a folder of images for each class, an archive or an address, as lockstep train takes it")),
      this.options(),
      program.commands.includes("batch") ? m("label.field.gap", m("input", { type: "checkbox", checked: choice.asJob,
        onchange: (event) => { choice.asJob = event.target.checked; this.words = null; } }), "Put it into the queue, as a job") : null,
      m(".buttons-left", m("button", { type: "button", disabled: this.busy || !choice.data.trim(), onclick: () => this.ask() }, this.busy ? "Planning…" : "Show the plan")),
      this.error ? m(".problem", { role: "alert" }, m("strong", this.error.message), this.error.hint ? m("p", this.error.hint) : null) : null,
      this.words ? [m("p.label", "The command:"), m(Command, { words: this.words })] : null,
      lines.length > 0 ? m("section.plan", m("h3", "Plan"), m(Facts, { rows: lines })) : null,
      m("div", this.number ? [m(Output, { key: this.number, number: this.number, done: (status) => this.ended(status) })] : []));
  }
}

export function openTraining(graph) {
  let shown = null;
  openDialog({
    title: `Train ${graph.drawing.name}`, button: "Train", isOpenAfter: true,
    body: { view: () => m(TrainingForm, { graph, oninit: (vnode) => { shown = vnode.state; } }) },
    act: () => shown.start(),
  });
}
