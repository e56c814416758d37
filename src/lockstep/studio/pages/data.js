// What a folder of data has: its classes with their numbers of samples, and a few of the samples.
import { Failure, post } from "./api.js";
import { count, counted } from "./format.js";
import { Problem } from "./parts.js";

const m = window.m;
const pause = 100; // after the last change, in milliseconds
const mostClasses = 12; // before the others are asked for

const Picture = {
  view: ({ attrs: { picture, name } }) => (picture.image
    ? m("img", { src: `data:${picture.type};base64,${picture.image}`, alt: `${name}: ${picture.source}`, title: picture.source, class: Math.max(picture.width, picture.height) <= 64 ? "tiny" : "" })
    : m("span.unread", { title: picture.error }, "cannot be read")),
};

// attrs: {data: path, options: of the training, done(): after an answer, which moves what is below}
export class DataSamples {
  constructor() { Object.assign(this, { found: null, error: null, asked: "", timer: 0, busy: false, showsAll: false }); }

  oninit({ attrs }) { this.follow(attrs); }

  onbeforeupdate({ attrs }) { this.follow(attrs); }

  onremove() { clearTimeout(this.timer); }

  follow({ data, options, done }) {
    this.done = done;
    const { labels = "", "on-bad-sample": bad = "" } = options;
    const body = { data: data.trim(), options: Object.fromEntries(Object.entries({ labels, "on-bad-sample": bad }).filter(([, value]) => value)) };
    const text = body.data ? JSON.stringify(body) : "";
    if (text === this.asked) return;
    Object.assign(this, { asked: text, found: null, error: null, busy: false });
    clearTimeout(this.timer);
    if (text) this.timer = setTimeout(() => this.ask(text, body), pause);
  }

  async ask(text, body) {
    let found = null;
    let error = null;
    this.busy = true;
    m.redraw();
    try {
      found = await post("/api/data", body);
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      error = failure;
    }
    if (text !== this.asked) return;
    Object.assign(this, { found, error, busy: false });
    this.done?.();
    m.redraw();
  }

  view() {
    if (this.error) return m(Problem, { error: this.error });
    if (this.busy) return m("p.soft", { role: "status" }, "Looking at the data…");
    if (!this.found) return null;
    const { classes, kind, samples, sequences, skipped } = this.found;
    const most = Math.max(...classes.map((one) => one.samples), 1);
    const shown = this.showsAll ? classes : classes.slice(0, mostClasses);
    return m("section.data-seen", { "aria-label": "The data" },
      m("p", m("strong", `${counted(samples, sequences ? "sequence" : "image")} of ${counted(classes.length, "class")}`), " · ", m("bdi", kind), skipped > 0 ? ` · ${counted(skipped, "file")} left out` : ""),
      m(".table-box.classes", { tabindex: 0, role: "region", "aria-label": "Classes" }, m("table", m("caption.out-of-sight", "Classes and samples"),
        m("tbody", shown.map((one) => m("tr", { key: one.name }, m("th", { scope: "row" }, m("bdi", { title: one.name }, one.name)), m("td.number", count(one.samples)),
          m("td.share", m("span.bar", m("i", { style: { width: `${100 * one.samples / most}%` } }))),
          m("td.pictures", (one.pictures || []).map((picture) => m(Picture, { picture, name: one.name })))))))),
      shown.length < classes.length ? m("button.quiet", { type: "button", onclick: () => { this.showsAll = true; } }, `Show all ${count(classes.length)} classes`) : null);
  }
}
