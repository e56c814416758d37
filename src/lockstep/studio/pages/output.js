// A command that a page has started: what it prints, and how it ended.
import { get, listen } from "./api.js";
import { commandLine } from "./format.js";
import { Stages } from "./stages.js";

const m = window.m;

// attrs: {number, done(status), isKept: what it printed stays after a good end, answers: each status that is one, [0]}
export class Output {
  oninit({ attrs }) {
    this.about = null;
    this.attrs = attrs;
    this.timer = setInterval(() => this.read(), 1000);
    this.end = listen("command", ({ number }) => { if (number === attrs.number) this.read(); });
    this.read();
  }

  onremove() {
    clearInterval(this.timer);
    this.end();
  }

  async read() {
    try {
      this.about = await get("/api/command", { number: this.attrs.number });
    } catch (error) {
      if (error.status !== 404) return; // tried again
      this.forgotten();
      return;
    }
    if (this.about.status !== undefined) {
      clearInterval(this.timer);
      this.attrs.done?.(this.about.status);
      this.attrs.done = null;
    }
    m.redraw();
  }

  // The server keeps what the last commands printed, and none after it has begun again.
  forgotten() {
    clearInterval(this.timer);
    this.isForgotten = true;
    m.redraw();
  }

  text(words, output) {
    if (words[1] === "cluster" && words[2] === "validate") return m(Stages, { output });
    return m("pre.output", { tabindex: 0, role: "group", "aria-label": "Output" }, output);
  }

  view() {
    if (this.isForgotten) return m("section.card.gap", { "aria-live": "polite" }, m("p.flat", "studio has begun again since this command was started, and does not know how it ended"));
    if (!this.about) return null;
    const { words, status, output } = this.about;
    const isAnswer = (this.attrs.answers || [0]).includes(status);
    const how = status === undefined ? "is running" : isAnswer ? "has ended" : `failed with status ${status}`;
    return m("section.card.gap", { "aria-live": "polite", class: status === undefined || isAnswer ? "" : "bad" }, m("p.flat", m("code", commandLine(words)), ` ${how}`),
      output && (!isAnswer || this.attrs.isKept) ? this.text(words, output) : null);
  }
}
