// The pools that programs have open: their workers, and how to close them.
import { get } from "./api.js";
import { age, count, moment, lastPart } from "./format.js";
import { Problem, State } from "./parts.js";

const m = window.m;

function stateOf(worker) { return worker.ready ? (worker.busy ? "running" : "ended") : "waiting"; }

function wordOf(worker) { return worker.ready ? (worker.busy ? "Busy" : "Free") : "Starts"; }

function gpuOf({ gpu, gpu_name: name }) { return gpu < 0 ? "" : `${gpu}${name ? ` (${name})` : ""}`; }

const Workers = {
  view: ({ attrs: { pool } }) => m(".table-box", { tabindex: 0, role: "region", "aria-label": `Workers of pool ${pool.id}` }, m("table", m("caption.out-of-sight", `Workers of pool ${pool.id}`),
    m("thead", m("tr", m("th.number", { scope: "col" }, "Worker"), ["State", "Host"].map((title) => m("th", { scope: "col" }, title)), m("th.number", { scope: "col" }, "Process"),
      ["Cores", "GPU"].map((title) => m("th", { scope: "col" }, title)))),
    m("tbody", pool.workers.map((worker) => m("tr", { key: worker.index }, m("td.number", worker.index), m("td", m(State, { state: stateOf(worker), text: wordOf(worker) })),
      m("td", m("bdi", worker.host)), m("td.number", worker.process || ""), m("td", worker.cores), m("td", m("bdi", gpuOf(worker)))))))),
};

// attrs: {page}, a Polled that asks for the pools and shows the output of commands
export const Pools = {
  view: ({ attrs: { page } }) => {
    const { pools } = page;
    return m("section.spaced", m("h2", "Open pools"), page.poolsError ? m(Problem, { error: page.poolsError }) : null,
      !pools ? null : pools.length === 0 ? m("p.soft", "No program of yours on this machine has a pool open.")
        : pools.map((pool) => m("section.card.gap.pool", { key: pool.id, "aria-label": `Pool ${pool.id}` },
          m(".head.tight", m("div", m("h3", m("bdi", { title: pool.program }, lastPart(pool.program)), m("small.soft", ` pool ${pool.id}`)),
            m("p", `${count(pool.workers.length)} ${pool.workers.length === 1 ? { threads: "thread", processes: "process" }[pool.kind] : pool.kind} of the profile `, m("bdi", pool.profile), ` · process ${pool.process} on `, m("bdi", pool.host),
              " · opened ", m("span", { title: moment(pool.opened) }, age(pool.opened)))),
          m(".tools", m("button.danger", { type: "button", "aria-label": `Close pool ${pool.id}`, onclick: page.question({ command: "pool close", word: pool.id },
            { title: `Close pool ${pool.id}?`, button: "Close the pool", danger: true, text: "Calls that run on it are cancelled, and end with an error. Its program goes on." }) }, "Close"))),
          m(Workers, { pool }))));
  },
};

export async function askForPools(page) {
  try {
    page.pools = await get("/api/pools");
    page.poolsError = null;
  } catch (error) {
    page.poolsError = error;
  }
}
