// The network that is being drawn: layers, connections, undo. Nothing here knows how it looks.

// Types that take any number of inputs.
export const joins = new Set(["add", "concatenate"]);

export function emptyDrawing() {
  return { name: "network", input: { channels: 1, height: 28, width: 28, classes: 10, time_steps: 0 }, layers: [] };
}

// A layer: {name, type, inputs: [names], options: {}, x, y}; x and y are the middle of its box.
export class Graph {
  constructor(drawing = emptyDrawing()) {
    this.drawing = drawing;
    this.past = [];
    this.future = [];
    this.version = 0;
  }

  get layers() { return this.drawing.layers; }

  find(name) { return this.drawing.layers.find((layer) => layer.name === name); }

  consumers(name) { return this.drawing.layers.filter((layer) => layer.inputs.includes(name)); }

  // The names of all layers that a layer's input comes through, and of all that its output goes to.
  before(name) { return this.reach(name, (one) => (this.find(one)?.inputs || []).filter((input) => input !== "input")); }
  after(name) { return this.reach(name, (one) => this.consumers(one).map((layer) => layer.name)); }

  reach(name, next) {
    const found = new Set();
    const open = [name];
    while (open.length > 0) {
      for (const one of next(open.pop())) if (!found.has(one)) { found.add(one); open.push(one); }
    }
    found.delete(name);
    return [...found];
  }

  // Every change goes through here. Changes with the same word, one after the other, are undone as one.
  change(work, word = "") {
    const before = JSON.stringify(this.drawing);
    const result = work(this.drawing);
    if (JSON.stringify(this.drawing) === before) return result;
    const step = this.joint || word;
    if (!step || step !== this.word) this.past.push(before);
    if (this.past.length > 200) this.past.shift();
    this.word = step;
    this.future = [];
    ++this.version;
    return result;
  }

  // The changes of a piece of work are undone as one.
  together(work) {
    this.joint = Symbol("changes");
    try {
      return work();
    } finally {
      this.joint = null;
      this.word = "";
    }
  }

  undo() { this.move(this.past, this.future); }
  redo() { this.move(this.future, this.past); }

  move(from, to) {
    if (from.length === 0) return;
    to.push(JSON.stringify(this.drawing));
    this.drawing = JSON.parse(from.pop());
    this.word = "";
    ++this.version;
  }

  freeName(type) {
    for (let number = 1; ; ++number) {
      const name = `${type}_${number}`;
      if (!this.find(name)) return name;
    }
  }

  // After a layer, or "input", or unconnected. A layer after which others came goes between.
  add(type, { after = null, at = null, options = {} } = {}) {
    return this.change(() => {
      const name = this.freeName(type);
      const from = after === "input" ? null : this.find(after);
      const place = at || (from ? { x: from.x, y: from.y + 90 } : { x: 0, y: 90 });
      const layer = { name, type, inputs: after ? [after] : [], options, x: place.x, y: place.y };
      if (after) for (const other of this.consumers(after)) replace(other.inputs, after, name);
      const index = from ? this.layers.indexOf(from) + 1 : after === "input" ? 0 : this.layers.length;
      this.layers.splice(index, 0, layer);
      return layer;
    });
  }

  connect(from, to) {
    this.change(() => {
      const layer = this.find(to);
      if (!layer || from === to) return;
      if (!joins.has(layer.type)) layer.inputs = [from];
      else if (!layer.inputs.includes(from)) layer.inputs.push(from);
    });
  }

  disconnect(from, to) {
    this.change(() => {
      const layer = this.find(to);
      const at = layer ? layer.inputs.indexOf(from) : -1;
      if (at >= 0) layer.inputs.splice(at, 1);
    });
  }

  // What came after a removed layer takes its input, if it had one.
  remove(names) {
    this.change((drawing) => {
      for (const name of names) {
        const layer = this.find(name);
        if (!layer) continue;
        for (const other of this.consumers(name)) {
          if (layer.inputs.length === 1 && !other.inputs.includes(layer.inputs[0])) replace(other.inputs, name, layer.inputs[0]);
          else other.inputs = other.inputs.filter((one) => one !== name);
        }
        drawing.layers = drawing.layers.filter((one) => one !== layer);
      }
    });
  }

  rename(from, to) {
    if (!to || from === to || to === "input" || this.find(to)) return false;
    this.change(() => {
      this.find(from).name = to;
      for (const layer of this.layers) replace(layer.inputs, from, to);
    });
    return true;
  }

  isFolded(group) { return (this.drawing.folded || []).includes(group); }

  fold(group, isFolded) {
    this.change((drawing) => {
      drawing.folded = (drawing.folded || []).filter((one) => one !== group);
      if (isFolded) drawing.folded.push(group);
    });
  }

  freeGroup() {
    for (let number = 1; ; ++number) if (!this.layers.some((layer) => layer.name.startsWith(`group_${number}.`))) return `group_${number}`;
  }

  // Gives layers other names, all at once. names: old -> new. Returns the new ones, or null if one is taken.
  renameAll(names) {
    const kept = new Set(this.layers.map((layer) => layer.name).filter((name) => !names.has(name)));
    const made = [...names.values()];
    if (new Set(made).size < made.length || made.some((name) => kept.has(name) || name === "input" || /^\.|\.\.|\.$/.test(name))) return null;
    const called = (name) => names.get(name) ?? name;
    this.change(() => {
      for (const layer of this.layers) Object.assign(layer, { name: called(layer.name), inputs: layer.inputs.map(called) });
    });
    return made;
  }

  group(names, group) { return this.renameAll(new Map(names.map((name) => [name, `${group}.${name}`]))); }

  // "" for no group.
  renameGroup(group, to) {
    const old = this.layers.map((layer) => layer.name).filter((name) => name.startsWith(`${group}.`));
    return this.together(() => {
      const made = this.renameAll(new Map(old.map((name) => [name, to ? `${to}${name.slice(group.length)}` : name.slice(group.length + 1)])));
      if (made && to) this.change((drawing) => renameBox(drawing, group, to));
      return made;
    });
  }

  setOption(name, option, value) {
    this.change(() => {
      const { options } = this.find(name);
      if (value === undefined) delete options[option];
      else options[option] = value;
    }, `${name}.${option}`);
  }

  // Copies with their connections to each other, and to what was copied with them. Returns the new names.
  paste(copied) {
    return this.change(() => {
      const names = new Map();
      for (const layer of copied) {
        const name = this.freeName(layer.type);
        names.set(layer.name, name);
        this.layers.push({ ...structuredClone(layer), name, inputs: [], x: layer.x + 190, y: layer.y });
      }
      for (const layer of copied) this.find(names.get(layer.name)).inputs = layer.inputs.filter((one) => names.has(one)).map((one) => names.get(one));
      return [...names.values()];
    });
  }

  // A fix that the server proposes.
  apply(edits) {
    this.change(() => {
      for (const edit of edits) {
        if (edit.insert) this.insertBefore(edit);
        if (edit.append) this.append(edit.append);
        if (edit.set) this.find(edit.of).options[edit.set] = simple(edit.to);
        if (edit.remove) this.layers.splice(this.layers.indexOf(this.find(edit.remove)), 1);
      }
    });
  }

  insertBefore({ insert, before, input }) {
    const { type, ...options } = insert;
    const layer = this.find(before);
    const name = this.freeName(type);
    const made = { name, type, inputs: [layer.inputs[input]], options, x: layer.x, y: layer.y - 45 };
    layer.inputs[input] = name;
    this.layers.splice(this.layers.indexOf(layer), 0, made);
  }

  append({ type, ...options }) {
    const last = this.layers.filter((layer) => this.consumers(layer.name).length === 0).pop();
    this.layers.push({ name: this.freeName(type), type, inputs: last ? [last.name] : ["input"], options, x: last?.x || 0, y: (last?.y || 0) + 90 });
  }

  // As the server checks it.
  forServer() {
    return { input: this.drawing.input, layers: this.layers.map((layer) => ({ name: layer.name, type: layer.type, inputs: layer.inputs, ...layer.options })) };
  }

  // What commands about a network that was not trained must be told of its input.
  inputOptions() {
    const { channels, height, width, classes, time_steps: steps } = this.drawing.input;
    return { classes: String(classes), ...(steps > 0 ? { sequence: `${channels}x${steps}` } : { "image-size": `${height}x${width}`, color: channels === 1 ? "grey" : "rgb" }) };
  }

  // As a file of a network.
  asFile() { return { name: this.drawing.name, layers: this.forServer().layers }; }
}

function replace(list, from, to) {
  const at = list.indexOf(from);
  if (at >= 0) list[at] = to;
}

// A folded group stays folded, and its box where it is.
function renameBox(drawing, from, to) {
  if (drawing.folded) drawing.folded = drawing.folded.map((one) => (one === from ? to : one));
  if (drawing.places?.[from]) drawing.places[to] = drawing.places[from];
}

function simple(value) { return Array.isArray(value) && value.length === 1 ? value[0] : value; }

// Of what the server gives: layers with their options beside their names.
export function drawingOf({ name, layers, input }, fallback) {
  return {
    name: name || "network", input: { ...fallback, ...(input || {}) }, folded: [], places: {},
    layers: layers.map(({ name: own, type, inputs, ...options }) => ({ name: own, type, inputs,
      options: Object.fromEntries(Object.entries(options).map(([key, value]) => [key, simple(value)])), x: 0, y: 0 })),
  };
}
