// Several runs in the same charts, and what is different about them.
import { Failure, get, post, refreshRuns, runs, throttled } from "./api.js";
import { Chart, axisName, colorOf, dashOf, swatch } from "./chart.js";
import { count, duration, figure, listOf, percent, textOf } from "./format.js";
import { Output } from "./output.js";
import { Problem, State, openDialog, startCommand } from "./parts.js";

const m = window.m;

const titles = new Map([["step.loss", "Training loss"], ["validation.loss", "Held-out loss"], ["step.accuracy", "Training accuracy"],
  ["validation.accuracy", "Held-out accuracy"], ["step.learning_rate", "Learning rate"], ["step.images_per_second", "Images per second"],
  ["average.score", "Score of the replicas"]]);
const first = ["step.loss", "validation.accuracy", "validation.loss", "step.accuracy"];

// Kept while other pages are open.
const choice = { axis: "step", smoothing: 0, log: false, names: new Set(first), showsMore: false };

function title(name) { return titles.get(name) || name.replace(/^step\./, "").replace(".", ": ").replaceAll("_", " "); }

export class ComparePage {
  constructor() {
    this.about = new Map();
    this.error = null;
    this.number = 0; // of a command that this page started
    this.load = throttled(() => this.read(), 1000);
  }

  oninit({ attrs }) {
    document.title = "Compare · Lockstep studio";
    this.ids = [...new Set(attrs.ids.split(",").filter(Boolean))];
    refreshRuns();
    this.load();
    this.timer = setInterval(() => this.load(), 8000);
  }

  onremove() {
    clearInterval(this.timer);
    this.load.cancel();
  }

  async read() {
    const answers = await Promise.allSettled(this.ids.map((id) => get("/api/run", { id })));
    answers.forEach((answer, at) => { if (answer.status === "fulfilled") this.about.set(this.ids[at], answer.value); });
    const failed = answers.find((answer) => answer.status === "rejected");
    this.error = failed ? failed.reason : null;
    m.redraw();
    if (failed && !(failed.reason instanceof Failure)) throw failed.reason;
  }

  name(id) { return runs.byId.get(id)?.name || this.about.get(id)?.run.folder || id; }

  drop(id) {
    this.ids = this.ids.filter((one) => one !== id);
    m.route.set(`/compare/${this.ids.join(",")}`, null, { replace: true });
  }

  async askForDifference() {
    const body = { command: "diff", ids: this.ids };
    try {
      const { words } = await post("/api/shown", body);
      openDialog({ title: "Compare the weights?", text: "It compares the weights of both runs, and names the first step that differs.", button: "Compare", words,
        act: async () => { this.number = (await startCommand(body)).number; } });
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.error = error;
      m.redraw();
    }
  }

  controls() {
    return m(".tools",
      this.ids.length === 2 ? m("button", { type: "button", onclick: () => this.askForDifference() }, "Weights…") : null,
      m("label.field", "Along", m("select", { value: choice.axis, onchange: (event) => { choice.axis = event.target.value; } },
        Object.entries(axisName).map(([value, text]) => m("option", { value }, text)))),
      m("label.field", "Smoothing", m("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: choice.smoothing,
        "aria-valuetext": String(choice.smoothing), oninput: (event) => { choice.smoothing = Number(event.target.value); } }),
      m("output", choice.smoothing.toFixed(2))),
      m("label.field", m("input", { type: "checkbox", checked: choice.log, onchange: (event) => { choice.log = event.target.checked; } }), "Logarithmic"));
  }

  // Which curves are shown, of those that any of the runs has.
  curveChips() {
    const all = new Set();
    for (const about of this.about.values()) about.curves.forEach((name) => all.add(name));
    const known = [...titles.keys()].filter((name) => all.has(name));
    const more = [...all].filter((name) => !titles.has(name) && !/_step$|samples$|best$/.test(name));
    const names = [...known, ...more.filter((name) => choice.showsMore || choice.names.has(name))];
    return m(".chips.gap", { role: "group", "aria-label": "Curves" }, names.map((name) => m("button", {
      type: "button", "aria-pressed": String(choice.names.has(name)),
      onclick: () => { if (!choice.names.delete(name)) choice.names.add(name); },
    }, title(name))), more.length > 0 ? m("button", { type: "button", "aria-expanded": String(choice.showsMore),
      onclick: () => { choice.showsMore = !choice.showsMore; } }, choice.showsMore ? "Fewer" : `${more.length} more`) : null);
  }

  charts() {
    const names = [...choice.names].filter((name) => [...this.about.values()].some((about) => about.curves.includes(name)));
    return m(".grid", names.map((name) => m(Chart, {
      key: `${name} ${this.ids.join()}`, title: title(name), axis: choice.axis, smoothing: choice.smoothing, log: choice.log,
      percent: name.endsWith("accuracy"), legend: false,
      series: this.ids.map((id, number) => ({ id, name, label: this.name(id), number })).filter((one) => this.about.get(one.id)?.curves.includes(name)),
    })));
  }

  table() {
    const rows = [
      ["State", (about) => m(State, { state: about.state })], ["Network", (about) => m("bdi", about.run.network)],
      ["Held-out accuracy", (about) => percent(about.run.accuracy)], ["Best", (about) => percent(about.run.best_accuracy)],
      ["Test accuracy", (about) => percent(about.run.test_accuracy)], ["Held-out loss", (about) => figure(about.run.validation_loss)],
      ["Training loss, last step", (about) => figure(about.run.loss)], ["Steps", (about) => count(about.run.step)], ["Time", (about) => duration(about.run.seconds)],
    ];
    const shown = rows.filter(([, cell]) => this.ids.some((id) => this.about.has(id) && cell(this.about.get(id)) !== ""));
    const others = this.differences();
    return m(".table-box", { tabindex: 0, role: "region", "aria-label": "Runs side by side" }, m("table.side",
      m("thead", m("tr", m("th", { scope: "col" }, "Run"), this.ids.map((id, number) => m("th", { scope: "col", key: id },
        m(".run-head", swatch(colorOf(number), dashOf(number)), m("a", { href: `#!/run/${id}`, title: this.name(id) }, m("bdi", this.name(id))),
          this.ids.length > 1 ? m("button.remove", { type: "button", "aria-label": `Leave out ${this.name(id)}`, onclick: () => this.drop(id) }, "×") : null))))),
      m("tbody", shown.map(([name, cell]) => this.row(name, (about) => cell(about))),
        others.length > 0 ? m("tr", m("th.part", { scope: "colgroup", colspan: this.ids.length + 1 }, "What is different in their plans")) : null,
        others.map(([name, values]) => m("tr", m("th", { scope: "row" }, name), values.map((value) => m("td", m("bdi", value))))))));
  }

  row(name, cell) {
    return m("tr", m("th", { scope: "row" }, name), this.ids.map((id) => m("td", this.about.has(id) ? cell(this.about.get(id)) : "")));
  }

  differences() {
    if (this.ids.length < 2 || !this.ids.every((id) => this.about.has(id))) return [];
    const maps = this.ids.map((id) => new Map(listOf(this.about.get(id).plan?.lines).filter(Array.isArray).map((line) => [textOf(line[0]), textOf(line[1])])));
    const names = [...new Set(maps.flatMap((map) => [...map.keys()]))];
    return names.map((name) => [name, maps.map((map) => map.get(name) ?? "")]).filter(([, values]) => new Set(values).size > 1);
  }

  view() {
    return m("div",
      m(".head", m("div", m("h1", "Compare"), m("p", `${this.ids.length} ${this.ids.length === 1 ? "run" : "runs"}`)), this.controls()),
      this.error ? m(Problem, { error: this.error }) : null,
      m("div", this.number ? [m(Output, { key: this.number, number: this.number, isKept: true, answers: [0, 1] })] : []),
      this.curveChips(), this.charts(), this.about.size > 0 ? this.table() : null);
  }
}
