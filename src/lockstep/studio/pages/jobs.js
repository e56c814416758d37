// The queue: jobs of this machine and of clusters, and what each of them writes.
import { Failure, get, listen, refreshRuns, runs, throttled } from "./api.js";
import { age, commandLine, count, counted, duration, moment, percent } from "./format.js";
import { Command, Facts, Problem, ProblemPage, Progress, State } from "./parts.js";
import { Polled } from "./polled.js";
import { openCommandForm } from "./command_form.js";

const m = window.m;
const isOver = (job) => ["ended", "failed", "cancelled"].includes(job.state);

function actions(page, job) {
  const label = job.name ? `${job.id} (${job.name})` : job.id;
  if (!isOver(job)) {
    return [m("button.danger", { type: "button", onclick: page.question({ command: "job cancel", job: job.id }, { title: `Cancel job ${label}?`, button: "Cancel the job", danger: true,
      text: "A training saves a checkpoint first. A job that waits leaves the queue." }) }, "Cancel")];
  }
  return [m("button", { type: "button", onclick: page.question({ command: "job requeue", job: job.id }, { title: `Start job ${label} again?`, button: "Requeue",
    text: "A training goes on from its last checkpoint." }) }, "Requeue")];
}

const choice = { text: "" };
const farPause = 15_000; // milliseconds between two questions to all login nodes

const isFar = (id) => id.includes(":");

export class JobsPage extends Polled {
  oninit({ attrs }) {
    super.oninit({ attrs });
    this.loadFar = throttled(() => this.readFar(), farPause);
    this.loadFar();
    this.farTimer = setInterval(this.loadFar, farPause);
    this.ends.push(listen("command", this.loadFar));
  }

  onremove() {
    super.onremove();
    clearInterval(this.farTimer);
    this.loadFar.cancel();
  }

  async ask() { this.jobs = await get("/api/jobs"); }

  // Jobs behind login nodes, which may be slow to answer.
  async readFar() {
    try {
      const { jobs, warnings } = await get("/api/all-jobs");
      this.far = jobs.filter((job) => isFar(job.id));
      this.farError = warnings ? new Failure(warnings) : null;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.farError = error;
    }
    m.redraw();
  }

  oncreate() { document.title = "Jobs · Lockstep studio"; }

  row(job) {
    const share = job.progress ?? (job.total_steps ? (job.step || 0) / job.total_steps : undefined);
    return m("tr", { key: job.id }, m("td.number", m("a", { href: `#!/job/${encodeURIComponent(job.id)}` }, job.id)), m("td", m(State, { state: job.state })),
      m("td.wide", m("bdi", job.name || commandLine(job.command || [])), job.reason ? m("small.soft", m("bdi", job.reason)) : null),
      m("td", job.profile), m("td.number", count(job.workers)),
      m("td", job.state === "running" && share !== undefined ? m(Progress, { label: `Progress of job ${job.id}`, value: share, of: 1 }) : null),
      m("td.number", percent(job.accuracy)), m("td.number", duration(job.seconds)), m("td.number", job.state === "running" ? duration(job.seconds_left) : ""),
      m("td.number", m("span", { title: moment(job.submitted) }, age(job.submitted))), m("td.act", actions(this, job)));
  }

  view() {
    const words = choice.text.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (job) => words.every((word) => `${job.id}\n${job.name}\n${job.state}\n${job.profile}\n${(job.command || []).join(" ")}`.toLowerCase().includes(word));
    const jobs = [...(this.far || []), ...(this.jobs || [])].filter(fits).reverse();
    const heads = [["Job", 1], ["State"], ["What"], ["Profile"], ["Workers", 1], ["Progress"], ["Accuracy", 1], ["Time", 1], ["Left", 1], ["Submitted", 1]];
    return m("div", m(".head", m("div", m("h1", "Jobs"), m("p", this.jobs ? counted(jobs.length, "job") : "")),
      m(".tools", m("input", { type: "search", placeholder: "Search", "aria-label": "Search jobs", value: choice.text,
        oninput: (event) => { choice.text = event.target.value; } }))),
    this.error ? m(Problem, { error: this.error }) : null, this.farError && this.farError.message !== this.error?.message ? m(Problem, { error: this.farError }) : null, this.output(),
    !this.jobs ? (this.error ? null : m(".empty", "Reading the queue…"))
      : jobs.length === 0 ? m(".card.empty", m("h2", "No jobs"), m("p", "Put one into the queue with ", m("code", "lockstep batch train FOLDER"), "."))
        : m(".table-box", { tabindex: 0, role: "region", "aria-label": "Jobs" }, m("table.jobs", m("caption.out-of-sight", "Jobs"),
          m("thead", m("tr", heads.map(([title, isNumber]) => m("th", { scope: "col", class: isNumber ? "number" : "" }, title)),
            m("th", { scope: "col" }, m("span.out-of-sight", "Actions")))), m("tbody", jobs.map((job) => this.row(job))))));
  }
}

export class JobPage extends Polled {
  constructor() {
    super();
    this.rank = -1;
    this.text = "";
  }

  oninit({ attrs }) {
    super.oninit({ attrs });
    if (!isFar(attrs.id)) return;
    clearInterval(this.timer);
    this.timer = setInterval(this.load, 10_000); // its login node is asked each time
  }

  oncreate({ attrs }) { document.title = `Job ${attrs.id} · Lockstep studio`; }

  async ask() {
    refreshRuns(); // the server looks for runs only while somebody asks
    const job = this.attrs.id;
    const [about, diary] = await Promise.allSettled([get("/api/job", { job }), get("/api/diary", { job, rank: this.rank })]);
    if (about.value) this.about = about.value;
    if (diary.value) this.text = diary.value.text;
    for (const { reason } of [about, diary]) if (reason) throw reason;
  }

  fetch(job) {
    openCommandForm({ title: `Fetch the results of job ${job.id}`, button: "Fetch", command: "job fetch", extra: { job: String(job.id) },
      text: "Weights, curves and diary are copied to a folder on the machine of studio; of a job on a cluster they come from there.",
      word: { label: "folder", help: "a folder on the machine of studio", value: `job-${job.id.replace(":", "-")}` }, start: (body) => this.start(body) });
  }

  // The diary stays at its end while it grows, unless the reader has gone up.
  onbeforeupdate() {
    const diary = document.querySelector("pre.diary");
    this.isAtEnd = !diary || diary.scrollTop + diary.clientHeight >= diary.scrollHeight - 30;
  }

  onupdate() {
    const diary = document.querySelector("pre.diary");
    if (diary && this.isAtEnd) diary.scrollTop = diary.scrollHeight;
  }

  view({ attrs }) {
    if (!this.about) return this.error ? m(ProblemPage, { title: `Job ${attrs.id}`, error: this.error }) : m(".empty", "Reading the job…");
    const job = this.about.job || this.about;
    const run = [...runs.byId.values()].find((one) => one.folder === job.run_folder);
    return m("div", m(".head", m("div", m("h1", `Job ${attrs.id}`, job.name ? [" ", m("bdi", job.name)] : null),
      m("p", m(State, { state: job.state }), job.reason ? [" · ", m("bdi", job.reason)] : null)),
    m(".tools", run ? m("a.button", { href: `#!/run/${run.id}` }, "Its run") : null,
      m("button", { type: "button", onclick: () => this.fetch(job) }, "Fetch…"), actions(this, job))),
    this.error ? m(Problem, { error: this.error }) : null, this.output(),
    m(".grid", m("section.card", m("h2", "Job"), m(Facts, { rows: [["Profile", job.profile], ["Scheduler", job.scheduler], ["Workers", count(job.workers)],
      ["Machines", job.nodes > 1 ? count(job.nodes) : ""], ["Attempt", count(job.attempt)], ["Step", job.total_steps ? `${count(job.step)} of ${count(job.total_steps)}` : count(job.step)],
      ["Accuracy", percent(job.accuracy)], ["Time", duration(job.seconds)], ["Time left", job.state === "running" ? duration(job.seconds_left) : ""], ["Submitted", moment(job.submitted)],
      ["Submitted from", job.host], ["Exit status", job.status === undefined ? "" : String(job.status)], ["Folder", job.folder], ["Run", job.run_folder]] }),
    job.command ? [m("h2.spaced", "Command"), m(Command, { words: job.command })] : null),
    m("section.card", m(".head.tight", m("h2", "Diary"), job.workers > 1 ? m("label.field", "Rank", m("input.rank", { type: "number", min: -1, max: job.workers - 1, value: this.rank < 0 ? "" : this.rank,
      placeholder: "all", oninput: (event) => { this.rank = event.target.value === "" ? -1 : Number(event.target.value); this.load(); } })) : null),
    m("pre.output.diary", { tabindex: 0, role: "group", "aria-label": "Diary" }, this.text || "Nothing written yet"))));
  }
}
