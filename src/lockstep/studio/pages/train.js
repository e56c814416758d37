// The dialog that starts a training, of a drawn network or of another one.
import { Failure, post, program, refreshRuns, runs } from "./api.js";
import { NetworkField, Options, formOf, given, usualOfTraining as usual } from "./fields.js";
import { Command, Facts, closeDialog, openDialog, startCommand } from "./parts.js";
import { DataSamples } from "./data.js";
import { Output } from "./output.js";

const m = window.m;

const usualOfJob = ["profile", "name", "memory", "priority"];
const usualOfWeights = ["image-size", "normalize"]; // what trained weights expect of images

// Kept for the next training.
const choice = { data: "", network: "", options: {}, asJob: false, job: {} };
let form = null;
let formOfJob = null;

class TrainingForm {
  constructor() {
    Object.assign(this, { plan: null, error: null, busy: false, words: null, number: 0, changes: 0, looked: choice.data });
  }

  // The answer may be below the part of the dialog that is in view.
  onupdate({ dom }) {
    if (!this.reveals) return;
    this.reveals = false;
    dom.querySelector(".refused, .plan")?.scrollIntoView({ block: "nearest" });
  }

  oninit({ attrs }) {
    Object.assign(this, { graph: attrs.graph, transfer: attrs.transfer });
    this.askForJob();
    if (!form) formOf("train").then((list) => { form = list; m.redraw(); }, (error) => { this.error = error; m.redraw(); });
  }

  askForJob() {
    if (choice.asJob && !formOfJob) formOf("batch").then((list) => { formOfJob = list.filter((info) => info.name !== "commands"); m.redraw(); }, (error) => { this.error = error; m.redraw(); });
  }

  network() {
    return this.graph ? { network: this.graph.asFile(), name: this.graph.drawing.name } : { network: choice.network.trim() || "auto" };
  }

  body() {
    return { command: "train", as_job: choice.asJob, job: given(choice.job), data: choice.data.trim(), ...this.network(), options: { ...this.transfer, ...given(choice.options) } };
  }

  // What was planned is no longer what would be started.
  changed() {
    this.plan = this.words = null;
    this.changes += 1;
  }

  async ask() {
    this.busy = true;
    this.error = this.plan = null;
    m.redraw();
    const { changes } = this;
    try {
      const body = this.body();
      const [{ words }, plan] = await Promise.all([post("/api/shown", body), post("/api/plan", body)]);
      if (changes === this.changes) Object.assign(this, { words, plan });
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.error = error;
    }
    this.busy = false;
    this.reveals = true;
    m.redraw();
  }

  async start() {
    this.error = null;
    try {
      const answer = await startCommand(this.body());
      this.words = answer.words;
      this.number = answer.number;
      this.output = answer.words.find((word) => word.startsWith("--output=")).slice("--output=".length);
      if (!choice.asJob && !this.isClosed) this.follow(); // a job is followed on its own page
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.error = error;
      this.reveals = true;
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

  onremove() {
    this.isClosed = true;
    clearInterval(this.timer);
  }

  view() {
    const lines = this.plan?.lines || [];
    return m(".training",
      m(".option", m("label", { for: "train-data" }, "data"), m("input", { id: "train-data", type: "text", value: choice.data, required: true, autocomplete: "off",
        "aria-describedby": "train-data-help", oninput: (event) => { choice.data = event.target.value; this.changed(); }, onchange: () => { this.looked = choice.data; } }),
      m("small", { id: "train-data-help" }, "a folder with a folder of images for each class, an archive or an address, as lockstep train takes it")),
      m(DataSamples, { data: this.looked, options: choice.options, done: () => { this.reveals = true; } }),
      this.graph ? null : m(NetworkField, { id: "train-network", value: choice.network, set: (text) => { choice.network = text; this.changed(); }, help: "the name of a built-in network, or a file of the designer" }),
      form ? m(Options, { form, usual: this.transfer.weights ? [...usual, ...usualOfWeights] : usual, values: choice.options, prefix: "train", changed: () => this.changed() }) : null,
      Object.keys(this.transfer).length > 0 ? [m("p.label", "Of the drawing:"), m(Facts, { rows: Object.entries(this.transfer) })] : null,
      program.commands.includes("batch") ? m("label.field.gap", m("input", { type: "checkbox", checked: choice.asJob,
        onchange: (event) => { choice.asJob = event.target.checked; this.changed(); this.askForJob(); } }), "Put it into the queue, as a job") : null,
      choice.asJob && formOfJob ? m("section", { "aria-label": "The job" }, m(Options, { form: formOfJob, usual: usualOfJob, values: choice.job, prefix: "job", changed: () => this.changed() })) : null,
      m(".buttons-left", m("button", { type: "button", disabled: this.busy || !choice.data.trim(), onclick: () => this.ask() }, this.busy ? "Planning…" : "Show the plan")),
      this.error ? m(".problem.refused", { role: "alert" }, m("strong", this.error.message), this.error.hint ? m("p", this.error.hint) : null) : null,
      this.words ? [m("p.label", "The command:"), m(Command, { words: this.words })] : null,
      lines.length > 0 ? m("section.plan", { tabindex: 0, "aria-label": "Plan" }, m("h3", "Plan"), m(Facts, { rows: lines })) : null,
      m("div", this.number ? [m(Output, { key: this.number, number: this.number, done: (status) => this.ended(status) })] : []));
  }
}

//   graph     the drawn network, if there is one
//   transfer  options that follow from the drawing
export function openTraining(graph = null, transfer = {}) {
  let shown = null;
  openDialog({
    title: graph ? `Train ${graph.drawing.name}` : "New training", button: "Train", isOpenAfter: true,
    body: { view: () => m(TrainingForm, { graph, transfer, oninit: (vnode) => { shown = vnode.state; } }) },
    act: () => shown.start(),
  });
}
