// What grows on a page of a process: its head, and on the last page of a list the newest rows.
import { follow } from "./live.js";

const head = document.getElementById("head");
const INTERVAL_MS = 700;
const RETRY_MS = 3000;
const listeners = [];
let seen = null;
let isAsking = false;

/** Call `listener(progress)` whenever more of the history was read or something was appended. */
export function onHistory(listener) { listeners.push(listener); }

function parsed(html) {
  const box = document.createElement("template");
  box.innerHTML = html; // the server's own HTML, in which every text is escaped
  return box.content;
}

/** Put the rows of a fresh page into the list. Rows that did not change stay, with what is open below them. */
function putRows(list, fresh) {
  const old = new Map([...list.children].filter((row) => row.dataset.row).map((row) => [row.dataset.row, row]));
  const isAtEnd = list.closest(".scroller").scrollHeight - list.closest(".scroller").scrollTop - list.closest(".scroller").clientHeight < 40;
  const next = [];
  for (const row of [...fresh.children]) {
    const before = old.get(row.dataset.row);
    const isSame = before && before.dataset.html === row.innerHTML;
    row.dataset.html = row.innerHTML;
    if (!isSame && before?.classList.contains("selected")) row.classList.add("selected");
    const shown = isSame ? before : row;
    next.push(shown);
    const detail = before?.nextElementSibling;
    if (detail?.classList.contains("detail")) next.push(detail);
  }
  const focused = document.activeElement?.closest?.("[data-row]")?.dataset.row;
  list.replaceChildren(...next);
  if (focused !== undefined && !list.contains(document.activeElement)) {
    next.find((row) => row.dataset.row === focused)?.querySelector("a")?.focus({ preventScroll: true });
  }
  if (isAtEnd && list.closest("[data-newest]")) list.closest(".scroller").scrollTop = list.closest(".scroller").scrollHeight;
}

async function refresh() {
  const part = document.getElementById("grows");
  if (!part || isAsking) return;
  isAsking = true;
  let wait = INTERVAL_MS;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok) throw new Error(answer.statusText);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html"); // its scripts never run
    const fresh = page.getElementById("grows");
    putRows(part.querySelector("[data-rows]"), document.adoptNode(fresh.querySelector("[data-rows]")));
    const line = page.getElementById("line");
    if (line && line.innerHTML !== document.getElementById("line").innerHTML) document.getElementById("line").replaceWith(document.adoptNode(line));
    Object.assign(part.dataset, fresh.dataset);
  } catch { // the header says that the console does not answer
    seen.isLate = true;
    wait = RETRY_MS;
  } finally {
    setTimeout(() => { isAsking = false; if (seen?.isLate) { seen.isLate = false; refresh(); } }, wait);
  }
}

function take(progress) {
  const problem = document.getElementById("history-problem");
  if (problem) { problem.textContent = progress.problem ?? ""; problem.hidden = progress.problem === null; }
  if (progress.head && head.innerHTML !== progress.head) head.replaceChildren(parsed(progress.head));
  const part = document.getElementById("grows");
  const isRead = progress.is_complete && part?.dataset.complete !== "true";
  const isNew = seen === null ? Number(part?.dataset.entries) !== progress.entries || !progress.is_complete : seen.entries !== progress.entries || seen.is_complete !== progress.is_complete;
  seen = { ...progress, isLate: seen?.isLate ?? false };
  if (part && (isRead || (isNew && part.dataset.last === "true"))) {
    if (isAsking) seen.isLate = true; else refresh();
  }
  for (const listener of listeners) listener(progress);
}

for (const row of document.querySelectorAll("#grows [data-rows] > [data-row]")) row.dataset.html = row.innerHTML;
if (head?.dataset.follow) follow(head.dataset.follow, { history: take });
