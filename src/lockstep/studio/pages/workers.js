// Which worker of a run computed which shards in the newest step, and so who waited for whom; and what the run's
// process uses of its machine.
import { bytes, count, duration, figure, listOf } from "./format.js";
import { Facts } from "./parts.js";

const m = window.m;

const mostWorkers = 100_000; // logs of other programs may have any number
const isIndex = (value) => Number.isInteger(value) && value >= 0 && value < mostWorkers;

// A row for each worker: {given, computed, from: shards of other workers by their owner}.
export function workersOf(owners, shardWorkers) {
  const rows = [];
  const row = (worker) => (rows[worker] ||= { worker, given: 0, computed: 0, from: new Map() });
  owners.forEach((owner, shard) => {
    const worker = isIndex(shardWorkers[shard]) ? shardWorkers[shard] : owner;
    row(owner).given += 1;
    row(worker).computed += 1;
    if (worker !== owner) row(worker).from.set(owner, (row(worker).from.get(owner) || 0) + 1);
  });
  return rows.filter(Boolean);
}

function taken(from) { return [...from].map(([owner, shards]) => `${count(shards)} of worker ${owner}`).join(", "); }

// Who was done first, and helped.
function sentence(rows) {
  const late = [...new Set(rows.flatMap((row) => [...row.from.keys()]))].sort((a, b) => a - b);
  const early = rows.filter((row) => row.from.size > 0).map((row) => row.worker);
  if (late.length === 0) return "Each worker computed its own shards.";
  const name = (list) => `${list.length === 1 ? "Worker" : "Workers"} ${list.join(", ")}`;
  return `${name(late)} ${late.length === 1 ? "was" : "were"} the last. ${name(early)} ${early.length === 1 ? "was" : "were"} done before, and computed some of their shards.`;
}

// attrs: {about: a run}
export const WorkersOfStep = {
  view: ({ attrs: { about } }) => {
    const { shards, newest } = about;
    const owners = listOf(shards?.owners);
    const rows = newest?.shard_workers && owners.every(isIndex) ? workersOf(owners, listOf(newest?.shard_workers)) : [];
    if (rows.length < 2) return null;
    const most = Math.max(...rows.map((row) => row.computed), 1);
    return m("section.card", m("h2", `Workers in step ${count(newest.step)}`), m("p.soft", sentence(rows)),
      m(".table-box.plain", { tabindex: 0, role: "region", "aria-label": "Workers" }, m("table.workers", m("caption.out-of-sight", "Shards of each worker"),
        m("thead", m("tr", ["Worker", "Shards", "Computed"].map((title) => m("th.number", { scope: "col" }, title)), m("th", { scope: "col" }, m("span.out-of-sight", "Share")), m("th", { scope: "col" }, "Taken over"))),
        m("tbody", rows.map((row) => m("tr", { key: row.worker }, m("td.number", row.worker), m("td.number", count(row.given)), m("td.number", count(row.computed)),
          m("td", m("span.bar", { "aria-hidden": "true" }, m("i", { style: { width: `${100 * row.computed / most}%` } }))), m("td", taken(row.from))))))),
      newest.exchange_seconds >= 0 ? m("p.soft", `Then rank 0 waited for all others and exchanged gradients: ${figure(newest.exchange_seconds * 1000)} ms.`) : null);
  },
};

// Between two answers of the server.
function coresInUse(before, now) {
  const seconds = before && now ? now.time - before.time : 0;
  return seconds > 0.2 && before.process === now.process ? (now.processor_seconds - before.processor_seconds) / seconds : null;
}

// Keeps the last two answers, so that a rate can be shown.
export class UseOfMachine {
  constructor() { Object.assign(this, { last: null, cores: null }); }

  take(use) {
    if (!use) { this.last = this.cores = null; return; }
    const cores = coresInUse(this.last, use);
    if (cores !== null) this.cores = cores;
    if (cores !== null || this.last?.process !== use.process) this.last = use;
  }

  // attrs: {about: a run}
  view({ attrs: { about } }) {
    const { process, environment = {}, newest = {} } = about;
    if (process?.time !== this.last?.time) this.take(process);
    if (!process) return null;
    const rows = [
      ["Cores in use", this.cores === null ? "" : figure(this.cores, 2), environment.cores ? `of ${count(environment.cores)}` : ""],
      ["Memory", bytes(process.memory_bytes)], ["Threads", count(process.threads)], ["Processor time", duration(process.processor_seconds)],
      ["Page faults in the step", newest.page_faults > 0 ? count(newest.page_faults) : ""], ["Process", String(process.process)],
    ];
    return m("section.card", m("h2", "Process of rank 0"), m(Facts, { rows }));
  }
}
