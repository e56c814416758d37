// The list of sweeps.
import { get, program } from "./api.js";
import { age, count, counted, moment, resultText } from "./format.js";
import { openNewSweep } from "./new_sweep.js";
import { Problem, Roots, State } from "./parts.js";
import { Polled } from "./polled.js";
import { stateOf, statesText } from "./trials.js";

const m = window.m;

const choice = { text: "" };

export class ExperimentsPage extends Polled {
  async ask() { this.sweeps = await get("/api/sweeps"); }

  oncreate() { document.title = "Experiments · Lockstep studio"; }

  row(sweep) {
    return m("tr", { key: sweep.id }, m("td", m(State, stateOf(sweep))),
    m("td.wide", m("a", { href: `#!/experiment/${sweep.id}` }, m("bdi", sweep.name)), sweep.error ? m("small.soft", m("bdi", sweep.error)) : null),
    m("td.number", count(sweep.trials), sweep.count ? m("small.soft", `of ${count(sweep.count)}`) : null), m("td", statesText(sweep.states || {})), m("td", sweep.search), m("td", m("bdi", sweep.metric)),
    m("td.number", sweep.best ? resultText(sweep.best.result) : "", sweep.best ? m("small.soft", `trial ${sweep.best.trial}`) : null),
    m("td.number", m("span", { title: moment(sweep.changed) }, age(sweep.changed))));
  }

  view() {
    const words = choice.text.toLowerCase().split(/\s+/).filter(Boolean);
    const list = (this.sweeps || []).filter((sweep) => words.every((word) => `${sweep.name}\n${sweep.metric}\n${sweep.search}`.toLowerCase().includes(word)))
      .sort((a, b) => b.changed - a.changed);
    const heads = [["State"], ["Sweep"], ["Trials", 1], ["States"], ["Search"], ["Metric"], ["Best", 1], ["Changed", 1]];
    return m("div", m(".head", m("div", m("h1", "Experiments"), m("p", this.sweeps ? counted(list.length, "sweep") : "")),
      m(".tools", m("input", { type: "search", placeholder: "Search", "aria-label": "Search sweeps", value: choice.text, oninput: (event) => { choice.text = event.target.value; } }),
        program.commands.includes("sweep") ? m("button.main", { type: "button", onclick: () => openNewSweep(this) }, "New sweep…") : null)),
    this.error ? m(Problem, { error: this.error }) : null, this.output(),
    !this.sweeps ? (this.error ? null : m(".empty", "Reading the folders…"))
      : list.length === 0 ? m(".card.empty", m("h2", "No sweeps"), m("p", "Start one with ", m("code", "lockstep sweep"), ", or with the button above. It appears here by itself."), m(Roots))
        : m(".table-box", { tabindex: 0, role: "region", "aria-label": "Sweeps" }, m("table.jobs", m("caption.out-of-sight", "Sweeps"),
          m("thead", m("tr", heads.map(([title, isNumber]) => m("th", { scope: "col", class: isNumber ? "number" : "" }, title)))), m("tbody", list.map((sweep) => this.row(sweep))))));
  }
}
