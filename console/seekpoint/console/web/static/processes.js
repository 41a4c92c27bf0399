// The live list of processes. The server renders rows; this replaces those that changed.
import { onKey } from "./keys.js";
import { follow } from "./live.js";

const table = document.getElementById("processes");
const body = document.getElementById("rows");

function parsed(html) {
  const box = document.createElement("template");
  box.innerHTML = html; // the server's own HTML, in which every text is escaped
  return box.content;
}

function replaceRows(html) {
  const old = new Map([...body.querySelectorAll("tr[data-row]")].map((row) => [row.dataset.row, row]));
  const next = [...parsed(html).querySelectorAll("tr")].map((row) => {
    const before = old.get(row.dataset.row);
    if (before && before.innerHTML === row.innerHTML) return before;
    if (before) {
      row.classList.toggle("selected", before.classList.contains("selected"));
      row.classList.add("fresh");
    }
    return row;
  });
  const focused = document.activeElement?.closest?.("tr[data-row]")?.dataset.row;
  body.replaceChildren(...next);
  if (focused !== undefined && !body.contains(document.activeElement)) {
    next.find((row) => row.dataset.row === focused)?.querySelector("a")?.focus({ preventScroll: true });
  }
}

follow(table.dataset.stream, {
  list(parts) {
    replaceRows(parts.rows);
    document.getElementById("counts").replaceChildren(parsed(parts.counts));
    const source = document.getElementById("source");
    if (source.innerHTML !== parts.source) source.replaceChildren(parsed(parts.source));
  },
});

// --- saved filters: in this browser only, the address is the filter -----------------------------------------------
const KEY = "seekpoint.filters";
const saved = document.getElementById("saved");

function filters() {
  try { return JSON.parse(localStorage.getItem(KEY)) ?? []; } catch { return []; }
}

function showFilters() {
  saved.hidden = filters().length === 0;
  saved.replaceChildren(...filters().map((one, index) => {
    const chip = document.createElement("span");
    chip.className = "chip";
    const link = document.createElement("a");
    link.href = "/processes" + one.query;
    link.textContent = one.name;
    const remove = document.createElement("button");
    remove.type = "button";
    remove.className = "plain";
    remove.textContent = "×";
    remove.setAttribute("aria-label", `remove the filter ${one.name}`);
    remove.addEventListener("click", () => { store(filters().filter((_, at) => at !== index)); });
    chip.append(link, remove);
    return chip;
  }));
}

function store(list) {
  localStorage.setItem(KEY, JSON.stringify(list));
  showFilters();
}

document.getElementById("save-filter").addEventListener("click", () => {
  const query = new URLSearchParams(location.search);
  query.delete("limit");
  query.delete("skip");
  const name = [...query].filter(([, value]) => value !== "").map(([key, value]) => `${key} ${value}`).join(", ") || "everything";
  store([...filters().filter((one) => one.name !== name), { name, query: `?${query}` }]);
});
showFilters();

onKey("]", () => document.querySelector("#source [rel=next]")?.click());
onKey("[", () => document.querySelector("#source [rel=prev]")?.click());

const form = document.getElementById("query");
form.addEventListener("change", () => form.requestSubmit());
form.addEventListener("submit", () => {
  for (const field of form.querySelectorAll("input:not([type=checkbox]), select")) field.disabled = field.value === "";
});
