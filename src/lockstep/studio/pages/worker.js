// Holds the stream of events for all tabs of this browser.
const names = ["runs", "run", "command", "reset", "jobs", "sweeps"];
const ports = new Set();
let source = null;
let state = "connecting";

function tell(name, values) {
  for (const port of ports) port.postMessage({ name, values });
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
  ports.add(port);
  port.onmessage = (message) => { if (message.data === "bye") ports.delete(port); };
  if (!source) open();
  port.postMessage({ name: "state", values: { state } });
};
