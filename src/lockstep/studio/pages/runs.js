// The list of all runs. It draws only the rows that are in view.
import { program, refreshRuns, runs } from "./api.js";
import { age, bytes, count, counted, duration, figure, lastPart, moment, percent } from "./format.js";
import { Name, Problem, Progress, Roots, State } from "./parts.js";
import { openTraining } from "./train.js";

const m = window.m;
const rowHeight = 44;
const mostCompared = 50;

const stateOrder = ["running", "stopping", "queued", "failed", "lost", "stopped", "ended", undefined];

// name in the style sheet, heading, value to sort by, cell, whether the first click sorts downwards
const columns = [
  { key: "state", title: "State", sort: (run) => stateOrder.indexOf(run.state), cell: (run) => m(State, { state: run.state }) },
  { key: "name", title: "Run", sort: (run) => run.name, cell: (run) =>
    m("a", { href: `#!/run/${run.id}`, title: run.name }, m("bdi", run.name)) },
  { key: "network", title: "Network", sort: (run) => run.network, cell: (run) => m(Name, { text: lastPart(run.network) }) },
  { key: "data", title: "Data", sort: (run) => run.data, cell: (run) => m("bdi", { title: run.data }, lastPart(run.data)) },
  { key: "accuracy", title: "Held-out accuracy", number: true, down: true, sort: (run) => run.accuracy, cell: (run) => percent(run.accuracy) },
  { key: "loss", title: "Held-out loss", number: true, sort: (run) => run.validation_loss, cell: (run) => figure(run.validation_loss, 3) },
  { key: "step", title: "Steps", number: true, down: true, sort: (run) => run.step, cell: (run) => m(".steps",
    run.state === "running" && run.total_steps ? m(Progress, { label: "Steps", value: run.step || 0, of: run.total_steps }) : null,
    m("span", { title: run.total_steps ? `of ${count(run.total_steps)}` : "" }, count(run.step))) },
  { key: "seconds", title: "Time", number: true, down: true, sort: (run) => run.seconds, cell: (run) => duration(run.seconds) },
  { key: "age", title: "Started", number: true, down: true, sort: (run) => run.started, cell: (run) =>
    m("span", { title: `${moment(run.started)}, ${bytes(run.bytes)}` }, age(run.started)) },
];

// Kept while other pages are open.
const choice = { text: "", states: new Set(), sort: "age", down: true, picked: new Set() };

const collator = new Intl.Collator("en", { numeric: true });

function compare(a, b) {
  if (a === undefined || a === "") return b === undefined || b === "" ? 0 : 1;
  if (b === undefined || b === "") return -1;
  return typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b));
}

// Each word must be in the run's name, network, data, host or reason.
function fits(run, words) {
  if (words.length === 0) return true;
  const text = `${run.name}\n${run.network}\n${run.data}\n${run.host}\n${run.reason}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

// Found again only when something has changed: the page is drawn at each scroll.
const found = { list: [], for: "" };

function shownRuns() {
  const question = [runs.changed, choice.text, [...choice.states].join(), choice.sort, choice.down].join("\n");
  if (found.for !== question) Object.assign(found, { list: findRuns(), for: question });
  return found.list;
}

function findRuns() {
  const words = choice.text.toLowerCase().split(/\s+/).filter(Boolean);
  const list = [...runs.byId.values()].filter((run) =>
    (choice.states.size === 0 || choice.states.has(run.state || "unreadable")) && fits(run, words));
  const { sort } = columns.find((column) => column.key === choice.sort);
  const sign = choice.down ? -1 : 1;
  const empty = (value) => value === undefined || value === "";
  return list.sort((a, b) => {
    const x = sort(a);
    const y = sort(b);
    const order = empty(x) || empty(y) ? compare(x, y) : sign * compare(x, y); // runs without a value are last
    return order || compare(b.started, a.started) || compare(a.name, b.name);
  });
}

function stateChips() {
  const counts = new Map();
  for (const run of runs.byId.values()) {
    const state = run.state || "unreadable";
    counts.set(state, (counts.get(state) || 0) + 1);
  }
  const order = [...stateOrder.filter(Boolean), "unreadable"].filter((state) => counts.has(state));
  return m(".chips", { role: "group", "aria-label": "Show only runs in these states" }, order.map((state) => m("button", {
    type: "button", "aria-pressed": String(choice.states.has(state)),
    onclick: () => { if (!choice.states.delete(state)) choice.states.add(state); },
  }, state, m("small", count(counts.get(state))))));
}

export class RunsPage {
  constructor() {
    this.first = 0;
    this.visible = 40;
  }

  oncreate({ dom }) {
    document.title = "Runs · Lockstep studio";
    this.dom = dom;
    this.onScroll = () => this.measure() && m.redraw();
    window.addEventListener("scroll", this.onScroll, { passive: true });
    window.addEventListener("resize", this.onScroll);
    this.onKey = (event) => {
      if (event.key !== "/" || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
      event.preventDefault();
      dom.querySelector("input[type=search]").focus();
    };
    window.addEventListener("keydown", this.onKey);
    refreshRuns();
    this.timer = setInterval(refreshRuns, 10_000); // tells the server that the list is shown; ages change too
  }

  onremove() {
    window.removeEventListener("scroll", this.onScroll);
    window.removeEventListener("resize", this.onScroll);
    window.removeEventListener("keydown", this.onKey);
    clearInterval(this.timer);
  }

  // Returns whether other rows are in view.
  measure() {
    const body = this.dom.querySelector("tbody");
    if (!body) return false;
    const before = -body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(before / rowHeight) - 10);
    const visible = Math.ceil(window.innerHeight / rowHeight) + 20;
    const isOther = Math.abs(first - this.first) > 5 || visible !== this.visible;
    if (isOther) Object.assign(this, { first, visible });
    return isOther;
  }

  heading(column) {
    const isSorted = choice.sort === column.key;
    return m("th", {
      scope: "col", class: `c-${column.key} ${column.number ? "number" : ""}`,
      "aria-sort": isSorted ? (choice.down ? "descending" : "ascending") : "none",
    }, m("button", { type: "button", onclick: () => {
      choice.down = isSorted ? !choice.down : Boolean(column.down);
      choice.sort = column.key;
    } }, column.title));
  }

  row(run, index) {
    const toggle = () => { if (!choice.picked.delete(run.id)) choice.picked.add(run.id); };
    return m("tr", { key: run.id, "aria-rowindex": index + 2 },
      m("td.pick", m("input", { type: "checkbox", checked: choice.picked.has(run.id), "aria-label": `Compare ${run.name}`, onchange: toggle })),
      columns.map((column) => m("td", { class: `c-${column.key} ${column.number ? "number" : ""}` }, column.cell(run))));
  }

  // The arrow keys go from run to run.
  onArrow(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") { event.redraw = false; return; }
    const links = [...this.dom.querySelectorAll("tbody a")];
    const at = links.indexOf(document.activeElement.closest("tr")?.querySelector("a"));
    const next = links[at + (event.key === "ArrowDown" ? 1 : -1)];
    if (next) { event.preventDefault(); next.focus(); }
  }

  table(list) {
    const first = Math.min(this.first, Math.max(0, list.length - this.visible));
    const part = list.slice(first, first + this.visible);
    const below = list.length - first - part.length;
    const gap = (key, rows) => (rows > 0 ? m("tr", { key, "aria-hidden": "true" },
      m("td", { style: { height: `${rows * rowHeight}px`, padding: 0, border: 0 } })) : null); // of one cell: narrow windows have fewer columns
    return m(".table-box.whole", m("table.runs", { "aria-rowcount": list.length + 1, onkeydown: (event) => this.onArrow(event) },
      m("caption.out-of-sight", "Runs"),
      m("thead", m("tr", m("th.pick", m("span.out-of-sight", "Compare")), columns.map((column) => this.heading(column)))),
      m("tbody", [gap("above", first), ...part.map((run, at) => this.row(run, first + at)), gap("below", below)].filter(Boolean))));
  }

  content(list) {
    if (!runs.ready) return runs.error ? null : m(".empty", "Reading the run folders…");
    if (runs.byId.size === 0) {
      return m(".card.empty", m("h2", "No runs yet"), m("p", "Start one with "), m("code", "lockstep train FOLDER"),
        m("p", "or with the button above, or draw a network in the ", m("a", { href: "#!/designer" }, "designer"), ". It appears here by itself."), m(Roots));
    }
    return list.length === 0 ? m(".card.empty", m("h2", "No run fits"), m("p", "Change the text or the states above."))
      : this.table(list);
  }

  view() {
    const list = shownRuns();
    const picked = [...choice.picked].filter((id) => runs.byId.has(id));
    return m("div",
      m(".head", m("div", m("h1", "Runs"), m("p", runs.ready
        ? (list.length === runs.byId.size ? counted(list.length, "run") : `${count(list.length)} of ${count(runs.byId.size)} runs`) : "")),
      m(".tools", stateChips(),
        m("input", { type: "search", placeholder: "Search ( / )", "aria-label": "Search runs", value: choice.text,
          oninput: (event) => { choice.text = event.target.value; this.first = 0; } }),
        m("button", { type: "button", disabled: picked.length === 0 || picked.length > mostCompared, class: picked.length > 1 ? "main" : "",
          onclick: () => m.route.set(`/compare/${picked.join(",")}`) }, `Compare ${picked.length || ""}`),
        program.commands.includes("train") ? m("button", { type: "button", class: picked.length > 1 ? "" : "main", onclick: () => openTraining() }, "New training…") : null)),
      runs.error ? m(Problem, { error: runs.error }) : null,
      runs.warnings.map((warning) => m(".notice", warning)),
      this.content(list));
  }
}
