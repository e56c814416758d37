// Which trials of a sweep are shown, and in which order.
import { filterOf, isFinite_, valueOf } from "./filter.js";
import { count } from "./format.js";
import { stateWords } from "./parts.js";

//   choice  {text, states, hidden, showsHidden, sort, down}
export function shownTrials(about, choice) {
  const { fits } = filterOf(about, choice.text);
  const rows = about.rows.filter((row) => (choice.showsHidden || !choice.hidden.has(row.trial)) &&
    (choice.states.size === 0 || choice.states.has(row.state)) && fits(row));
  const sign = choice.down ? -1 : 1;
  const places = new Map(about.rows.map((row, number) => [row.trial, about.places[number]]));
  // The best trial is the first or the last of those whose result counts. Those without such a one stay behind.
  const byResult = (a, b) => {
    const [[groupA, placeA], [groupB, placeB]] = [places.get(a.trial), places.get(b.trial)];
    return groupA - groupB || (choice.down === about.maximize ? 1 : -1) * (placeA - placeB);
  };
  return rows.sort((a, b) => {
    if (choice.sort === "result") return byResult(a, b);
    const [x, y] = [valueOf(a, choice.sort), valueOf(b, choice.sort)];
    const none = (value) => value === undefined || value === null || value === "";
    if (none(x) || none(y)) return none(x) - none(y) || a.trial - b.trial; // trials without a value are last
    const order = isFinite_(x) && isFinite_(y) ? Number(x) - Number(y) : String(x).localeCompare(String(y), "en", { numeric: true });
    return sign * order || a.trial - b.trial;
  });
}

// What a user does not want to see of a sweep, kept in this browser: numbers of trials ("hidden"), names of columns
// ("columns").
export function hiddenOf(sweep, what = "hidden") {
  try { return new Set(JSON.parse(localStorage.getItem(`${what} ${sweep}`)) || []); } catch { return new Set(); }
}

export function keepHidden(sweep, hidden, what = "hidden") {
  try {
    if (hidden.size > 0) localStorage.setItem(`${what} ${sweep}`, JSON.stringify([...hidden]));
    else localStorage.removeItem(`${what} ${sweep}`);
  } catch {
    // a browser that keeps nothing
  }
}

// "3 ended, 1 ended early", of {ended: 3, early: 1}.
export function statesText(states) {
  return Object.entries(states).map(([state, number]) => `${count(number)} ${(stateWords[state] || state).toLowerCase()}`).join(", ");
}

// Of a sweep, as the list and its page have it: the state whose colour fits, and a word.
export function stateOf(sweep) {
  if (sweep.error) return { text: "Unreadable" };
  if (sweep.going_on) return { state: "running", text: "Goes on" };
  const isComplete = !sweep.states.waiting && !sweep.states.running && sweep.trials >= sweep.count;
  return isComplete ? { state: "ended", text: "Complete" } : { state: "stopped", text: "Stopped" };
}
