// Places the layers of a drawing, from the input downwards, with dagre.
const size = { width: 172, height: 48 };
export const box = size;

export function place(graph) {
  const { dagre } = window;
  const sheet = new dagre.graphlib.Graph();
  sheet.setGraph({ rankdir: "TB", nodesep: 44, ranksep: 36 });
  sheet.setDefaultEdgeLabel(() => ({}));
  sheet.setNode("input", { ...size });
  for (const layer of graph.layers) sheet.setNode(`:${layer.name}`, { ...size });
  for (const layer of graph.layers) {
    for (const from of layer.inputs) sheet.setEdge(from === "input" ? from : `:${from}`, `:${layer.name}`);
  }
  dagre.layout(sheet);
  const origin = sheet.node("input");
  for (const layer of graph.layers) {
    const { x, y } = sheet.node(`:${layer.name}`);
    layer.x = Math.round(x - origin.x);
    layer.y = Math.round(y - origin.y);
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
export function routeOf(graph, name, from, layer) {
  const route = graph.routes?.get(`${name}\n${layer.name}`);
  const isThere = (a, b) => a.x === b.x && a.y === b.y;
  return route && isThere(route.from, from) && isThere(route.to, layer) ? route.points : [];
}
