// Clusters in the cloud: made with their price seen, changed, stopped and removed.
import { Failure, get, post } from "./api.js";
import { openCommandForm } from "./command_form.js";
import { formOf } from "./fields.js";
import { Problem } from "./parts.js";

const m = window.m;
const usual = ["region", "type", "workers", "spot", "idle", "budget"];
const pause = 300;

function dollars(value) { return `$${Number(value).toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`; }

// What a cluster costs while its form is filled. attrs: {body}
class Price {
  oninit({ attrs }) { this.follow(attrs.body); }

  onbeforeupdate({ attrs }) { this.follow(attrs.body); }

  onremove() { clearTimeout(this.timer); }

  follow(body) {
    const text = JSON.stringify(body.options);
    if (text === this.asked) return;
    this.asked = text;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(text, body), pause);
  }

  async ask(text, body) {
    let plan = null;
    let error = null;
    try {
      plan = await post("/api/price", { options: body.options });
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      error = failure;
    }
    if (text !== this.asked) return;
    Object.assign(this, { plan, error });
    m.redraw();
  }

  view() {
    const { plan, error } = this;
    if (error) return m(Problem, { error });
    if (!plan) return m("p.soft", "Computing the price…");
    return m("section.price", m("p", m("strong", `${dollars(plan.dollars_per_hour)} an hour`), ` while all of it runs, ${dollars(plan.dollars_per_hour_stopped)} while it is stopped. `,
      m("small.soft", `Prices of ${plan.prices_date}.`)), m("ul", plan.costs.map((line) => m("li", m("bdi", line.what), m("b", dollars(line.dollars_per_hour))))));
  }
}

// attrs: {page}, a Polled that shows the output of commands
export class CloudClusters {
  constructor() { Object.assign(this, { list: null, error: null, busy: false }); }

  async look() {
    this.busy = true;
    try {
      this.list = await get("/api/clouds");
      this.error = null;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.error = error;
    }
    this.busy = false;
    m.redraw();
  }

  async create(page) {
    const form = (await formOf("cloud create")).filter((info) => info.name !== "provider" && info.name !== "dry-run");
    openCommandForm({ title: "New cluster in AWS", button: "Create it", command: "cloud create", form, usual, values: {}, more: Price,
      text: "It costs money from the moment on at which it is created. Machines start when there are jobs.",
      word: { label: "name", help: "the name of the cluster, which is also its profile" }, start: (body) => this.start(page, body) });
  }

  // What AWS says is another thing afterwards, also if it fails half-way.
  start(page, body) { return page.start(body, false, null, () => this.look()); }

  async resize(page, name) {
    openCommandForm({ title: `Resize ${name}`, button: "Resize", command: "cloud resize", form: await formOf("cloud resize"), usual: ["workers"], values: {},
      word: { value: name, isFixed: true }, start: (body) => this.start(page, body) });
  }

  // A cluster that another machine has made can be removed here, and no more.
  actions(page, { name, region, known }) {
    const ask = (command, words, options = {}) => page.question({ command: `cloud ${command}`, word: name, options }, { ...words, always: () => this.look() });
    const button = (label, onclick, danger) => m("button.quiet", { type: "button", class: danger ? "danger" : "", "aria-label": `${label} ${name}`, onclick }, label);
    const ofMaker = known ? [button("Resize", () => this.resize(page, name)), button("Start", ask("start", { title: `Start ${name}?`, button: "Start" })),
      button("Stop", ask("stop", { title: `Stop ${name}?`, button: "Stop", danger: true, text: "Jobs that run are ended. Its disks stay, and cost money." }))] : [];
    return [...ofMaker, button("Remove", ask("remove", { title: `Remove ${name}?`, button: "Remove", danger: true, text: "Everything of it in AWS is removed, with its disks and the runs on them." }, { region }), true)];
  }

  view({ attrs: { page } }) {
    const heads = ["Cluster", "Region", "Type", "State", "Machines on"];
    return m("section.spaced", m(".head.tight", m("div", m("h2", "In the cloud"), m("p", "Clusters that lockstep cloud made in AWS.")),
      m(".tools", m("button", { type: "button", disabled: this.busy, onclick: () => this.look() }, this.busy ? "Asking AWS…" : "Ask AWS"),
        m("button", { type: "button", onclick: () => this.create(page) }, "New cluster…"))),
    this.error ? m(Problem, { error: this.error }) : null,
    !this.list ? null : this.list.length === 0 ? m(".card.empty", "This machine has made none.")
      : m(".table-box", { tabindex: 0, role: "region", "aria-label": "Clusters in the cloud" }, m("table.jobs", m("caption.out-of-sight", "Clusters in the cloud"),
        m("thead", m("tr", heads.map((title) => m("th", { scope: "col" }, title)), m("th.number", { scope: "col" }, "Cost at most"), m("th", { scope: "col" }, m("span.out-of-sight", "Actions")))),
        m("tbody", this.list.map((one) => m("tr", { key: `${one.region} ${one.name}` }, m("td.wide", m("bdi", one.name)), m("td", one.region), m("td", one.type), m("td", m("bdi", one.state)),
          m("td", one.machines.filter((machine) => machine.state === "running").length), m("td.number", one.known ? dollars(one.most_dollars) : ""), m("td.act", this.actions(page, one))))))));
  }
}
