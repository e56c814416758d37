// Groups of layers: what stands before a dot in their names. A folded group is one box.
const m = window.m;

// "a.b.c" is in the groups "a" and "a.b".
function groupsAround(name) {
  const parts = name.split(".");
  return parts.slice(1).map((_, at) => parts.slice(0, at + 1).join("."));
}

// Name of each group of several layers -> its layers; a group is before those in it.
export function groupsOf(layers) {
  const groups = new Map();
  for (const layer of layers) {
    for (const group of groupsAround(layer.name)) {
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(layer);
    }
  }
  for (const [group, list] of groups) if (list.length < 2) groups.delete(group);
  return groups;
}

// The group that has just these layers; null if there is none. Of several, the innermost.
export function groupOf(graph, names) {
  const set = new Set(names);
  let found = null;
  for (const [group, list] of groupsOf(graph.layers)) if (list.length === set.size && list.every((layer) => set.has(layer.name))) found = group;
  return found;
}

// What is drawn: boxes, and the connections between them.
//   boxes  [{key, layers, layer or group, x, y}]; the key of a layer is its name, that of a folded group "NAME/"
//   links  [{from, to: keys, source: name of a layer or "input", target: layer, number: of the target's inputs}]
export function picture(graph) {
  const folded = new Set(graph.drawing.folded || []);
  const groups = folded.size > 0 ? groupsOf(graph.layers) : new Map();
  const boxes = new Map();
  const keyOf = new Map([["input", "input"]]);
  for (const layer of graph.layers) {
    const group = folded.size > 0 ? groupsAround(layer.name).find((one) => folded.has(one) && groups.has(one)) : undefined;
    const key = group === undefined ? layer.name : `${group}/`;
    keyOf.set(layer.name, key);
    if (boxes.has(key)) boxes.get(key).layers.push(layer);
    else if (group === undefined) boxes.set(key, { key, layer, layers: [layer], x: layer.x, y: layer.y });
    else boxes.set(key, { key, group, layers: [layer], ...(graph.drawing.places?.[group] || { x: layer.x, y: layer.y }) });
  }
  const links = [];
  const seen = new Set();
  for (const layer of graph.layers) {
    layer.inputs.forEach((source, number) => {
      const [from, to] = [keyOf.get(source), keyOf.get(layer.name)];
      const word = `${from}\n${to}`;
      if (from === undefined || from === to || (seen.has(word) && to.endsWith("/"))) return;
      seen.add(word);
      links.push({ from, to, source, target: layer, number });
    });
  }
  return { boxes: [...boxes.values()], links, keyOf };
}

// The layer of several whose output others take.
export function lastOf(graph, layers) {
  const inside = new Set(layers);
  const ends = layers.filter((layer) => { const users = graph.consumers(layer.name); return users.length === 0 || users.some((one) => !inside.has(one)); });
  return (ends[ends.length - 1] || layers[layers.length - 1]).name;
}

// Frames around the groups that are not folded: {group, left, right, top, bottom}.
export function framesOf(graph, { boxes }, size) {
  const drawn = new Map(boxes.map((box) => [box.key, box]));
  const frames = [];
  const groups = groupsOf(graph.layers);
  for (const [group, layers] of groups) {
    if (graph.isFolded(group)) continue;
    const inside = [...new Set(layers.map((layer) => drawn.get(layer.name) || boxes.find((box) => box.group && `${layer.name}.`.startsWith(`${box.group}.`))))].filter(Boolean);
    if (inside.length === 0 || inside.some((box) => box.group && !`${box.group}.`.startsWith(`${group}.`))) continue;
    const within = [...groups.keys()].filter((one) => one.startsWith(`${group}.`)).map((one) => one.split(".").length - group.split(".").length);
    const pad = 16 + 15 * Math.max(0, ...within);
    frames.push({ group, left: Math.min(...inside.map((box) => box.x)) - size.width / 2 - pad, right: Math.max(...inside.map((box) => box.x)) + size.width / 2 + pad,
      top: Math.min(...inside.map((box) => box.y)) - size.height / 2 - pad, bottom: Math.max(...inside.map((box) => box.y)) + size.height / 2 + pad });
  }
  return frames;
}

// For several selected layers. attrs: {designer}
export class GroupForm {
  constructor() { this.name = ""; }

  view({ attrs: { designer } }) {
    const { graph } = designer;
    const names = [...designer.selected];
    const group = groupOf(graph, names);
    if (group !== null) {
      const isFolded = graph.isFolded(group);
      return [m("h3", "Group"), m(".option", m("label", { for: "group-name" }, "name"), m("input", { id: "group-name", type: "text", value: group, disabled: designer.isTaken(names),
        onchange: (event) => { const made = graph.renameGroup(group, event.target.value.trim()); if (made) designer.select(made); else event.target.value = group; } })),
      m(".buttons-left", m("button", { type: "button", "aria-pressed": String(isFolded), onclick: () => designer.fold(group, !isFolded) }, isFolded ? "Unfold" : "Fold"),
        m("button", { type: "button", disabled: designer.isTaken(names), onclick: () => designer.select(graph.renameGroup(group, "")) }, "Ungroup"))];
    }
    const isTaken = designer.isTaken(names);
    const go = (event) => {
      event.preventDefault();
      const made = graph.group(names, this.name.trim() || graph.freeGroup());
      if (made) designer.select(made);
    };
    return m("form", { onsubmit: go }, m("h3", "Group"), m(".option", m("label", { for: "group-name" }, "name"), m("input", { id: "group-name", type: "text", value: this.name, placeholder: graph.freeGroup(), disabled: isTaken, autocomplete: "off",
      "aria-describedby": "group-name-help", oninput: (event) => { this.name = event.target.value; } }),
    m("small", { id: "group-name-help" }, isTaken ? "these layers have the names of their weights" : "the layers are then called NAME.LAYER, and --freeze NAME means all of them")),
    m(".buttons-left", m("button", { disabled: isTaken }, "Group")));
  }
}
