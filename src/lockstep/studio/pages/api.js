// Asks the server, and hears from it: one stream of events for all tabs of a browser.
const m = window.m;

export class Failure extends Error {
  constructor(message, hint, status) {
    super(message);
    this.hint = hint || "";
    this.status = status;
  }
}

// The commands that the program has.
export const program = { commands: [], roots: [] };

export const link = { state: "connecting", isOut: false, tabs: 1 };

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    link.state = "lost";
    throw new Failure("the server does not answer", "lockstep studio may have ended; start it again");
  }
  if (response.status === 401) {
    link.isOut = true;
    m.redraw();
    throw new Failure("this browser is not signed in", "open the address that lockstep studio prints", 401);
  }
  const json = await response.json().catch(() => ({ error: `the server answered ${response.status}, with what is not JSON`, isNone: true }));
  if (response.ok && !json?.isNone) return json;
  const context = json.context ? ` (${json.context.join(", ")})` : "";
  throw new Failure((json.error || `the server answered ${response.status}`) + context, json.hint, response.status);
}

export function get(path, query = {}) {
  const text = new URLSearchParams(query).toString();
  return ask(text ? `${path}?${text}` : path);
}

export function post(path, body) {
  return ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

// Those who hear: name of the event -> functions.
const listeners = new Map();

// Returns a function that ends it.
export function listen(name, take) {
  if (!listeners.has(name)) listeners.set(name, new Set());
  listeners.get(name).add(take);
  return () => listeners.get(name).delete(take);
}

function hear(name, values) {
  if (name === "state") {
    const was = link.state;
    link.state = values.state;
    if (values.state === "open" && was !== "open") hear("reset", {});
    m.redraw();
    return;
  }
  if (name === "tabs") link.tabs = values.tabs;
  for (const take of listeners.get(name) || []) take(values);
}

const eventNames = ["runs", "run", "command", "reset"]; // as in worker.js

// A browser opens few connections to a server, so a worker holds the stream for all tabs.
export function connect() {
  if (window.SharedWorker) {
    const worker = new SharedWorker("/worker.js", { name: "lockstep-studio" });
    worker.port.onmessage = (event) => hear(event.data.name, event.data.values);
    worker.port.start();
    const saySeen = () => worker.port.postMessage(document.hidden ? "hidden" : "seen");
    saySeen();
    setInterval(saySeen, 20_000);
    document.addEventListener("visibilitychange", saySeen);
    window.addEventListener("pagehide", () => worker.port.postMessage("bye"));
    window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
    return;
  }
  const source = new EventSource("/api/stream");
  source.onopen = () => hear("state", { state: "open" });
  source.onerror = () => hear("state", { state: "lost" });
  for (const name of eventNames) source.addEventListener(name, (event) => hear(name, JSON.parse(event.data)));
}

// What a tab that nobody sees puts off.
const putOff = new Set();
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  const calls = [...putOff];
  putOff.clear();
  for (const call of calls) call();
});

const longAnswer = 50; // milliseconds
const tabsAtFullRate = 8; // in view at once; more of them follow less often what goes on
const following = 250; // milliseconds: a shorter pause is between answers to somebody who does something

// At most one call at a time, and one more after it if it was asked for meanwhile; `pause` between two, and longer
// where the answers take long or many tabs are in view. Nothing in a tab that is hidden.
export function throttled(work, pause) {
  let busy = false;
  let again = false;
  let timer = 0;
  const run = async () => {
    busy = true;
    again = false;
    const began = performance.now();
    try {
      await work();
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
    } finally {
      const took = performance.now() - began;
      timer = setTimeout(() => {
        busy = false;
        if (again) call();
      }, Math.max(pause < following ? pause : pause * Math.max(1, link.tabs / tabsAtFullRate), took > longAnswer ? 4 * took : 0));
    }
  };
  const call = () => {
    if (busy) again = true;
    else if (document.hidden) putOff.add(call);
    else run();
  };
  call.cancel = () => { again = false; clearTimeout(timer); busy = true; putOff.delete(call); };
  return call;
}

// All runs, as the server knows them.
export const runs = { byId: new Map(), version: 0, ready: false, error: null, warnings: [] };

export const refreshRuns = throttled(async () => {
  try {
    const answer = await get("/api/runs", { since: runs.version });
    if (answer.whole) runs.byId.clear();
    for (const run of answer.runs) runs.byId.set(run.id, run);
    for (const id of answer.removed) runs.byId.delete(id);
    runs.version = answer.version;
    runs.warnings = answer.warnings;
    runs.ready = answer.ready;
    runs.error = null;
    runs.changed = performance.now();
  } catch (error) {
    runs.error = error;
    throw error;
  } finally {
    m.redraw();
  }
}, 250);
