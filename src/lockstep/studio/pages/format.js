// Figures and times as people read them.
export function isNumber(value) { return typeof value === "number" && Number.isFinite(value); }

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 }); // a new one for each number takes long

export function count(value) { return isNumber(value) ? grouped.format(Math.round(value)) : ""; }

// "1 image", "2 images", "2 classes".
export function counted(value, noun) { return `${count(value)} ${noun}${value === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`; }

// "1", "1 and 2", "1, 2 and 3".
export function inWords(values) { return values.length < 2 ? values.join() : `${values.slice(0, -1).join(", ")} and ${values[values.length - 1]}`; }

// What should be a list; logs of other programs may have anything there.
export function listOf(value) { return Array.isArray(value) ? value : []; }

// As a text, so that it is never taken for an element of the page.
export function textOf(value) { return typeof value === "object" && value !== null ? JSON.stringify(value) : value; }

// With the digits that the reports have: where two are equally near, as for 38.125, toFixed takes the greater one, and
// they have the even one.
export function percent(value) {
  if (!isNumber(value)) return "";
  const hundred = value * 100;
  const isBetween = Math.abs(hundred * 8) % 2 === 1;
  return `${(isBetween ? Math.round(hundred * 50) / 50 : hundred).toFixed(2)} %`;
}

// What write(value, digits) gives, but where two texts are equally near the one with the even digit, as the program has
// it. The digits after those that are written show whether that is so.
function evenly(value, write, between) {
  if (!between.test(write(value, 60))) return write(value, 0);
  return [1 - 2 ** -40, 1 + 2 ** -40].map((by) => write(value * by, 0)).find((text) => /^[^e]*[02468](e|$)/.test(text));
}

// The result of a trial, as the tables of the program have it (sweep::result_text).
export function resultText(value) {
  if (!isNumber(value)) return figure(value);
  const size = Math.abs(value);
  if (value === 0 || (size >= 0.01 && size < 1e5)) return evenly(value, (one, more) => one.toFixed(4 + more), /\.\d{4}50*$/);
  const [mantissa, exponent] = evenly(value, (one, more) => one.toExponential(3 + more), /\.\d{3}50*e/).split("e");
  const power = Number(exponent);
  if (power >= -4 && power < 0) return String(Number(`${mantissa}e${exponent}`));
  return `${Number(mantissa)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}

// The digits that matter.
export function figure(value, digits = 4) {
  if (!isNumber(value)) return value === null || value === undefined ? "" : "not finite";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(2).replace("e+", "e");
  if (size >= 1000) return grouped.format(Math.round(value));
  return String(Number(value.toPrecision(digits)));
}

export function duration(seconds) {
  if (!isNumber(seconds) || seconds < 0) return "";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  const two = (value) => String(value).padStart(2, "0");
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes}:${two(whole % 60)} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}:${two(minutes % 60)} h`;
  return `${Math.round(hours / 24)} days`;
}

export function age(time, now = Date.now() / 1000) {
  if (!isNumber(time)) return "";
  const seconds = Math.max(0, now - time);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} days ago`;
}

export function moment(time) {
  if (!isNumber(time)) return "";
  const date = new Date(time * 1000);
  const two = (value) => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
    `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export function bytes(value) {
  if (!isNumber(value)) return "";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) { value /= 1024; ++at; }
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

// As a shell would take it.
export function commandLine(words) {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
}

// The last part of a path or an address.
export function lastPart(path) { return (path || "").replace(/\/+$/, "").split("/").pop(); }

// A number of operations, in millions.
export function mega(flop) { return flop >= 1e8 ? count(flop / 1e6) : String(Number((flop / 1e6).toPrecision(3))); }
