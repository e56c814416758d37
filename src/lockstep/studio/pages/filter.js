// The filter of a table of trials, as lockstep sweep show --filter has it: COLUMN=VALUE, also with !=, <, >, <= and >=, or a
// text. All words must fit. Quotes hold words together.
import { figure, resultText } from "./format.js";
import { stateWords } from "./parts.js";

class Mistake extends Error {}

export const columns = (about) => ["trial", "state", "result", "steps", "time", ...about.parameters.map((one) => one.name)];

// What a column has for a trial.
export function valueOf(row, column) {
  if (column === "time") return row.seconds;
  if (["trial", "state", "result", "steps"].includes(column)) return row[column];
  return Object.hasOwn(row.parameters, column) ? row.parameters[column] : undefined;
}

// The number that is the whole text, as the program reads it: no "+" and no 0x1, but inf. Else null.
function numberOf(value) {
  if (typeof value === "number") return value;
  const text = String(value ?? "");
  if (/^-?inf(inity)?$/i.test(text)) return text.startsWith("-") ? -Infinity : Infinity;
  return /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) && Number.isFinite(Number(text)) ? Number(text) : null;
}

export const isFinite_ = (value) => value !== "" && value !== null && value !== undefined && Number.isFinite(Number(value));

// [{text: without its quotes, sign: place of the first =, < or > outside of quotes, or -1}]
function wordsOf(text) {
  const words = [{ text: "", sign: -1 }];
  let quote = "";
  for (const letter of text) {
    const word = words[words.length - 1];
    if (letter === quote) quote = "";
    else if (!quote && (letter === "\"" || letter === "'")) quote = letter;
    else if (!quote && /\s/.test(letter)) words.push({ text: "", sign: -1 });
    else {
      if (!quote && word.sign < 0 && "=<>".includes(letter)) word.sign = word.text.length;
      word.text += letter;
    }
  }
  if (quote) throw new Mistake("A quote in the filter has no end.");
  return words.filter((word) => word.text);
}

const contains = (text, part) => String(text ?? "").toLowerCase().includes(part.toLowerCase());
const hasNote = (row, text) => (text === "" ? !row.error && !row.note : contains(row.error, text) || contains(row.note, text));

// As a number, which may be written in another way and as the table shows it.
function isSameNumber(value, text) {
  const number = numberOf(value);
  return number !== null && (number === numberOf(text) || figure(number) === text);
}

// All that a column of words can have; nothing for the others.
function valuesOf(about, column) {
  if (column === "state") return ["waiting", "running", "ended", "early", "stopped", "failed"];
  return about.parameters.find((one) => one.name === column)?.choices || [];
}

// A misspelling would only show no trial.
function checkValue(values, column, text) {
  const isChoice = (value) => value === text || isSameNumber(value, text);
  if (text && values.length > 0 && !values.some(isChoice)) throw new Mistake(`The ${column} of a trial is never "${text}": it is ${values.join(", ")}.`);
}

// isExact: the text is one of the column's values, so 7 is not 007. Such values are texts, or numbers that all differ.
function isEqual(row, column, text, isExact) {
  if (column === "note") return hasNote(row, text);
  const value = valueOf(row, column);
  if (value === undefined || value === null) return text === "";
  if (isExact) return typeof value === "number" ? value === numberOf(text) : value === text;
  return String(value) === text || isSameNumber(value, text) || (column === "result" && resultText(value) === text);
}

// A function that says whether a row fits.
function test(about, { text: word, sign }) {
  const names = [...columns(about), "note"];
  if (sign < 0) {
    const found = /^([^=<>]*?)!?[=<>]/.exec(word); // in quotes only that of a condition as a whole, as in 'x=two words'
    if (!found || !names.includes(found[1])) {
      return (row) => hasNote(row, word) || contains(row.state, word) || contains(stateWords[row.state], word) || Object.values(row.parameters).some((value) => contains(value, word));
    }
  }
  const [, name, operator, text] = /^([^=<>]*?)(!=|<=|>=|[=<>])(.*)$/s.exec(word);
  const column = name === about.metric && !names.includes(name) ? "result" : name;
  if (!names.includes(column)) throw new Mistake(`There is no column "${name}": the columns are ${names.join(", ")}.`);
  if (operator === "=" || operator === "!=") {
    const values = valuesOf(about, column);
    checkValue(values, column, text);
    return (row) => isEqual(row, column, text, values.includes(text)) === (operator === "=");
  }
  const limit = numberOf(text);
  if (limit === null) throw new Mistake(`"${word}" compares with no number: write one behind the sign, as in result>0.9.`);
  const compare = { "<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b }[operator];
  return (row) => {
    const number = column === "note" ? null : numberOf(valueOf(row, column));
    return number !== null && compare(number, limit);
  };
}

// {fits(row), mistake}: a filter with a mistake lets all rows through.
export function filterOf(about, text) {
  try {
    const tests = wordsOf(text).map((word) => test(about, word));
    return { fits: (row) => tests.every((one) => one(row)), mistake: "" };
  } catch (error) {
    if (!(error instanceof Mistake)) throw error;
    return { fits: () => true, mistake: error.message };
  }
}
