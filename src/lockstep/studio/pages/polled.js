// A page that asks again and again while it is shown.
import { Failure, listen, post, throttled } from "./api.js";
import { Output } from "./output.js";
import { openDialog, startCommand } from "./parts.js";

const m = window.m;

// Classes say in ask() what they ask the server for.
export class Polled {
  constructor() {
    this.error = null;
    this.number = 0;
    this.load = throttled(() => this.read(), 800);
  }

  oninit({ attrs }) {
    this.attrs = attrs;
    this.load();
    this.timer = setInterval(this.load, 3000);
    this.ends = [listen("command", this.load), listen("reset", this.load)];
  }

  onremove() {
    clearInterval(this.timer);
    for (const end of this.ends) end();
    this.load.cancel();
  }

  async read() {
    try {
      await this.ask();
      this.error = null;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.error = error;
    }
    m.redraw();
  }

  output() {
    return m("div", this.number ? [m(Output, { key: this.number, number: this.number, isKept: this.isKept, done: (status) => this.ended(status) })] : []);
  }

  ended(status) {
    if (status === 0) this.after?.();
    this.always?.();
    this.load();
  }

  // For a button: a question with the very command that the answer starts, whose output this page then shows.
  //   body   what the server makes the command of
  //   words  of the question; with isKept, what the command prints is the answer; after() follows a good end, always() any
  question(body, words) {
    return async () => {
      try {
        const shown = await post("/api/shown", body);
        openDialog({ ...words, words: shown.words, act: () => this.start(body, words.isKept, words.after, words.always) });
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        this.error = error;
        m.redraw();
      }
    };
  }

  async start(body, isKept = false, after = null, always = null) {
    this.number = (await startCommand(body)).number;
    Object.assign(this, { isKept, after, always });
  }
}
