// Keys that work on every page: the help, the search field, rows.
const help = document.getElementById("help");
document.getElementById("help-button").addEventListener("click", () => help.showModal());

function isTyping(target) {
  return target.closest("input:not([type=checkbox], [type=range]), textarea, select") !== null;
}

/** Rows that j and k walk through. A page with rows of its own registers an object with the same methods. */
const tableRows = {
  list: () => [...document.querySelectorAll("[data-row]")],
  move(step) {
    const rows = this.list();
    const at = rows.findIndex((row) => row.classList.contains("selected"));
    this.select(rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step))]);
  },
  end(step) { const rows = this.list(); this.select(rows[step > 0 ? rows.length - 1 : 0]); },
  select(row) {
    if (!row) return;
    for (const other of document.querySelectorAll("[data-row].selected")) other.classList.remove("selected");
    row.classList.add("selected");
    row.scrollIntoView({ block: "nearest" });
    row.querySelector("a, button")?.focus({ preventScroll: true });
  },
  open() { document.querySelector("[data-row].selected a")?.click(); },
};
let rows = tableRows;
const keys = new Map();

export function useRows(own) { rows = own; }
export function onKey(key, action) { keys.set(key, action); }

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (help.open && event.key !== "?") return;
  const action = {
    "?": () => (help.open ? help.close() : help.showModal()),
    "/": () => { const field = document.querySelector("[data-search]"); field?.focus(); field?.select(); },
    j: () => rows.move(1), k: () => rows.move(-1), g: () => rows.end(-1), G: () => rows.end(1),
    p: () => { location.href = "/processes"; },
    w: () => { location.href = "/waiting"; },
    a: () => document.querySelector('nav.tabs a[href^="/act"], #bulk')?.click(),
    Enter: event.target.closest("a, button, summary, [role=row]") ? null : () => rows.open(),
    ...Object.fromEntries(keys),
  }[event.key];
  if (action) { event.preventDefault(); action(); }
});
