// The table below the sheet: what each layer of a drawing has and costs, and how long it takes.
import { Failure, post } from "./api.js";
import { shapeText } from "./drawing.js";
import { bytes, count, figure, mega, percent } from "./format.js";
import { Command, Problem } from "./parts.js";

const m = window.m;
const samples = 16; // in the step that is measured
const float = 4; // bytes

// attrs: {designer}
export class Analysis {
  constructor() { Object.assign(this, { times: null, all: 0, words: null, error: null, busy: false, measured: -1 }); }

  async measure({ graph }) {
    const body = { command: "network show", network: graph.asFile(), name: graph.drawing.name, options: { ...graph.inputOptions(), time: String(samples) } };
    Object.assign(this, { busy: true, times: null, error: null, measured: graph.version });
    try {
      this.words = (await post("/api/shown", body)).words;
      m.redraw();
      const { layers } = await post("/api/times", body);
      this.times = new Map(layers.map((layer) => [layer.name, layer.forward_seconds + layer.backward_seconds]));
      this.all = [...this.times.values()].reduce((sum, seconds) => sum + seconds, 0);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.error = error;
    }
    this.busy = false;
    m.redraw();
  }

  probe(designer) {
    const { channels, time_steps: steps } = designer.graph.drawing.input;
    const isKnown = steps > 0 || channels === 1 || channels === 3;
    return m(".probe", m("button", { type: "button", disabled: this.busy || !designer.check?.complete || !isKnown, onclick: () => this.measure(designer) }, this.busy ? "Measuring…" : "Measure time"),
      this.times ? m("span.soft", `A step of ${samples} samples takes ${figure(this.all * 1000)} ms on one core.`) : m("span.soft", `Runs a step of ${samples} made-up samples on one core.`),
      this.words ? m(Command, { words: this.words }) : null, this.error ? m(Problem, { error: this.error }) : null);
  }

  share(name) {
    const seconds = this.times?.get(name);
    return seconds === undefined ? null : [m("span.bar", { "aria-hidden": "true" }, m("i", { style: { width: `${100 * seconds / this.all}%` } })), percent(seconds / this.all)];
  }

  row(designer, layer) {
    const about = designer.check?.layers?.[layer.name] || {};
    const cells = [shapeText(about.shape), count(about.activations), bytes(float * about.activations), count(about.learnables), count(about.state), about.flop ? mega(about.flop) : ""];
    return m("tr", { key: layer.name, class: about.error ? "bad" : "" }, m("td", m("button.quiet", { type: "button", onclick: () => { designer.select([layer.name]); designer.focusNode(layer.name); } }, layer.name)),
      m("td", layer.type), this.times ? m("td.number.time", this.share(layer.name)) : null, m("td.soft", about.error ? "does not fit" : about.detail || ""), cells.map((cell) => m("td.number", cell)));
  }

  view({ attrs: { designer } }) {
    const { graph } = designer;
    if (this.measured !== graph.version) Object.assign(this, { times: null, words: null, error: null });
    const numbers = [["Output"], ["Activations"], ["Memory", "of its output for one sample, in float32"], ["Learnables"], ["State"], ["MFLOP"]];
    return m(".analysis", { tabindex: 0, role: "region", "aria-label": "Analysis" }, this.probe(designer), m("table", m("thead", m("tr", ["Layer", "Type"].map((title) => m("th", { scope: "col" }, title)), this.times ? m("th.number", { scope: "col", title: "share of a step, forward and backward" }, "Time") : null, m("th", { scope: "col" }, "Options"),
      numbers.map(([text, title]) => m("th.number", { scope: "col", title }, text)))), m("tbody", graph.layers.map((layer) => this.row(designer, layer)))));
  }
}
