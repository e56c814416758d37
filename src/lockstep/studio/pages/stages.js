// The stages of lockstep cluster validate, as they pass.
import { State } from "./parts.js";

const m = window.m;

// A line is "NAME ... ok (0.1 s)  DETAIL", "NAME ... FAILED (0.1 s)  DETAIL", or "NAME ... " while the stage goes on;
// then "  hint: TEXT". Other lines are of the whole.
export function stagesOf(output) {
  const stages = [];
  const rest = [];
  for (const line of output.split("\n")) {
    const found = /^(.+?) \.\.\. (?:(ok|FAILED) \(([\d.]+ s)\) *(.*))?$/.exec(line);
    const hint = /^ {2}hint: (.*)$/.exec(line);
    if (found) stages.push({ name: found[1], state: found[2] === "ok" ? "ended" : found[2] ? "failed" : "running", time: found[3] || "", detail: found[4] || "", hint: "" });
    else if (hint && stages.length > 0) stages[stages.length - 1].hint = hint[1];
    else if (line.trim()) rest.push(line);
  }
  return { stages, rest };
}

const words = { ended: "Passed", failed: "Failed", running: "Running" };

// attrs: {output}
export const Stages = {
  view: ({ attrs: { output } }) => {
    const { stages, rest } = stagesOf(output);
    return [m("ol.stages", stages.map((one) => m("li", { key: one.name }, m(State, { state: one.state, text: words[one.state] }), m("strong", one.name), m("small.soft", one.time),
      m("bdi", one.detail), one.hint ? m("small.soft", `Hint: ${one.hint}`) : null))), rest.map((line) => m("p.flat", m("bdi", line)))];
  },
};
