// Draws curves on a canvas: axes, lines, and where a curve has no finite value.
import { figure } from "./format.js";

export const margin = { left: 56, right: 12, top: 10, bottom: 26 };

const mostTicks = 50;

// Values that are nearer to each other have too few numbers between them for an axis.
export const leastSpan = (low, high) => Math.max(8 * Number.EPSILON * Math.max(Math.abs(low), Math.abs(high)), 1e-300);

// Steps of 1, 2 or 5 times a power of ten, and of at least `least`.
export function ticks(low, high, most, least = 0) {
  const span = high - low;
  if (!(span > leastSpan(low, high)) || !Number.isFinite(span)) return [low];
  const raw = Math.max(span / most, least);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw);
  const list = [];
  for (let number = Math.ceil(low / step); number * step <= high + step * 1e-9 && list.length < mostTicks; ++number) list.push(number * step || 0);
  return list;
}

function logTicks(low, high) {
  const list = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); ++power) if (power >= low && power <= high) list.push(power);
  return list.length >= 2 ? list : ticks(low, high, 4);
}

// Texts of neighbouring ticks that tell them apart: the first of those that are equal, or with more digits.
export function tickTexts(values, text) {
  const texts = values.map((value) => text(value));
  return texts.map((one, at) => (at > 0 && one === texts[at - 1] ? "" : one));
}

const mostLetters = 8; // for which there is room

// As figures, with as many digits as are needed to tell them apart.
export function figureTexts(values) {
  for (let digits = 4; digits < 8; ++digits) {
    const texts = values.map((value) => figure(value, digits));
    if (texts.some((text) => text.length > mostLetters)) break;
    if (new Set(texts).size === texts.length) return texts;
  }
  return tickTexts(values, figure);
}

// Where a value is on the axis that goes up: itself, or its logarithm.
export function height(y, isLog) {
  if (y === null || !Number.isFinite(y)) return null;
  if (!isLog) return y;
  return y > 0 ? Math.log10(y) : null;
}

// The least and the greatest of what is shown.
export function extent(lines, from, to, isLog) {
  let low = Infinity;
  let high = -Infinity;
  for (const { raw } of lines) {
    for (let i = 0; i < raw.x.length; ++i) {
      if (raw.x[i] < from || raw.x[i] > to) continue;
      const y = height(raw.y[i], isLog);
      if (y === null) continue;
      if (y < low) low = y;
      if (y > high) high = y;
    }
  }
  if (low > high) return [0, 1];
  // Curves are sent as float32, whose last digits are no change.
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (high - low <= size * 1e-6) { const pad = size * 0.1 || 1; return [low - pad, high + pad]; }
  const pad = (high - low) * 0.06;
  return [low >= 0 && !isLog ? Math.max(0, low - pad) : low - pad, high + pad];
}

function drawLine(context, points, place, isLog) {
  context.beginPath();
  let isDown = false;
  for (let i = 0; i < points.x.length; ++i) {
    const y = height(points.y[i], isLog);
    if (y === null) { isDown = false; continue; }
    const at = place(points.x[i], y);
    if (isDown) context.lineTo(at[0], at[1]);
    else context.moveTo(at[0], at[1]);
    isDown = true;
  }
  context.stroke();
}

// What marks a point is drawn whole where its middle is in the window, also at the edge of the plot.
const isInside = (x, { from, to }) => x >= from && x <= to;

function drawDots(context, points, place, plot, radius) {
  for (let i = 0; i < points.x.length; ++i) {
    const y = height(points.y[i], plot.isLog);
    if (y === null || !isInside(points.x[i], plot)) continue;
    const [px, py] = place(points.x[i], y);
    context.beginPath();
    context.arc(px, py, radius, 0, 7);
    context.fill();
  }
}

// A cross at the top where a value is not finite.
function drawGaps(context, points, place, plot, top) {
  for (let i = 0; i < points.x.length; ++i) {
    if (points.y[i] !== null || !isInside(points.x[i], plot)) continue;
    const [px] = place(points.x[i], 0);
    context.beginPath();
    context.moveTo(px - 3, top); context.lineTo(px + 3, top + 6);
    context.moveTo(px + 3, top); context.lineTo(px - 3, top + 6);
    context.stroke();
  }
}

// Returns {place, unplace, box} for what follows the pointer.
//   plot  {lines: [{raw, smooth, color, dash}], from, to, isLog, cursor, theme, xText, xLeast, yText}
//   xLeast  the least distance between ticks
export function drawPlot(canvas, plot) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const tall = canvas.clientHeight;
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(tall * scale)) canvas.height = Math.round(tall * scale);
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, tall);
  const box = { left: margin.left, top: margin.top, width: width - margin.left - margin.right, height: tall - margin.top - margin.bottom };
  const { from, to, isLog, theme } = plot;
  const span = to - from || 1;
  const [low, high] = extent(plot.lines, from, to, isLog);
  const place = (x, y) => [box.left + ((x - from) / span) * box.width, box.top + (1 - (y - low) / (high - low)) * box.height];
  const unplace = (px) => from + ((px - box.left) / box.width) * span;

  context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
  context.lineWidth = 1;
  context.strokeStyle = theme.grid;
  context.fillStyle = theme.soft;
  context.textAlign = "right";
  context.textBaseline = "middle";
  const rows = isLog ? logTicks(low, high) : ticks(low, high, 5);
  const heights = rows.map((value) => (isLog ? 10 ** value : value));
  const texts = plot.yText ? tickTexts(heights, plot.yText) : figureTexts(heights);
  for (const [at, value] of rows.entries()) {
    const y = Math.round(place(from, value)[1]) + 0.5;
    if (y < box.top - 1 || y > box.top + box.height + 1) continue;
    context.beginPath(); context.moveTo(box.left, y); context.lineTo(box.left + box.width, y); context.stroke();
    context.fillText(texts[at], box.left - 8, y);
  }
  context.textAlign = "center";
  context.textBaseline = "top";
  const columns = ticks(from, to, Math.max(3, Math.floor(box.width / 90)), plot.xLeast);
  for (const [at, text] of tickTexts(columns, plot.xText || ((x) => figure(x))).entries()) {
    const x = place(columns[at], low)[0];
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.max(half, Math.min(x, width - half)), box.top + box.height + 9);
  }
  context.save();
  context.lineJoin = "round";
  const drawClipped = (points) => {
    context.save();
    context.beginPath();
    context.rect(box.left, box.top - 2, box.width, box.height + 4);
    context.clip();
    drawLine(context, points, place, isLog);
    context.restore();
  };
  for (const line of plot.lines) {
    context.strokeStyle = context.fillStyle = line.color;
    context.setLineDash(line.dash || []);
    const isSmoothed = line.smooth && line.smooth.x.length > 0;
    context.globalAlpha = isSmoothed ? 0.32 : 1;
    context.lineWidth = isSmoothed ? 1.2 : 1.7;
    drawClipped(line.raw);
    const inside = line.raw.x.filter((x) => isInside(x, plot)).length;
    if (inside <= 40 && !isSmoothed) drawDots(context, line.raw, place, plot, 2.6);
    context.globalAlpha = 1;
    if (isSmoothed) {
      context.lineWidth = 2;
      drawClipped(line.smooth);
      if (inside === 1) drawDots(context, line.smooth, place, plot, 2.6); // a line of one point has no length
    }
    context.setLineDash([]);
    context.lineWidth = 1.5;
    context.strokeStyle = theme.bad;
    drawGaps(context, line.raw, place, plot, box.top);
  }
  context.restore();
  if (plot.cursor !== null && plot.cursor >= from && plot.cursor <= to) {
    const x = Math.round(place(plot.cursor, low)[0]) + 0.5;
    context.strokeStyle = theme.line2;
    context.beginPath(); context.moveTo(x, box.top); context.lineTo(x, box.top + box.height); context.stroke();
  }
  if (plot.drag) {
    const [a, b] = plot.drag.map((x) => place(x, low)[0]);
    context.fillStyle = theme.accent;
    context.globalAlpha = 0.12;
    context.fillRect(Math.min(a, b), box.top, Math.abs(b - a), box.height);
    context.globalAlpha = 1;
  }
  return { place, unplace, box };
}

// The point of a curve that is nearest on the axis below.
export function nearest(points, x) {
  let low = 0;
  let high = points.x.length - 1;
  if (high < 0) return null;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points.x[middle] < x) low = middle + 1;
    else high = middle;
  }
  if (low > 0 && Math.abs(points.x[low - 1] - x) <= Math.abs(points.x[low] - x)) --low;
  return { x: points.x[low], y: points.y[low] };
}
