// One sweep, live: its table, curves of trials, parallel coordinates and the importance of parameters.
import { get, refreshRuns, runs } from "./api.js";
import { Chart } from "./chart.js";
import { openCommandForm } from "./command_form.js";
import { columns, filterOf, valueOf } from "./filter.js";
import { count, counted, duration, figure, inWords, isNumber, resultText } from "./format.js";
import { History } from "./history.js";
import { Parallel, isInside } from "./parallel.js";
import { Command, Problem, ProblemPage, State, Tile, stateWords } from "./parts.js";
import { Polled } from "./polled.js";
import { hiddenOf, keepHidden, shownTrials, stateOf, statesText } from "./trials.js";

const m = window.m;
const rowsOfPage = 100;
const mostCurves = 5; // of the best trials, when none are picked
const mostPicked = 20;

// A page that has had an answer before gets only the rows and other parts that are new.
function withNews(about, news) {
  if (!news.since) return news;
  const rows = new Map(about.rows.map((row) => [row.trial, row]));
  for (const row of news.rows) rows.set(row.trial, row);
  return { ...about, ...news, rows: [...rows.values()].sort((a, b) => a.trial - b.trial) };
}

export class SweepPage extends Polled {
  constructor() {
    super();
    Object.assign(this, { picked: new Set(), brushes: new Map(), lit: null, page: 0, asked: "", showsReport: false, reports: 0, reporting: "" });
    this.light = (trial) => { this.lit = trial; };
  }

  oninit({ attrs }) {
    this.id = attrs.id;
    this.choice = { text: "", states: new Set(), hidden: hiddenOf(this.id), columns: hiddenOf(this.id, "columns"), showsColumns: false, showsHidden: false, sort: "", down: false, log: false };
    document.title = "Experiment · Lockstep studio";
    super.oninit({ attrs });
  }

  async ask() {
    refreshRuns(); // the server looks for runs only while somebody asks
    const news = await get("/api/sweep", { id: this.id, seen: this.about?.seen || "" });
    if (news.same) return;
    this.about = withNews(this.about, news);
    document.title = `${this.about.name} · Lockstep studio`;
    if (!this.choice.sort) Object.assign(this.choice, { sort: "result", down: this.about.maximize });
  }

  of(command, more) { return { command: `sweep ${command}`, sweep: this.id, ...more }; }

  // Of these trials, or of the best. It is shown, from `place` on, when it is there.
  makeReport(trials, place = "") {
    return this.question(this.of("report", { trials }), { title: "Make a report?", button: "Make report",
      text: `One page with the table and the confusion matrices of all trials, and with all curves of ${trials.length > 0 ? `${trials.length === 1 ? "trial" : "trials"} ${inWords(trials)}` : "the best trials"}.`,
      after: () => { Object.assign(this, { showsReport: true, goesToReport: true, place }); ++this.reports; } });
  }

  async start(body, ...more) {
    await super.start(body, ...more);
    this.reporting = body.command === "sweep report" ? "The report is being made…" : "";
  }

  ended(status) {
    super.ended(status);
    if (this.reporting) this.reporting = status === 0 ? "" : "The report could not be made: its error is at the top of this page.";
  }

  report() {
    if (!this.showsReport || !this.about.has_report) return m("div");
    // The button may be far below.
    const show = ({ dom }) => {
      if (!this.goesToReport) return;
      this.goesToReport = false;
      dom.scrollIntoView();
      dom.focus({ preventScroll: true });
    };
    return m("div", [m("iframe.report", { key: this.reports, src: `/api/sweep-report?id=${this.id}${this.place || ""}`, title: "Report", sandbox: "", oncreate: show })]);
  }

  buttons() {
    const { going_on: isGoingOn, has_report: hasReport, copy_of: copyOf } = this.about;
    const trials = [...this.picked].sort((a, b) => a - b);
    return [
      isGoingOn ? m("button.danger", { type: "button", onclick: this.question(this.of("stop"), { title: "Stop this sweep?", button: "Stop", danger: true,
        text: "Its trials save what they have, and it can be continued." }) }, "Stop")
        : copyOf ? null : m("button", { type: "button", onclick: this.question(this.of("resume"), { title: "Continue this sweep?", button: "Continue",
          text: "Trials that are not over are trained, in the background of the machine on which studio runs." }) }, "Continue"),
      m("button", { type: "button", onclick: this.makeReport(trials) }, "Make report"),
      hasReport ? m("button", { type: "button", "aria-expanded": String(this.showsReport), onclick: () => { Object.assign(this, { showsReport: !this.showsReport, place: "" }); } }, this.showsReport ? "Hide report" : "Report") : null,
      m("a.button", { href: `/api/sweep-table?id=${this.id}&as=csv`, download: "sweep.csv" }, "CSV"),
      m("a.button", { href: `/api/sweep-table?id=${this.id}&as=json`, download: "sweep.json" }, "JSON"),
    ];
  }

  tiles() {
    const { about } = this;
    const { best, metric, rows, states, options } = about;
    const text = statesText(states);
    const isPlanned = about.count > rows.length;
    return m("dl.tiles", m(Tile, { label: metric, value: best ? resultText(best.result) : "", note: best ? `trial ${best.trial}, the best` : null }),
      m(Tile, { label: "Trials", value: isPlanned ? `${count(rows.length)} of ${count(about.count)}` : count(rows.length), note: text }),
      m(Tile, { label: "Time of all trials", value: duration(rows.reduce((sum, row) => sum + row.seconds, 0)), note: counted(rows.reduce((sum, row) => sum + row.steps, 0), "step") }),
      m(Tile, { label: "Search", value: options.search, note: `seed ${options.seed}${options["stop-rule"] === "none" ? "" : `, stop rule ${options["stop-rule"]}`}` }));
  }

  curves(shown) {
    const { choice } = this;
    const rows = this.picked.size > 0 ? shown.filter((row) => this.picked.has(row.trial))
      : shown.filter((row) => row.result !== null || row.state === "running").slice(0, mostCurves);
    const known = rows.filter((row) => runs.byId.has(row.run));
    if (known.length === 0) return null;
    const chart = (title, name, options) => m(Chart, { key: name, title, axis: "step", ...options, series: known.map((row, number) => ({ id: row.run, name, label: `trial ${row.trial}`, number })) });
    return [m(".head.tight", m("h2", this.picked.size > 0 ? "Picked trials" : "Trials at the top of the table"),
      m(".tools", m("span.soft", { role: "status" }, this.reporting), m("label.field", m("input", { type: "checkbox", checked: choice.log, onchange: (event) => { choice.log = event.target.checked; } }), "Logarithmic loss"), m("button", { type: "button", onclick: this.makeReport(known.map((row) => row.trial).sort((a, b) => a - b), "#matrices") }, "Confusion matrices"), known.length > 1 ? m("a.button", { href: `#!/compare/${known.map((row) => row.run).join(",")}` }, "Compare these runs") : null)),
    m(".grid", [chart("Held-out accuracy", "validation.accuracy", { percent: true }), chart("Training loss", "step.loss", { log: choice.log })])];
  }

  chips() {
    return m(".chips", { role: "group", "aria-label": "Show only trials in these states" }, Object.entries(this.about.states).map(([state, number]) => m("button", { type: "button", "aria-pressed": String(this.choice.states.has(state)),
      onclick: () => { if (!this.choice.states.delete(state)) this.choice.states.add(state); } }, stateWords[state] || state, m("small", count(number)))));
  }

  toggleHidden(trial) {
    const { hidden } = this.choice;
    if (!hidden.delete(trial)) hidden.add(trial);
    keepHidden(this.id, hidden);
  }

  toggleColumn(name) {
    const { columns: hidden } = this.choice;
    if (!hidden.delete(name)) hidden.add(name);
    keepHidden(this.id, hidden, "columns");
  }

  columnChips() {
    const { about, choice } = this;
    const names = [...columns(about).filter((name) => name !== "trial"), "note"];
    return choice.showsColumns ? m(".chips.gap", { role: "group", "aria-label": "Columns that are shown" }, names.map((name) => m("button", {
      type: "button", "aria-pressed": String(!choice.columns.has(name)), onclick: () => this.toggleColumn(name) }, m("bdi", this.title(name))))) : null;
  }

  title(name) { return name === "result" ? this.about.metric : ["trial", "state", "steps", "time", "note"].includes(name) ? name[0].toUpperCase() + name.slice(1) : name; }

  annotate(row) {
    openCommandForm({ title: `Note on trial ${row.trial}`, button: "Keep", command: "sweep annotate", extra: { sweep: this.id, trial: row.trial },
      word: { name: "text", label: "note", help: "shown in the table, the report and the exported files", value: row.note || "" }, start: (body) => this.start(body) });
  }

  actions(row) {
    const { trial } = row;
    const isHidden = this.choice.hidden.has(trial);
    const hide = m("button.quiet", { type: "button", "aria-label": `${isHidden ? "Show" : "Hide"} trial ${trial}`, onclick: () => this.toggleHidden(trial) }, isHidden ? "Show" : "Hide");
    if (this.about.copy_of) return hide; // nothing else can change it
    const isPaused = row.state === "waiting" && this.about.going_on;
    const act = row.state === "running" || isPaused
      ? m("button.quiet", { type: "button", "aria-label": `Stop trial ${trial}`, onclick: this.question(this.of("stop", { trial }), { title: `Stop trial ${trial}?`, button: "Stop the trial", danger: true, text: "It ends with the result that it has." }) }, "Stop")
      : row.state === "waiting" ? null
        : m("button.quiet", { type: "button", "aria-label": `Restart trial ${trial}`, onclick: this.question(this.of("restart", { trial }), { title: `Restart trial ${trial}?`, button: "Restart", danger: true,
          text: "Its result is forgotten, and it is trained from the start: at once if the sweep goes on, else when it is continued." }) }, "Restart");
    return [act, m("button.quiet", { type: "button", "aria-label": `Note on trial ${trial}`, onclick: () => this.annotate(row) }, "Note"), hide];
  }

  heading(column, title, isNumber) {
    const { choice } = this;
    const isSorted = choice.sort === column;
    return m("th", { scope: "col", class: isNumber ? "number" : "", "aria-sort": isSorted ? (choice.down ? "descending" : "ascending") : "none" },
      m("button", { type: "button", onclick: () => { choice.down = isSorted ? !choice.down : column === "result" && this.about.maximize; choice.sort = column; } }, m("bdi", title)));
  }

  row(row) {
    const { parameters, best } = this.about;
    const isShown = (name) => !this.choice.columns.has(name);
    const cell = (name, make) => (isShown(name) ? make() : null);
    const isBest = best?.trial === row.trial;
    const note = [row.error, row.note].filter(Boolean).join("; ");
    const toggle = () => { if (!this.picked.delete(row.trial)) this.picked.add(row.trial); };
    const isFull = this.picked.size >= mostPicked && !this.picked.has(row.trial);
    return m("tr", { key: row.trial, class: [isBest ? "best" : "", this.lit === row.trial ? "lit" : "", this.choice.hidden.has(row.trial) ? "hidden-trial" : ""].join(" "),
      onmouseenter: () => this.light(row.trial), onmouseleave: () => this.light(null) },
    m("td.pick", m("input", { type: "checkbox", checked: this.picked.has(row.trial), disabled: isFull, title: isFull ? `At most ${mostPicked} trials can be picked` : "", "aria-label": `Pick trial ${row.trial}`, onchange: toggle })),
    m("td.number", runs.byId.has(row.run) ? m("a", { href: `#!/run/${row.run}` }, row.trial) : row.trial, isBest ? m("span", { title: "the best" }, " ★") : null),
    cell("state", () => m("td", m(State, { state: row.state }))), cell("result", () => m("td.number", resultText(row.result))),
    cell("steps", () => m("td.number", count(row.steps), row.total_steps > row.steps ? m("small.soft", `of ${count(row.total_steps)}`) : null)),
    cell("time", () => m("td.number", row.seconds > 0 ? duration(row.seconds) : "")),
    parameters.filter((one) => isShown(one.name)).map((one) => { const value = valueOf(row, one.name); return m("td", { class: one.number ? "number" : "" }, m("bdi", { title: value }, value === undefined ? "" : one.number ? figure(Number(value)) : value)); }),
    cell("note", () => m("td.note", { title: note }, m("bdi", note))), m("td.act", this.actions(row)));
  }

  // Another order or filter begins at its first page.
  followQuestion() {
    const { text, states, sort, down } = this.choice;
    const question = JSON.stringify([text, [...states], sort, down, [...this.brushes]]);
    if (question === this.asked) return;
    Object.assign(this, { page: 0, asked: question });
    const box = document.querySelector(".trials-box");
    if (box) box.scrollTop = 0;
  }

  firstOf(shown) {
    this.page = Math.max(0, Math.min(this.page, Math.ceil(shown.length / rowsOfPage) - 1));
    return this.page * rowsOfPage;
  }

  // Of a long table, above and below it.
  pager(shown, isBelow) {
    if (shown.length <= rowsOfPage) return null;
    const first = this.firstOf(shown);
    const end = Math.min(shown.length, first + rowsOfPage);
    const turn = (event, by) => {
      this.page += by;
      const box = event.target.closest("div.sweep").querySelector(".trials-box");
      box.scrollTop = 0;
      if (isBelow) box.scrollIntoView();
    };
    // A button that is disabled would lose the focus.
    const button = (text, by, isOff) => m("button", { type: "button", "aria-disabled": String(isOff), onclick: (event) => { if (!isOff) turn(event, by); } }, text);
    return m(".tools.pages", { role: "group", "aria-label": `Pages of the trials, ${isBelow ? "below" : "above"} the table` }, button("Previous", -1, first === 0),
      m("span", isBelow ? {} : { role: "status" }, `${count(first + 1)} to ${count(end)} of ${count(shown.length)}`), button("Next", 1, end === shown.length));
  }

  table(shown) {
    const { about, choice } = this;
    this.followQuestion();
    const first = this.firstOf(shown);
    const isShown = (name) => !choice.columns.has(name);
    const { mistake } = filterOf(about, choice.text);
    const names = columns(about).slice(0, 5).filter(isShown).map((name) => [name, this.title(name), name !== "state"]);
    return [m(".head.tight", m("div", m("h2", "Trials"), m("p", shown.length === about.rows.length ? "" : `${count(shown.length)} of ${count(about.rows.length)}`)),
      m(".tools", this.chips(), m("button", { type: "button", "aria-expanded": String(choice.showsColumns), onclick: () => { choice.showsColumns = !choice.showsColumns; } }, "Columns", choice.columns.size > 0 ? m("small", `${choice.columns.size} hidden`) : null), choice.hidden.size > 0 ? m("label.field", m("input", { type: "checkbox", checked: choice.showsHidden, onchange: (event) => { choice.showsHidden = event.target.checked; } }), `${choice.hidden.size} hidden`) : null,
        m("input", { type: "search", placeholder: "Filter: result>0.9", "aria-label": "Filter trials", "aria-invalid": String(mistake !== ""), "aria-describedby": "filter-mistake", value: choice.text, oninput: (event) => { choice.text = event.target.value; } }))),
    m("p.mistake", { id: "filter-mistake", role: "status" }, mistake), this.columnChips(), this.pager(shown, false), m(".table-box.trials-box", { tabindex: 0, role: "region", "aria-label": "Trials" }, m("table.jobs.trials", m("caption.out-of-sight", "Trials"),
      m("thead", m("tr", m("th.pick", m("span.out-of-sight", "Pick")), names.map(([name, title, isNumber]) => this.heading(name, title, isNumber)),
        about.parameters.filter((one) => isShown(one.name)).map((one) => this.heading(one.name, one.name, one.number)), isShown("note") ? m("th", { scope: "col" }, "Note") : null, m("th.act", { scope: "col" }, m("span.out-of-sight", "Actions")))),
      m("tbody", shown.slice(first, first + rowsOfPage).map((row) => this.row(row)))), shown.length === 0 ? m("p.empty", about.rows.length === 0 ? "No trial has begun" : "No trial fits the states and the filter above") : null),
    this.pager(shown, true)];
  }

  importance() {
    const { importances, rows, few_trials: few } = this.about;
    if (importances.length === 0) return null;
    const full = rows.filter((row) => row.state === "ended" && isNumber(row.result)).length;
    const title = m("h2", "Importance of parameters");
    if (full < few) return m("section.card", title, m("p.soft", `Too few trials: ${count(full)} trained in full, and figures from fewer than ${few} are chance.`));
    const some = ({ trials }) => (trials < full ? m("small.soft", `${count(trials)} of ${count(full)} trials have it${trials < few ? ", too few to trust" : ""}`) : null);
    return m("section.card", title,
      m("table.importance", m("caption.out-of-sight", "Importance of parameters"), m("tbody", importances.map((one) => m("tr", m("th", { scope: "row" }, m("bdi", one.parameter), some(one)),
        m("td", m(".bar.large", { "aria-hidden": "true" }, m("i", { style: { width: `${one.share * 100}%` } }))), m("td.number", `${(100 * one.share).toFixed(1)} %`))))),
      m("p.soft", `How much the values of the best tenth differ from those of all ${count(full)} trials that were trained in full (PED-ANOVA), as shares of the sum.`));
  }

  // Above the table, and folded away by who wants the table alone.
  charts(isShown) {
    const { about, lit, light, brushes } = this;
    if (!about.rows.some((row) => row.result !== null)) return null;
    const title = m("h2", m("bdi", about.metric), " over trials");
    return m("details.charts", { open: true }, m("summary", "Charts"),
      m(".grid", m("section.card", title, m(History, { about, lit, light, isShown })), this.importance()),
      about.parallel.lines.length > 0 ? m("section.spaced", m("h2", "Parallel coordinates"), m("p.soft", "Drag along an axis, or go to one of its ends with the Tab key and move it with the arrow keys, to see only the trials that go through that part."),
        m(Parallel, { ...about.parallel, brushes, lit, light, isShown })) : null);
  }

  view() {
    const { about } = this;
    if (!about) return this.error ? m(ProblemPage, { title: "Experiment", error: this.error }) : m(".empty", "Reading the sweep…");
    const places = new Map(about.parallel.lines.map((line) => [line.trial, line]));
    const inside = (row) => this.brushes.size === 0 || (places.has(row.trial) && isInside(places.get(row.trial), about.parallel.axes, this.brushes));
    const shown = shownTrials(about, this.choice).filter(inside);
    const numbers = new Set(shown.map((row) => row.trial));
    return m("div.sweep", m(".head", m("div", m("h1", m("bdi", about.name)), m("p", m(State, stateOf(about)),
      ` · ${about.maximize ? "the highest" : "the lowest"} `, m("bdi", about.metric)),
      about.copy_of ? m("p.soft", "A copy of ", m("bdi", about.copy_of), ", which can be continued and changed only there") : null,
      about.not_reproducible ? m("p.soft", about.not_reproducible[0].toUpperCase() + about.not_reproducible.slice(1)) : null), m(".tools", this.buttons())),
    this.error ? m(Problem, { error: this.error }) : null, this.output(), m(".spaced"), this.tiles(),
    this.report(),
    this.charts((trial) => numbers.has(trial)), this.table(shown), m(".spaced"), this.curves(shown),
    m("section.card", m("h2", "Command of each trial"), m(Command, { words: about.command[0] === "train" ? ["lockstep", ...about.command] : about.command })));
  }
}
