// Places the boxes of a drawing, from the input downwards, with dagre.
import { picture } from "./groups.js";

const size = { width: 172, height: 48 };
export const box = size;

export function place(graph) {
  const { dagre } = window;
  const { boxes, links } = picture(graph);
  const sheet = new dagre.graphlib.Graph();
  sheet.setGraph({ rankdir: "TB", nodesep: 44, ranksep: 36 });
  sheet.setDefaultEdgeLabel(() => ({}));
  const nodeOf = (key) => (key === "input" ? key : `:${key}`);
  sheet.setNode("input", { ...size });
  for (const { key } of boxes) sheet.setNode(nodeOf(key), { ...size });
  for (const { from, to } of links) sheet.setEdge(nodeOf(from), nodeOf(to));
  dagre.layout(sheet);
  const origin = sheet.node("input");
  for (const one of boxes) {
    const point = pointOf(sheet.node(nodeOf(one.key)), origin);
    if (one.group === undefined) Object.assign(one.layer, point);
    else (graph.drawing.places ||= {})[one.group] = point;
  }
  graph.routes = new Map();
  for (const edge of sheet.edges()) {
    const { points } = sheet.edge(edge);
    const from = edge.v === "input" ? "input" : edge.v.slice(1);
    graph.routes.set(`${from}\n${edge.w.slice(1)}`, {
      from: pointOf(sheet.node(edge.v), origin), to: pointOf(sheet.node(edge.w), origin),
      points: points.slice(1, -1).map(({ x, y }) => ({ x: x - origin.x, y: y - origin.y })),
    });
  }
}

function pointOf({ x, y }, origin) { return { x: Math.round(x - origin.x), y: Math.round(y - origin.y) }; }

// The points between two boxes around others, as long as both are where they were placed.
export function routeOf(graph, from, to) {
  const route = graph.routes?.get(`${from.key}\n${to.key}`);
  const isThere = (a, b) => a.x === b.x && a.y === b.y;
  return route && isThere(route.from, from) && isThere(route.to, to) ? route.points : [];
}
