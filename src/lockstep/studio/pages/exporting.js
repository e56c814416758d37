// Exports a run or a drawn network, and gives the file that was written.
import { openCommandForm } from "./command_form.js";
import { formOf } from "./fields.js";
import { Output } from "./output.js";
import { startCommand } from "./parts.js";

const m = window.m;
const usual = ["weights", "scores", "fold-batch-norm", "normalized-input"];

// What a page has exported last.
export class Export {
  constructor() { Object.assign(this, { number: 0, file: "", isWritten: false }); }

  //   of      {id: run} or {network, name: drawing}
  //   name    for the file
  //   values  options that the drawing has
  async open(of, name, values = {}) {
    openCommandForm({ title: `Export ${name}`, button: "Export", command: "export", extra: of, form: await formOf("export"), usual, values: { ...values },
      word: { label: "file", value: `${name.replace(/[^\w.-]+/g, "-").replace(/^[-.]+/, "") || "network"}.onnx`,
        help: "its end says what is written: .onnx, .safetensors (weights), .py or .cpp (code that builds the network), .json (layer graph)" },
      note: of.network ? "The file of the drawn network that the command names is saved when you press Export. Until then a copy of the command finds no such file." : "",
      start: async (body) => {
        const { number } = await startCommand(body);
        Object.assign(this, { number, file: body.word, isWritten: false });
      } });
  }

  view() {
    if (!this.number) return null;
    return m(".exported", m("div", [m(Output, { key: this.number, number: this.number, done: (status) => { this.isWritten = status === 0; } })]),
      this.isWritten ? m("p.notice", { role: "status" }, "Written: ", m("a", { href: `/api/exported?name=${encodeURIComponent(this.file)}`, download: this.file }, m("bdi", this.file))) : null);
  }
}
