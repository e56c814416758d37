// What several pages are made of.
import { post, program } from "./api.js";
import { commandLine, textOf } from "./format.js";

const m = window.m;

// Text from file names and from runs: in its own direction, whatever it is.
export const Name = { view: ({ attrs }) => m("bdi", { title: attrs.text }, attrs.text) };

// Of runs, jobs and trials.
export const stateWords = {
  queued: "Queued", running: "Running", stopping: "Stopping", stopped: "Stopped", ended: "Ended",
  failed: "Failed", lost: "Lost", submitted: "Submitted", cancelled: "Cancelled", done: "Done",
  waiting: "Waiting", early: "Ended early",
};

export const State = {
  view: ({ attrs }) =>
    m("span.state", { class: `state-${attrs.state || "unreadable"}` }, m("span.dot"),
      attrs.text || stateWords[attrs.state] || attrs.state || "Unreadable"),
};

export const Problem = {
  view: ({ attrs: { error } }) =>
    m(".problem", { role: "alert" }, m("strong", textOf(error.message)), error.hint ? m("p", textOf(error.hint)) : null),
};

// In place of a page that has nothing else to show.
export const ProblemPage = {
  view: ({ attrs: { title, error } }) => m("div", m("h1", title), m(".spaced"), m(Problem, { error })),
};

// Where studio looks for runs and sweeps, of a list that has none.
export const Roots = {
  view: () => m("p", "Looked for in ", program.roots.map((root, at) => [at > 0 ? ", " : "", m("code", m("bdi", root))]), " and the folders below. For other folders: ",
    m("code", "lockstep studio FOLDER...")),
};

export const Tile = {
  view: ({ attrs }) =>
    m(".tile", m("dt", attrs.label), m("dd", attrs.value === "" ? "–" : attrs.value,
      attrs.note ? m("small", attrs.note) : null)),
};

export const Progress = {
  view: ({ attrs }) => {
    const share = attrs.of > 0 ? Math.min(1, attrs.value / attrs.of) : 0;
    return m(".bar", {
      role: "progressbar", "aria-label": attrs.label, "aria-valuenow": Math.round(share * 100),
      "aria-valuemin": 0, "aria-valuemax": 100,
    }, m("i", { style: { width: `${share * 100}%` } }));
  },
};

// Name and value in two columns; rows without a value are left out.
export const Facts = {
  view: ({ attrs }) => {
    const rows = attrs.rows.filter(([, value]) => value !== "" && value !== undefined && value !== null);
    return rows.length === 0 ? null : m("dl.facts", rows.map(([name, value, note]) => [
      m("dt", textOf(name)), m("dd", m("bdi", textOf(value)), note ? m("small", textOf(note)) : null),
    ]));
  },
};

export const Command = {
  view: ({ attrs }) => m(".command", m("code", { tabindex: 0, role: "group", "aria-label": "Command" }, commandLine(attrs.words)),
    m("button.quiet", { type: "button", onclick: () => navigator.clipboard?.writeText(commandLine(attrs.words)) }, "Copy")),
};

// One dialog at a time, over the page.
const dialog = { content: null, error: null, busy: false };

export function openDialog(content) {
  Object.assign(dialog, { content, error: null, busy: false });
  m.redraw();
}

export function closeDialog() {
  dialog.content = null;
  m.redraw();
}

// It is about the page below it.
window.addEventListener("hashchange", closeDialog);

// A question with the command that the answer starts.
//   content  {title, text, words, button, danger, act}: act() returns a promise
export const DialogHost = {
  view: () => (dialog.content ? m(Dialog, { key: "dialog" }) : null),
};

const Dialog = {
  oncreate: ({ dom }) => {
    dom.showModal();
    dom.onclose = closeDialog;
  },
  // Gives the focus back to the button that opened it.
  onremove: ({ dom }) => {
    dom.onclose = null;
    dom.close();
  },
  view: () => {
    const shown = dialog.content;
    const { title, text, words, button, danger, act, body } = shown;
    const go = async (event) => {
      event.preventDefault();
      dialog.busy = true;
      try {
        await act();
        if (dialog.content !== shown) return; // it was closed meanwhile
        if (shown.isOpenAfter) dialog.busy = false;
        else closeDialog();
      } catch (error) {
        if (dialog.content !== shown) return;
        Object.assign(dialog, { error, busy: false });
        m.redraw();
      }
    };
    return m("dialog", { "aria-labelledby": "dialog-title", class: body ? "wide" : "" },
      m("form", { onsubmit: go },
        m("h2#dialog-title", title), text ? m("p", text) : null, body ? m(body) : null,
        words ? [m("p.label", "This command is started:"), m(Command, { words })] : null,
        dialog.error ? m(Problem, { error: dialog.error }) : null,
        m(".buttons",
          m("button", { type: "button", onclick: (event) => event.target.closest("dialog").close() }, "Cancel"),
          m("button.main", { class: danger ? "danger" : "", disabled: dialog.busy }, button))));
  },
};

// Starts one of the commands that the server knows, and gives its number.
export function startCommand(body) { return post("/api/command", body); }
