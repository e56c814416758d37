// What a layer of a run's network gives for a sample: a map for each channel, or a number for each feature.
import { Failure, post } from "./api.js";
import { given } from "./fields.js";
import { count, figure } from "./format.js";
import { Command, Problem } from "./parts.js";

const m = window.m;
const mostMaps = 64; // before the others are asked for
const mostOffered = 24; // samples
const bar = { width: 6, tall: 90 };

const pictureUrl = ({ type, image }) => `data:${type};base64,${image}`;

// Of the classes in turn, so that each class is there.
function offered(classes) {
  const list = [];
  for (let at = 0; list.length < mostOffered; ++at) {
    const row = classes.map((one) => ({ name: one.name, ...(one.pictures || [])[at] })).filter((one) => one.image);
    if (row.length === 0) break;
    list.push(...row);
  }
  return list.slice(0, mostOffered);
}

const Values = {
  view: ({ attrs: { values, names } }) => {
    const numbers = values.map((value) => value ?? 0);
    const [low, high] = [Math.min(0, ...numbers), Math.max(0, ...numbers)];
    const place = (value) => ((high - value) / (high - low || 1)) * bar.tall;
    const order = numbers.map((_, at) => at).sort((a, b) => numbers[b] - numbers[a]).slice(0, 3);
    return [m(".table-box.values", { tabindex: 0, role: "region", "aria-label": "Numbers" }, m("svg.histogram", { width: numbers.length * bar.width, height: bar.tall + 2, role: "img", "aria-label": `${count(numbers.length)} numbers from ${figure(low)} to ${figure(high)}` },
      numbers.map((value, at) => m("rect", { x: at * bar.width, y: Math.min(place(value), place(0)), width: bar.width - 1, height: Math.max(1, Math.abs(place(value) - place(0))) },
        m("title", `${names?.[at] ?? at}: ${values[at] === null ? "not finite" : figure(value)}`))))),
    m("p.soft", "The greatest: ", order.map((at, number) => [number > 0 ? ", " : "", m("bdi", names?.[at] ?? `feature ${at}`), ` ${figure(numbers[at])}`]))];
  },
};

// attrs: {id, data, classes: of a run, saved: changes when it has other weights}
export class LayerView {
  constructor() { Object.assign(this, { layer: "", sample: "0", found: null, error: null, busy: false, asked: 0, words: null, samples: [], showsAll: false }); }

  oninit({ attrs }) {
    this.attrs = attrs;
    this.ask();
    this.offer(attrs.data);
  }

  onbeforeupdate({ attrs }) {
    const isOther = attrs.saved !== this.attrs.saved;
    this.attrs = attrs;
    if (isOther) this.ask();
  }

  async offer(data) {
    try {
      this.samples = offered((await post("/api/data", { data })).classes);
    } catch (error) {
      if (!(error instanceof Failure)) throw error; // the answer about the layer says what is wrong
    }
    m.redraw();
  }

  async ask() {
    const number = ++this.asked;
    const body = { command: "layer show", id: this.attrs.id, options: given({ layer: this.layer, sample: this.sample.trim() }) };
    this.busy = true;
    try {
      const { words } = await post("/api/shown", body);
      if (number !== this.asked) return;
      this.words = words;
      m.redraw();
      const found = await post("/api/layer", body);
      if (number !== this.asked) return;
      Object.assign(this, { found, error: null, busy: false, layer: found.layer });
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (number === this.asked) Object.assign(this, { error, busy: false });
    }
    m.redraw();
  }

  choose(change) {
    Object.assign(this, change);
    this.ask();
  }

  controls() {
    const layers = this.found?.layers || [];
    const go = (event) => { event.preventDefault(); this.ask(); };
    return m("form.tools", { onsubmit: go },
      m("label.field", "Layer", m("select", { value: this.layer, onchange: (event) => this.choose({ layer: event.target.value, showsAll: false }) },
        layers.map((one) => m("option", { value: one.name }, `${one.name} · ${one.type.replaceAll("_", " ")} · ${one.shape.join(" × ")}`)))),
      m("label.field", "Sample", m("input.rank", { type: "number", min: 0, value: this.sample, oninput: (event) => { this.sample = event.target.value; } })),
      m("button", { disabled: this.busy }, this.busy ? "Computing…" : "Show"));
  }

  choices() {
    return this.samples.length === 0 ? null : m(".samples", { role: "group", "aria-label": "Samples of the data" }, this.samples.map((one) => m("button", {
      key: one.index, type: "button", "aria-pressed": String(this.sample === String(one.index)), "aria-label": `Sample ${one.index}, ${one.name}`, title: one.source, onclick: () => this.choose({ sample: String(one.index) }),
    }, m("img", { src: pictureUrl(one), alt: "", class: Math.max(one.width, one.height) <= 64 ? "tiny" : "" }))));
  }

  maps() {
    const { maps, layer, least, greatest, shape, source, picture, not_finite: bad, values } = this.found;
    const shown = this.showsAll ? maps : maps.slice(0, mostMaps);
    return [m("p.soft", m("bdi", source), ` · `, m("bdi", layer), ` gives ${shape.join(" × ")}`, least === undefined ? "" : `, from ${figure(least)} (black) to ${figure(greatest)} (white)`, bad > 0 ? `; ${count(bad)} numbers are not finite` : ""),
      m(".seen", picture ? m("figure", m("img", { src: pictureUrl(picture), alt: "The sample", class: Math.max(picture.width, picture.height) <= 64 ? "tiny" : "" }), m("figcaption", "Sample")) : null,
        values ? m("div", m(Values, { values, names: values.length === this.attrs.classes?.length ? this.attrs.classes : null }))
          : m(".maps", shown.map((one, at) => m("figure", { key: at, title: one.least === undefined ? "" : `from ${figure(one.least)} to ${figure(one.greatest)}, mean ${figure(one.mean)}` },
            m("img", { src: `data:image/png;base64,${one.image}`, alt: `Map ${at}` }), m("figcaption", at))))),
      shown.length < maps.length ? m("button.quiet", { type: "button", onclick: () => { this.showsAll = true; } }, `Show all ${count(maps.length)} maps`) : null];
  }

  view() {
    return m("section.card.gap", { "aria-label": "What a layer sees", "aria-busy": String(this.busy) }, m(".head.tight", m("h2", "What a layer sees"), this.controls()), this.choices(),
      this.words ? m(Command, { words: this.words }) : null, this.error ? m(Problem, { error: this.error }) : null,
      this.found && !this.error ? this.maps() : this.busy && !this.error ? m("p.soft", { role: "status" }, "Computing…") : null);
  }
}
