// How the numbers of each tensor of a run are spread.
import { Failure, get } from "./api.js";
import { count, figure } from "./format.js";
import { Problem } from "./parts.js";

const m = window.m;
const tall = 34; // pixels of a histogram
const barWidth = 4;

// The square root, so that a bin with few numbers is seen beside one with many.
const Histogram = {
  view: ({ attrs: { tensor } }) => {
    const most = Math.sqrt(Math.max(...tensor.histogram, 1));
    const zero = tensor.least < 0 && tensor.greatest > 0 ? (-tensor.least / (tensor.greatest - tensor.least)) * tensor.histogram.length * barWidth : null;
    return m("svg.histogram", { width: tensor.histogram.length * barWidth, height: tall, role: "img", "aria-label": `Histogram of ${tensor.name} from ${figure(tensor.least)} to ${figure(tensor.greatest)}` },
      tensor.histogram.map((number, at) => {
        const height = number > 0 ? Math.max(1, (Math.sqrt(number) / most) * tall) : 0;
        return m("rect", { x: at * barWidth, y: tall - height, width: barWidth - 1, height });
      }), zero === null ? null : m("line", { x1: zero, x2: zero, y1: 0, y2: tall }));
  },
};

// attrs: {id: of a run, saved: which checkpoint; the weights of an earlier one are shown until the new ones are here}
export class Weights {
  constructor() { Object.assign(this, { found: null, error: null, saved: null }); }

  oninit({ attrs }) { this.load(attrs); }

  onbeforeupdate({ attrs }) { if (attrs.saved !== this.saved) this.load(attrs); }

  async load({ id, saved }) {
    this.saved = saved;
    let found = null;
    let error = null;
    try {
      found = await get("/api/weights", { id });
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      error = failure;
    }
    if (saved !== this.saved) return;
    Object.assign(this, { found, error });
    m.redraw();
  }

  row(tensor) {
    const isKnown = tensor.histogram !== undefined;
    return m("tr", { key: tensor.name }, m("th", { scope: "row" }, m("bdi", { title: tensor.name }, tensor.name)), m("td", tensor.shape.join(" × ") || "1"),
      m("td", isKnown ? m(Histogram, { tensor }) : null), ["least", "mean", "greatest", "deviation"].map((name) => m("td.number", isKnown ? figure(tensor[name], 3) : "")),
      m("td.number", count(tensor.zeros)), m("td.number", { class: tensor.not_finite > 0 ? "bad" : "" }, count(tensor.not_finite)));
  }

  view() {
    if (this.error) return m(Problem, { error: this.error });
    if (!this.found) return m("p.soft", { role: "status" }, "Reading the weights…");
    const heads = [["Tensor"], ["Shape"], ["Spread"], ["Least", 1], ["Mean", 1], ["Greatest", 1], ["Deviation", 1], ["Zeros", 1], ["Not finite", 1]];
    return m("section.card.gap", { "aria-label": "Weights" }, m("h2", "Weights"), m("p.soft", `These are ${this.found.weights}. The height of a bar is the square root of its count; the line is at zero.`),
      m(".table-box.weights-seen", { tabindex: 0, role: "region", "aria-label": "Tensors" }, m("table", m("caption.out-of-sight", "Tensors"),
        m("thead", m("tr", heads.map(([title, isNumber]) => m("th", { scope: "col", class: isNumber ? "number" : "" }, title)))), m("tbody", this.found.tensors.map((tensor) => this.row(tensor))))));
  }
}
