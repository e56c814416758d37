// Holds the stream of events for all tabs of this browser.
const names = ["runs", "run", "command", "reset"]; // as in api.js
const ports = new Map(); // port of a tab -> when it last said that somebody sees it; 0: nobody does
const mostSilence = 60_000; // milliseconds, after which a tab has gone without a word
let source = null;
let state = "connecting";

function tell(name, values) {
  for (const port of ports.keys()) port.postMessage({ name, values });
}

// How many tabs share the machine's time and the server's.
let told = 0;
function countTabs() {
  const since = Date.now() - mostSilence;
  const tabs = [...ports.values()].filter((seen) => seen > since).length;
  if (tabs === told) return;
  told = tabs;
  tell("tabs", { tabs });
}

function setState(value) {
  state = value;
  tell("state", { state });
}

function open() {
  source = new EventSource("/api/stream");
  source.onopen = () => setState("open");
  source.onerror = () => {
    setState("lost");
    // A browser gives up where the answer was no stream, as after the server has started anew.
    if (source.readyState === EventSource.CLOSED) setTimeout(open, 2000);
  };
  for (const name of names) source.addEventListener(name, (event) => tell(name, JSON.parse(event.data)));
}

self.onconnect = (event) => {
  const port = event.ports[0];
  ports.set(port, 0);
  port.onmessage = ({ data }) => {
    if (data === "bye") ports.delete(port);
    else ports.set(port, data === "seen" ? Date.now() : 0);
    countTabs();
  };
  if (!source) open();
  port.postMessage({ name: "state", values: { state } });
  port.postMessage({ name: "tabs", values: { tabs: told } });
};
