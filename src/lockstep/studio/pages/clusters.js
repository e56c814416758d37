// Profiles: where jobs run and with what, and the machines of each.
import { get, program } from "./api.js";
import { CloudClusters } from "./clouds.js";
import { openCommandForm } from "./command_form.js";
import { formOf } from "./fields.js";
import { bytes, count, counted } from "./format.js";
import { Facts, Problem, ProblemPage } from "./parts.js";
import { Polled } from "./polled.js";
import { Pools, askForPools } from "./pools.js";

const m = window.m;
const usual = ["scheduler", "login", "partition", "nodes", "workers", "gpus", "time", "memory"];

function machines({ scheduler, nodes, workers, gpus }) {
  if (scheduler === "local") return "this machine";
  return [counted(nodes, "node"), workers > 0 ? counted(workers, "worker") : "", gpus > 0 ? `${counted(gpus, "GPU")} each` : ""].filter(Boolean).join(", ");
}

// A setting as the form has it.
const text = (value) => (Array.isArray(value) ? value.join(",") : typeof value === "boolean" ? (value ? "true" : "") : String(value));

// page: a Polled that shows the command's output;  named: a profile, or null for a new one
async function edit(page, named) {
  const form = await formOf("cluster create");
  const values = Object.fromEntries(form.map(({ name, default: usualText }) => [name, named && text(named.profile[name]) !== usualText ? text(named.profile[name]) : ""]));
  openCommandForm({ title: named ? `Edit ${named.name}` : "New profile", button: "Save", command: "cluster create", form, usual, values,
    word: { label: "name", help: "the name of the profile", value: named ? named.name : "", isFixed: Boolean(named) }, start: (body) => page.start(body) });
}

function simple(page, command, name, words) { return page.question({ command: `cluster ${command}`, word: name }, words); }

function actions(page, one) {
  const button = (label, onclick, danger) => m("button.quiet", { type: "button", class: danger ? "danger" : "", "aria-label": `${label} ${one.name}`, onclick }, label);
  const isOwn = Boolean(one.file);
  const remove = button("Remove", simple(page, "remove", one.name, { title: `Remove ${one.name}?`, button: "Remove", danger: true, text: "The file of the profile is removed. Jobs and machines stay." }), true);
  if (one.error) return [remove];
  return [button("Validate", simple(page, "validate", one.name, { title: `Validate ${one.name}?`, button: "Validate", isKept: true, text: "It tries the profile stage by stage, with small jobs." })),
    one.default ? null : button("Use", simple(page, "default", one.name, { title: `Make ${one.name} the default?`, button: "Make default", text: "Jobs for which no profile is named run there." })),
    isOwn ? button("Edit", () => edit(page, one)) : null,
    m("a.quiet-link", { href: `/api/profile-file?name=${encodeURIComponent(one.name)}`, download: `${one.name}.json`, "aria-label": `Export ${one.name}` }, "Export"),
    isOwn ? remove : null];
}

export class ClustersPage extends Polled {
  async ask() {
    const asked = askForPools(this);
    this.profiles = await get("/api/profiles");
    await asked;
  }

  oncreate() { document.title = "Clusters · Lockstep studio"; }

  importProfile() {
    openCommandForm({ title: "Import a profile", button: "Import", command: "cluster import", form: [], values: {},
      word: { label: "file", help: "path of a profile on the machine on which studio runs" }, start: (body) => this.start(body) });
  }

  async discover() {
    openCommandForm({ title: "Look for clusters", button: "Discover", command: "cluster discover", form: await formOf("cluster discover"), usual: ["use", "region"], values: {},
      text: "It says which machine this is, and which Slurm it is on.", start: (body) => this.start(body, true) });
  }

  row(one) {
    return m("tr", { key: one.name }, m("td.wide", m("a", { href: `#!/cluster/${encodeURIComponent(one.name)}` }, m("bdi", one.name)), one.default ? m("small.soft", "the default") : null),
      one.error ? m("td", { colspan: 3 }, m("bdi", one.error))
        : [m("td", m("bdi", one.profile.scheduler)), m("td", m("bdi", one.profile.login)), m("td", machines(one.profile))], m("td.note", { title: one.file }, m("bdi", one.file || "")),
      m("td.act", actions(this, one)));
  }

  view() {
    const heads = ["Profile", "Scheduler", "Login", "Machines", "File"];
    return m("div", m(".head", m("div", m("h1", "Clusters"), m("p", "A profile says where jobs run and with what.")),
      m(".tools", m("button", { type: "button", onclick: () => this.discover() }, "Discover…"),
        m("button", { type: "button", onclick: () => this.importProfile() }, "Import…"), m("button.main", { type: "button", onclick: () => edit(this, null) }, "New profile…"))),
    this.error ? m(Problem, { error: this.error }) : null, this.output(), m(".spaced"),
    !this.profiles ? (this.error ? null : m(".empty", "Reading the profiles…"))
      : m(".table-box", { tabindex: 0, role: "region", "aria-label": "Profiles" }, m("table.jobs", m("caption.out-of-sight", "Profiles"),
        m("thead", m("tr", heads.map((title) => m("th", { scope: "col" }, title)), m("th", { scope: "col" }, m("span.out-of-sight", "Actions")))), m("tbody", this.profiles.map((one) => this.row(one))))),
    program.commands.includes("pools") ? m(Pools, { page: this }) : null,
    program.commands.includes("cloud create") ? m(CloudClusters, { page: this }) : null);
  }
}

export class ClusterPage extends Polled {
  oninit({ attrs }) {
    super.oninit({ attrs });
    clearInterval(this.timer);
    this.timer = setInterval(this.load, 10_000); // the scheduler is asked each time
  }

  oncreate({ attrs }) { document.title = `${attrs.name} · Lockstep studio`; }

  async ask() { [this.about, this.form] = await Promise.all([get("/api/profile", { name: this.attrs.name }), formOf("cluster create")]); }

  view({ attrs }) {
    if (!this.about) return this.error ? m(ProblemPage, { title: m("bdi", attrs.name), error: this.error }) : m(".empty", "Asking for its machines…");
    const { profile, nodes = [] } = this.about;
    const settings = this.form.filter((info) => text(profile[info.name]) !== info.default || info.name === "scheduler").map((info) => [info.name, text(profile[info.name])]);
    return m("div", m(".head", m("div", m("h1", m("bdi", attrs.name)), m("p", machines(profile), this.about.default ? " · the default" : "")), m(".tools", actions(this, this.about))),
      this.error ? m(Problem, { error: this.error }) : null, this.output(), m(".spaced"),
      m(".grid", m("section.card", m("h2", "Settings"), m(Facts, { rows: [...settings, ["file", this.about.file]] })),
        m("section.card", m("h2", "Machines"), nodes.length === 0 ? m("p.empty", "None") : m("table", m("caption.out-of-sight", "Machines"),
          m("thead", m("tr", ["Host", "State"].map((title) => m("th", { scope: "col" }, title)), ["Cores", "Memory", "GPUs"].map((title) => m("th.number", { scope: "col" }, title)))),
          m("tbody", nodes.map((node) => m("tr", { key: node.host }, m("td", m("bdi", node.host)), m("td", m("bdi", node.state)), m("td.number", count(node.cores)),
            m("td.number", node.memory_mb > 0 ? bytes(node.memory_mb * 1024 * 1024) : ""), m("td.number", count(node.gpus)))))))));
  }
}
