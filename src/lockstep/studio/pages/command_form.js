// Dialogs with a form that stands for a command, which they show while the form is filled.
import { Failure, post } from "./api.js";
import { Options, given } from "./fields.js";
import { Command, Problem, openDialog } from "./parts.js";

const m = window.m;
const pause = 250; // after the last change, in milliseconds

// The command that a request stands for, or why there is none. attrs: {body: request, isEmpty: nothing to ask yet,
// note: below the command}
export class ShownCommand {
  constructor() { Object.assign(this, { words: null, error: null, asked: "", timer: 0 }); }

  oninit({ attrs }) { this.follow(attrs); }

  onbeforeupdate({ attrs }) { this.follow(attrs); }

  onremove() { clearTimeout(this.timer); }

  follow({ body, isEmpty }) {
    const text = isEmpty ? "" : JSON.stringify(body);
    if (text === this.asked) return;
    this.asked = text;
    clearTimeout(this.timer);
    if (isEmpty) this.words = this.error = null;
    else this.timer = setTimeout(() => this.ask(text, body), pause);
  }

  async ask(text, body) {
    let words = null;
    let error = null;
    try {
      ({ words } = await post("/api/shown", body));
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      error = failure;
    }
    if (text !== this.asked) return;
    Object.assign(this, { words, error });
    m.redraw();
  }

  view({ attrs: { note } }) {
    if (this.error) return m(Problem, { error: this.error });
    return this.words ? m("div", m("p.label", "This command is started:"), m(Command, { words: this.words }), note ? m("p.soft", note) : null) : null;
  }
}

// A dialog with a word, such as a name, and the options of a command.
//   what  {title, button, danger, text, command, extra: of the request, word: {label, help, name, value, isFixed},
//          form: options, usual: [name], values: {name: text}, note: below the command, start(body)}
export function openCommandForm(what) {
  const word = what.word && { name: "word", value: "", ...what.word };
  const values = what.values || {};
  const body = () => ({ command: what.command, ...what.extra, ...(word ? { [word.name]: word.value.trim() } : {}),
    ...(what.form ? { options: given(values) } : {}) });
  const content = {
    view: () => m(".training",
      word && !word.isFixed ? m(".option", m("label", { for: "form-word" }, word.label), m("input", { id: "form-word", type: "text", value: word.value, required: true,
        autocomplete: "off", "aria-describedby": "form-word-help", oninput: (event) => { word.value = event.target.value; } }), m("small", { id: "form-word-help" }, word.help)) : null,
      what.form ? m(Options, { form: what.form, usual: what.usual || [], values, prefix: "form" }) : null,
      what.more ? m(what.more, { body: body() }) : null,
      m(ShownCommand, { body: body(), isEmpty: word && !word.value.trim(), note: what.note })),
  };
  openDialog({ title: what.title, text: what.text, button: what.button, danger: what.danger, body: content, act: () => what.start(body()) });
}
