// The filter of a table of trials, as lockstep sweep show --filter has it: COLUMN=VALUE, also with !=, <, >, <= and >=, or a
// text. All words must fit. Quotes hold words together.
import { figure, resultText } from "./format.js";
import { stateWords } from "./parts.js";

class Mistake extends Error {}

export const columns = (about) => ["trial", "state", "result", "steps", "time", ...about.parameters.map((one) => one.name)];

// What a column has for a trial.
export function valueOf(row, column) {
  if (column === "time") return row.seconds;
  return ["trial", "state", "result", "steps"].includes(column) ? row[column] : row.parameters[column];
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

// A misspelling would only show no trial.
function checkValue(about, column, text) {
  const states = ["waiting", "running", "ended", "early", "stopped", "failed"];
  const values = column === "state" ? states : about.parameters.find((one) => one.name === column)?.choices || [];
  const isChoice = (value) => value === text || (isFinite_(value) && isFinite_(text) && Number(value) === Number(text)) || figure(Number(value)) === text;
  if (text && values.length > 0 && !values.some(isChoice)) throw new Mistake(`The ${column} of a trial is never "${text}": it is ${values.join(", ")}.`);
}

function isEqual(row, column, text) {
  if (column === "note") return hasNote(row, text);
  const value = valueOf(row, column);
  if (value === undefined || value === null) return text === "";
  return String(value) === text || (isFinite_(value) && ((isFinite_(text) && Number(value) === Number(text)) || figure(Number(value)) === text)) ||
    (column === "result" && resultText(value) === text);
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
    checkValue(about, column, text);
    return (row) => isEqual(row, column, text) === (operator === "=");
  }
  if (!isFinite_(text)) throw new Mistake(`"${word}" compares with no number: write one behind the sign, as in result>0.9.`);
  const compare = { "<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b }[operator];
  return (row) => {
    const value = column === "note" ? "" : valueOf(row, column);
    return isFinite_(value) && compare(Number(value), Number(text));
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
