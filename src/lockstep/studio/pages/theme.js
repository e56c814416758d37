// Light or dark: as the system has it, or as the user chose.
const listeners = new Set();
const system = window.matchMedia("(prefers-color-scheme: dark)");

function chosen() {
  try { return localStorage.getItem("theme"); } catch { return null; }
}

function apply() {
  document.documentElement.dataset.theme = theme.isDark() ? "dark" : "light";
  for (const take of listeners) take();
}

export const theme = {
  isDark() { const wanted = chosen(); return wanted ? wanted === "dark" : system.matches; },
  toggle() {
    const wanted = theme.isDark() ? "light" : "dark";
    try { localStorage.setItem("theme", wanted); } catch { /* then for this page only */ }
    apply();
  },
  // The colours of the style sheet, for canvases.
  colors() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    return { grid: read("--grid"), soft: read("--soft"), line2: read("--line-2"), accent: read("--accent"), bad: read("--bad"),
      face: read("--face"), face2: read("--face-2"), line: read("--line"), text: read("--text"), warn: read("--warn") };
  },
  listen(take) { listeners.add(take); return () => listeners.delete(take); },
};

system.addEventListener("change", apply);
apply();
