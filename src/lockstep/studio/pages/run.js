// One run, live.
import { Failure, get, listen, post, program, refreshRuns, runs, throttled } from "./api.js";
import { Chart, colorOf, swatch } from "./chart.js";
import { Export } from "./exporting.js";
import { bytes, count, duration, figure, lastPart, listOf, moment, percent, textOf } from "./format.js";
import { Command, Facts, Problem, ProblemPage, Progress, State, Tile, openDialog, startCommand } from "./parts.js";
import { LayerView } from "./layer.js";
import { Output } from "./output.js";
import { Weights } from "./weights.js";
import { UseOfMachine, WorkersOfStep } from "./workers.js";

const m = window.m;

const stepParts = [
  ["queue_seconds", "waiting for data"], ["forward_seconds", "forward"], ["backward_seconds", "backward"],
  ["exchange_seconds", "exchange, with the wait for other workers"], ["update_seconds", "update of the weights"],
];
const shownCurves = new Set(["step.loss", "step.accuracy", "step.least_loss", "step.least_loss_step", "step.largest_loss",
  "step.largest_loss_step", "validation.loss", "validation.accuracy", "validation.best", "validation.samples", "step.samples",
  "step.learning_rate", "step.images_per_second", "step.seconds_left", "step.page_faults", "average.score", "average.seconds",
  "validation.images_per_second", "step.checkpoint_seconds", "step.hidden_exchange_seconds", ...stepParts.map(([name]) => `step.${name}`)]);

function messageText(message) {
  switch (message.kind) {
    case "checkpoint": return `Checkpoint saved${message.best ? ", with the best weights" : ""}`;
    case "request": return `Request ${message.request}: ${message.answer}`;
    case "end": return `End: ${message.reason}, after ${duration(message.seconds)} of training`;
    case "failed": return message.error;
    case "skipped": return `${count(listOf(message.files).length)} files left out`;
    default: return message.text || message.kind;
  }
}

function messageClass(message) { return message.kind === "failed" ? "failed" : message.level === "warning" ? "warning" : ""; }

export class RunPage {
  constructor() {
    this.about = null;
    this.error = null;
    this.number = 0; // of a command that this page started
    this.showsReport = false;
    this.showsWeights = false;
    this.showsLayer = false;
    this.export = new Export();
    this.load = throttled(() => this.read(), 1000);
  }

  oninit({ attrs }) {
    this.id = attrs.id;
    document.title = "Run · Lockstep studio";
    this.load();
    this.ends = [
      listen("run", ({ id }) => { if (id === this.id) this.load(); }), listen("runs", () => this.load()),
      listen("reset", () => this.load()),
    ];
    this.timer = setInterval(() => this.load(), 8000); // also tells the server that the run is shown
  }

  onremove() {
    for (const end of this.ends) end();
    clearInterval(this.timer);
    this.load.cancel();
  }

  async read() {
    try {
      this.about = await get("/api/run", { id: this.id });
      this.error = null;
      document.title = `${this.name()} · Lockstep studio`;
    } catch (error) {
      this.error = error;
      if (!(error instanceof Failure)) throw error;
    } finally {
      m.redraw();
    }
  }

  name() { return runs.byId.get(this.id)?.name || this.about.run.folder; }

  ask(request, words) {
    return () => openDialog({
      ...words, act: async () => { await post("/api/request", { id: this.id, request }); this.asked = words.done; },
    });
  }

  run(command, words, after) {
    return () => openDialog({
      ...words, words: this.about[command], act: async () => {
        this.number = (await startCommand({ command, id: this.id })).number;
        this.after = after;
      },
    });
  }

  buttons() {
    const { state, reads_requests: reads, resume } = this.about;
    const list = [];
    if (state === "running" && reads) {
      list.push(m("button", { type: "button", onclick: this.ask("checkpoint", { title: "Save a checkpoint?",
        text: "The run saves a checkpoint after this step and goes on.", button: "Save", done: "A checkpoint was asked for." }) }, "Checkpoint"),
      m("button", { type: "button", onclick: this.ask("finish", { title: "Finish early?",
        text: "The run ends after this step, writes its weights and tests them.", button: "Finish", done: "The run was asked to finish." }) }, "Finish early"),
      m("button.danger", { type: "button", onclick: this.ask("stop", { title: "Stop this run?",
        text: "It ends now with a checkpoint, from which it can be resumed.", button: "Stop", danger: true, done: "The run was asked to stop." }) }, "Stop"));
      return list;
    }
    if (state === "running" || state === "stopping") return list;
    if (resume && ["stopped", "failed", "lost"].includes(state)) {
      list.push(m("button.main", { type: "button", onclick: this.run("resume", { title: "Resume this run?",
        text: "It goes on from its last checkpoint, in the background of the machine on which studio runs.", button: "Resume" }) }, "Resume"));
    }
    if (this.about.has_report) {
      list.push(m("button", { type: "button", "aria-expanded": String(this.showsReport), onclick: () => { this.showsReport = !this.showsReport; } },
        this.showsReport ? "Hide report" : "Report"));
    } else if (state === "ended") {
      list.push(m("button", { type: "button", onclick: this.run("report", { title: "Make a report?",
        text: "It tests the network on the samples that the run held out: confusion matrix, classes and the worst mistakes as images.",
        button: "Make report" }, () => { this.showsReport = true; }) }, "Make report"));
    }
    if (this.about.has_weights && program.commands.includes("export"))
      list.push(m("button", { type: "button", onclick: () => this.export.open({ id: this.id }, lastPart(this.about.run.folder)) }, "Export…"));
    list.push(m("button.danger", { type: "button", onclick: this.run("remove", { title: "Delete this run?",
      text: `All files of ${this.name()} (${bytes(this.about.run.bytes)}) are removed: weights, checkpoints and logs. This cannot be undone.`,
      button: "Delete", danger: true }, () => { refreshRuns(); m.route.set("/runs"); }) }, "Delete"));
    return list;
  }

  head() {
    const { run, state, reason } = this.about;
    return m(".head",
      m("div", m("h1", m("bdi", this.name())),
        m("p", m(State, { state }), reason && reason !== state ? ` · ${reason}` : "")),
      m(".tools", this.buttons(), program.commands.includes("weights show") ? m("button", { type: "button", "aria-expanded": String(this.showsWeights), onclick: () => { this.showsWeights = !this.showsWeights; } },
        this.showsWeights ? "Hide weights" : "Weights") : null,
      run.data && program.commands.includes("layer show") ? m("button", { type: "button", "aria-expanded": String(this.showsLayer), onclick: () => { this.showsLayer = !this.showsLayer; } },
        this.showsLayer ? "Hide layers" : "Layers") : null, m("a.button", { href: `#!/compare/${this.id}` }, "Compare")));
  }

  tiles() {
    const { run, newest = {}, state } = this.about;
    const runs_ = state === "running" || state === "stopping";
    return m("dl.tiles",
      m(Tile, { label: "Held-out accuracy", value: percent(run.accuracy), note: run.best_accuracy !== undefined
        ? `best ${percent(run.best_accuracy)} at step ${count(run.best_step)}` : null }),
      run.test_accuracy === undefined ? null : m(Tile, { label: "Test accuracy", value: percent(run.test_accuracy) }),
      run.validation_loss === undefined ? null : m(Tile, { label: "Held-out loss", value: figure(run.validation_loss) }),
      m(Tile, { label: "Training loss", value: figure(newest.loss ?? run.loss), note: "of the last step" }),
      m(Tile, { label: "Step", value: count(Math.max(newest.step || 0, run.step || 0)), note: run.total_steps ? `of ${count(run.total_steps)}${run.epoch ? `, epoch ${run.epoch}` : ""}` : null }),
      runs_ ? m(Tile, { label: "Time left", value: duration(newest.seconds_left) }) : m(Tile, { label: "Time", value: duration(run.seconds) }),
      m(Tile, { label: "Images per second", value: count(newest.images_per_second) }),
      m(Tile, { label: "Learning rate", value: figure(newest.learning_rate) }));
  }

  chart(title, names, options = {}) {
    const series = names.filter(([name]) => this.about.curves.includes(name))
      .map(([name, label], number) => ({ id: this.id, name, label, number }));
    return series.length === 0 ? null : m(Chart, { key: title, title, series, axis: "step", ...options });
  }

  // A run that goes on has the weights of its last checkpoint.
  savedStep() {
    const saved = (this.about.messages || []).filter(({ kind }) => kind === "checkpoint").pop();
    return `${this.about.state} ${saved?.step ?? 0}`;
  }

  charts() {
    const { curves, complete, state } = this.about;
    if (curves.length === 0) return m(".card.empty.gap", !complete ? "Reading the log…" : state === "running" ? "Nothing logged yet. The curves appear here by themselves." : "The run has logged no curves.");
    const others = curves.filter((name) => !shownCurves.has(name));
    return m(".grid", [
      this.chart("Loss", [["step.loss", "training"], ["validation.loss", "held out"], ["average.score", "replicas"]]),
      this.chart("Accuracy", [["step.accuracy", "training"], ["validation.accuracy", "held out"]], { percent: true }),
      this.chart("Learning rate", [["step.learning_rate", "learning rate"]], { legend: false }),
      this.chart("Images per second", [["step.images_per_second", "images per second"]], { legend: false }),
      ...others.map((name) => this.chart(name, [[name, name]], { legend: false })),
    ].filter(Boolean));
  }

  breakdown() {
    const { newest } = this.about;
    if (!newest) return null;
    const parts = stepParts.map(([name, label], number) => ({ label, number, seconds: Math.max(0, newest[name] || 0) }));
    const whole = parts.reduce((sum, part) => sum + part.seconds, 0);
    if (whole === 0) return null;
    return m("section.card", m("h2", `One step of rank 0: ${duration(whole) && figure(whole * 1000)} ms`),
      m(".breakdown", { role: "img", "aria-label": parts.map((part) => `${part.label}: ${figure(part.seconds * 1000)} ms`).join("; ") },
        parts.filter((part) => part.seconds > 0).map((part) => m("i", { style: { width: `${(part.seconds / whole) * 100}%`, background: colorOf(part.number) } }))),
      m("ul.legend", parts.map((part) => m("li", swatch(colorOf(part.number)), part.label, m("b", `${figure(part.seconds * 1000)} ms`)))));
  }

  messages() {
    const list = (this.about.messages || []).slice().reverse();
    return m("section.card", m("h2", "Messages"), list.length === 0 ? m("p.empty", "None")
      : m("ul.messages", { tabindex: 0, "aria-label": "Messages, the newest first" }, list.map((message) => m("li", { class: messageClass(message) },
        m("time", { title: moment(message.time) }, moment(message.time).slice(11)), m("bdi", textOf(messageText(message)))))));
  }

  facts() {
    const { run, environment = {}, plan = {} } = this.about;
    const lines = listOf(plan.lines).filter(Array.isArray).map((line) => [line[0], line[1], line[2]]);
    return [
      m("section.card", m("h2", "Run"), m(Facts, { rows: [
        ["Folder", run.folder], ["Network", run.network], ["Data", run.data], ["Started", moment(run.started)], ["Host", run.host],
        ["Size", bytes(run.bytes)], ["Workers", count(environment.workers)], ["Ranks", environment.ranks > 1 ? count(environment.ranks) : ""],
        ["Cores", count(environment.cores)], ["Most memory", bytes(this.about.end?.peak_memory_bytes), "of the process of rank 0"], ["GPUs", listOf(environment.gpus).join(", ")], ["Version", environment.version], ["Arithmetic", environment.build],
      ] }), listOf(environment.arguments).length > 0 ? [m("h2.spaced", "Command"), m(Command, { words: environment.arguments.map((word, at) => (at === 0 ? lastPart(String(word)) : String(word))) })] : null),
      lines.length === 0 ? null : m("section.card", m("h2", "Plan"), m(Facts, { rows: lines })),
    ];
  }

  failure() {
    const { failed, problem, state, hint, reason } = this.about;
    if (problem) return m(Problem, { error: { message: problem } });
    if (state === "failed" && failed) {
      return m(Problem, { error: { message: failed.error, hint: [...listOf(failed.context), failed.hint ? `Hint: ${failed.hint}` : ""].filter(Boolean).join("\n") } });
    }
    return state === "failed" || state === "lost" ? m(Problem, { error: { message: reason || state, hint } }) : null;
  }

  view() {
    if (this.error && !this.about) return m(ProblemPage, { title: "Run", error: this.error });
    if (!this.about) return m(".empty", "Reading the run…");
    const { run, state, newest = {} } = this.about;
    return m("div", this.head(), this.error ? m(Problem, { error: this.error }) : null,
      this.asked && (state === "running" || state === "stopping") ? m(".notice", { role: "status" }, this.asked) : null,
      m("div", this.number ? [m(Output, { key: this.number, number: this.number, done: (status) => { if (status === 0 && this.after) this.after(); this.load(); } })] : []),
      this.export.view(), this.failure(),
      state === "running" && run.total_steps ? m(Progress, { label: "Steps done", value: newest.step || run.step || 0, of: run.total_steps }) : null,
      m(".spaced"), this.tiles(),
      this.showsReport && this.about.has_report ? m("iframe.report", { src: `/api/report?id=${this.id}`, title: "Report", sandbox: "" }) : null,
      m("div", this.showsWeights ? [m(Weights, { saved: this.savedStep(), id: this.id })] : []),
      m("div", this.showsLayer ? [m(LayerView, { key: this.id, saved: this.savedStep(), id: this.id, data: run.data, classes: listOf(this.about.plan?.classes).map(textOf) })] : []),
      this.charts(),
      m(".grid", this.breakdown(), m(WorkersOfStep, { about: this.about }), m(UseOfMachine, { about: this.about }), this.messages(), this.facts()));
  }
}
