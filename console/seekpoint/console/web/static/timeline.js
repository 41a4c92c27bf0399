// The timeline: only the rows in view exist, and windows of rows come from the API as somebody scrolls to them.
import { onKey, useRows } from "./keys.js";
import { onHistory } from "./tail.js";
import { makeScale, spanText, ticks, timeText } from "./timeline_scale.js";

const ROW_PX = 24;
const WINDOW = 200;
const WINDOWS_MAX = 30;
const BAR_PX_MIN = 3;
const RETRY_MS = 3000;
const frame = document.getElementById("timeline");
const scroller = document.getElementById("scroller");
const space = document.getElementById("rows");
const behind = document.getElementById("behind");
const axis = document.getElementById("ticks");
const line = document.getElementById("rows-line");
const fit = document.getElementById("fit");
const id = encodeURIComponent(frame.dataset.id);
const windows = new Map(); // number of the window → its answer
const asked = new Set(); // windows that are on their way
const stale = new Set(); // windows that are shown, but may have changed
let whole; // the newest answer: total, start_us, end_us
let selected = -1;
let isWhole = false;
let wholeBehind = { bands: [], gaps: [] };
let again; // the timer after a request that failed: nothing is asked before

/** Text of agents: what cannot be seen, or turns the direction, becomes an escape. */
function clean(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\u2028\u2029]/gu, (sign) => `\\u${sign.codePointAt(0).toString(16).padStart(4, "0")}`);
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// --- rows from the API ---------------------------------------------------------------------------------------------
async function ask(number) {
  asked.add(number);
  stale.delete(number);
  try {
    const answer = await fetch(`/api/timeline?id=${id}&first=${number * WINDOW}&limit=${WINDOW}&partial=true`);
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error.message);
    if (whole && whole.total !== found.total) for (const key of windows.keys()) if (key !== number) stale.add(key); // rows may have moved
    const isAtEnd = whole?.is_complete && scroller.scrollTop > 0 && scroller.scrollTop + scroller.clientHeight > scroller.scrollHeight - ROW_PX;
    whole = found;
    windows.delete(number);
    windows.set(number, found);
    if (windows.size > WINDOWS_MAX) windows.delete(windows.keys().next().value);
    line.textContent = `${found.total.toLocaleString("en")} rows${found.is_complete ? "" : " so far, reading…"}`;
    space.style.height = `${Math.max(1, found.total) * ROW_PX}px`;
    if (isAtEnd) scroller.scrollTop = scroller.scrollHeight;
    if (found.total === 0 && found.is_complete) line.textContent = "its code has made no calls";
  } catch (error) {
    stale.add(number);
    line.textContent = clean(error instanceof TypeError ? "the console does not answer, trying again…" : error.message);
    clearTimeout(again);
    again = setTimeout(() => { again = undefined; draw(); }, RETRY_MS);
    return;
  } finally {
    asked.delete(number);
  }
  draw();
}

let refreshAt = 0;
let later;
/** More was read, or appended: what is shown is asked for again, but not more often than twice a second. */
function refresh() {
  if (Date.now() < refreshAt) { later ??= setTimeout(() => { later = undefined; refresh(); }, refreshAt - Date.now()); return; }
  refreshAt = Date.now() + 500;
  for (const key of [...windows.keys(), ...asked]) stale.add(key);
  draw();
}
let read;
onHistory((progress) => {
  // The first event may come after what the first answer does not have yet.
  if (read?.entries !== progress.entries || read.is_complete !== progress.is_complete) refresh();
  read = progress;
});

function rowAt(number) { return windows.get(Math.floor(number / WINDOW))?.rows[number % WINDOW]; }

function inView() {
  const total = whole?.total ?? 0;
  const first = Math.max(0, Math.floor(scroller.scrollTop / ROW_PX));
  return [first, Math.min(total, Math.ceil((scroller.scrollTop + scroller.clientHeight) / ROW_PX))];
}

function askAround(first, last) {
  if (again !== undefined) return;
  const near = [Math.floor(first / WINDOW), Math.floor(Math.max(first, last - 1) / WINDOW)];
  const next = Math.floor((last + WINDOW / 2) / WINDOW);
  if (next * WINDOW < (whole?.total ?? 1)) near.push(next);
  for (const number of new Set(near)) if (!asked.has(number) && (stale.has(number) || !windows.has(number))) ask(number);
}

// --- the scale -----------------------------------------------------------------------------------------------------
const WAITS = new Set(["timer", "gate", "receive", "child"]);

/** Return the time of the rows in view. A wait counts with its beginning only: it may outlast thousands of calls. */
function timeOf(rows) {
  let [start, end] = [Infinity, -Infinity];
  for (const row of rows) {
    start = Math.min(start, row.bars[0].start_us);
    for (const bar of row.bars) end = Math.max(end, bar.start_us, WAITS.has(row.kind) ? 0 : (bar.end_us ?? 0));
  }
  return [start, Math.max(end, start + 1000)];
}

function behindOf(first, last, name) {
  if (isWhole) return wholeBehind[name];
  const found = new Map();
  for (let number = Math.floor(first / WINDOW); number * WINDOW < last; number += 1) {
    for (const one of windows.get(number)?.[name] ?? []) found.set(one.start_us, one);
  }
  return [...found.values()].sort((a, b) => a.start_us - b.start_us);
}

// --- drawing -------------------------------------------------------------------------------------------------------
function drawBehind(scale, bands) {
  const made = [];
  for (const band of bands) {
    if (band.start_us > scale.end || (band.end_us !== null && band.end_us < scale.start)) continue;
    const x = scale.at(Math.max(scale.start, band.start_us));
    const one = element("div", `band ${band.epoch % 2 ? "odd" : "even"}${band.start_us >= scale.start ? " seam" : ""}`);
    one.style.left = `${x}px`;
    one.style.width = `${Math.max(1, scale.at(Math.min(scale.end, band.end_us ?? scale.end)) - x)}px`;
    one.dataset.epoch = band.epoch;
    one.append(element("span", "", clean(`epoch ${band.epoch} · ${band.node_id}`)));
    made.push(one);
  }
  for (const piece of scale.pieces.filter((one) => one.isFold)) {
    const one = element("div", "folded");
    one.style.left = `${piece.x}px`;
    one.style.width = `${piece.w}px`;
    one.append(element("span", "", `${spanText(piece.end - piece.start)} idle`));
    made.push(one);
  }
  behind.replaceChildren(...made);
}

function drawAxis(scale) {
  const { step, found } = ticks(scale, 110);
  axis.replaceChildren(...found.map((tick) => {
    const one = element("span", "tick", timeText(tick.us, step));
    one.style.left = `${tick.x}px`;
    return one;
  }));
}

function barOf(bar, scale, width) {
  const one = element("i", `bar ${bar.what}`);
  const start = scale.at(bar.start_us);
  const end = bar.end_us === null ? width : scale.at(bar.end_us);
  const w = Math.max(BAR_PX_MIN, end - start);
  one.style.left = `${Math.max(0, Math.min(start, width - w))}px`;
  one.style.width = `${w}px`;
  if (bar.end_us === null) one.classList.add("goes-on");
  return one;
}

function took(row) {
  const last = row.bars.at(-1);
  if (row.call === null) return "";
  return last.end_us === null ? "under way" : spanText(last.end_us - (WAITS.has(row.kind) ? row.bars[0] : last).start_us);
}

function rowElement(number, row, scale, width) {
  const one = element("div", "row");
  one.setAttribute("role", "listitem");
  one.setAttribute("aria-setsize", whole.total);
  one.setAttribute("aria-posinset", number + 1);
  one.style.top = `${number * ROW_PX}px`;
  one.dataset.number = number;
  if (number === selected) one.classList.add("selected");
  if (!row) { one.append(element("span", "label muted", "…")); return one; }
  if (["failed", "stuck", "unknown", "fenced"].includes(row.status)) one.classList.add(row.status === "fenced" ? "is-fenced" : "is-failed");
  const label = element("span", "label");
  const depth = row.branch === "" ? 0 : row.branch.split("/").length;
  label.style.paddingLeft = `${8 + Math.min(depth, 6) * 14}px`;
  if (depth) label.append(element("span", "branch", clean(row.branch)));
  const link = element("a", "key");
  link.href = row.call === null ? `/entry?id=${id}&offset=${row.offset}` : `/call?id=${id}&number=${row.call}`;
  link.append(element("bdi", "", clean(row.branch === "" ? row.key : row.key.slice(row.key.lastIndexOf("/") + 1))));
  const words = [row.kind, row.status.replace("_", " "), row.note, row.attempts > 1 ? `${row.attempts} attempts` : "", took(row)];
  link.append(element("span", "sr", ` ${words.filter(Boolean).join(", ")}`));
  label.append(link, element("bdi", "summary", clean(row.summary)));
  one.title = `${words.filter(Boolean).join(", ")}\n${clean(row.summary)}`;
  const chart = element("span", "chart");
  chart.append(...row.bars.map((bar) => barOf(bar, scale, width)));
  one.append(label, chart);
  return one;
}

function draw() {
  const [first, last] = inView();
  askAround(first, last);
  if (!whole) return;
  const rows = [];
  for (let number = first; number < last; number += 1) if (rowAt(number)) rows.push(rowAt(number));
  if (rows.length === 0 && last > first) return; // what is shown stays until the window has come
  const width = behind.clientWidth - (scroller.offsetWidth - scroller.clientWidth);
  const [start, end] = isWhole || rows.length === 0 ? [whole.start_us, Math.max(whole.end_us, whole.start_us + 1000)] : timeOf(rows);
  const scale = makeScale(start, end, behindOf(first, last, "gaps"), width);
  drawBehind(scale, behindOf(first, last, "bands"));
  drawAxis(scale);
  const focused = space.contains(document.activeElement) ? document.activeElement.closest(".row").dataset.number : null;
  space.setAttribute("role", last > first ? "list" : "presentation");
  space.replaceChildren(...Array.from({ length: last - first }, (_, at) => rowElement(first + at, rowAt(first + at), scale, width)));
  if (focused !== null) space.querySelector(`[data-number="${focused}"] a`)?.focus({ preventScroll: true });
}

let isPlanned = false;
function plan() {
  if (isPlanned) return;
  isPlanned = true;
  requestAnimationFrame(() => { isPlanned = false; draw(); });
}

// --- keys ----------------------------------------------------------------------------------------------------------
function select(number) {
  if (!whole?.total) return;
  selected = Math.max(0, Math.min(whole.total - 1, number));
  const top = selected * ROW_PX;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  if (top + ROW_PX > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + ROW_PX - scroller.clientHeight;
  draw();
  space.querySelector(".selected a")?.focus({ preventScroll: true });
}

useRows({
  move: (step) => select(selected < 0 ? inView()[0] : selected + step),
  end: (step) => select(step > 0 ? (whole?.total ?? 1) - 1 : 0),
  open: () => space.querySelector(".selected a")?.click(),
});

async function toggleFit() {
  if (!isWhole) {
    try {
      const answer = await fetch(`/api/timeline?id=${id}&limit=1&whole=true`);
      if (!answer.ok) return;
      wholeBehind = await answer.json();
    } catch { return; } // the line above the rows says that the console does not answer
  }
  isWhole = !isWhole;
  fit.setAttribute("aria-pressed", String(isWhole));
  draw();
}
fit.addEventListener("click", toggleFit);
onKey("f", toggleFit);
space.addEventListener("click", (event) => {
  const row = event.target.closest(".row");
  if (row && !event.target.closest("a")) select(Number(row.dataset.number));
});
scroller.addEventListener("scroll", plan, { passive: true });
new ResizeObserver(plan).observe(frame);
draw();
