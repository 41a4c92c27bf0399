// The time machine: the slider asks for the page of another seq and shows its #moment. The address is the seq.
import { onKey } from "./keys.js";

const range = document.getElementById("range");
const number = document.getElementById("number");
const verdict = document.getElementById("verdict");
const toggled = new Map(); // path in the tree → whether somebody opened or closed it
let wanted = null; // the seq to show next
let isAsking = false;

/** Text of agents: what cannot be seen, or turns the direction, becomes an escape. */
function clean(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\u2028\u2029]/gu, (sign) => `\\u${sign.codePointAt(0).toString(16).padStart(4, "0")}`);
}

async function pageOf(address) {
  const answer = await fetch(address, { headers: { accept: "text/html" } });
  return new DOMParser().parseFromString(await answer.text(), "text/html"); // its scripts never run
}

// --- walking through the seqs --------------------------------------------------------------------------------------
function addressOf(seq) {
  const address = new URL(location.href);
  address.searchParams.set("seq", seq);
  return address;
}

async function show(seq) {
  wanted = seq;
  if (isAsking) return; // one request at a time: the newest wish comes next
  isAsking = true;
  const moment = document.getElementById("moment");
  moment.setAttribute("aria-busy", "true");
  while (wanted !== null) {
    const next = wanted;
    wanted = null;
    try {
      put(await pageOf(addressOf(next)), next);
    } catch {
      tell(document.getElementById("copied"), "the console does not answer; try again", true);
      wanted = null;
    }
  }
  isAsking = false;
  document.getElementById("moment").removeAttribute("aria-busy");
}

function put(page, seq) {
  const found = page.getElementById("moment");
  if (!found || "reading" in found.dataset) { // an error, or the console was restarted and reads again
    location.assign(addressOf(seq));
    return;
  }
  const old = document.getElementById("moment");
  const at = old.querySelector(".tree")?.scrollTop ?? 0;
  for (const one of found.querySelectorAll("details[data-path]")) {
    if (toggled.has(one.dataset.path)) one.open = toggled.get(one.dataset.path);
  }
  const fields = new Map([...old.querySelectorAll("input:not([type=hidden])")].map((one) => [one.name, one.value]));
  old.replaceWith(document.adoptNode(found));
  for (const one of found.querySelectorAll("input:not([type=hidden])")) one.value = fields.get(one.name) ?? one.value;
  found.querySelector(".tree").scrollTop = at;
  reveal(found.querySelector(".tree"));
  range.max = number.max = found.dataset.last;
  if (wanted === null) range.value = found.dataset.seq;
  if (wanted === null && document.activeElement !== number) number.value = found.dataset.seq;
  history.replaceState(null, "", addressOf(found.dataset.seq));
}

/** Scroll to the first change, unless one is in view. */
function reveal(tree) {
  const marked = [...tree.querySelectorAll("li.added, li.changed, li.removed")].filter((one) => one.checkVisibility());
  const room = tree.getBoundingClientRect();
  const isSeen = (one) => one.getBoundingClientRect().bottom > room.top && one.getBoundingClientRect().top < room.bottom;
  if (marked.length && !marked.some(isSeen)) {
    tree.scrollTop += marked[0].getBoundingClientRect().top - room.top - room.height / 3;
  }
}

function go(seq) {
  const next = Math.min(Number(range.max), Math.max(Number(range.min), seq));
  range.value = number.value = next;
  if (next === Number(document.getElementById("moment").dataset.seq) && !isAsking) return;
  show(next);
}

// --- the stored states beside the log ------------------------------------------------------------------------------
const WHERE = { view: "the view", checkpoint: "the newest checkpoint", console: "the console" };

function names(list) { return list.map((one) => WHERE[one.where]).join(", "); }

function told(found) {
  const whole = found.begins_at === "log" ? "a fold of the whole log" : "a fold from the newest checkpoint, because the log's beginning was deleted";
  const missing = Object.entries(found.missing).map(([where, why]) => `${WHERE[where]} was not compared: ${why}`);
  if (found.agrees) {
    const [one] = found.compared.slice(-1);
    return [`${names(found.compared)}: the same as ${whole}, up to seq ${one.seq.toLocaleString("en")}`, ...missing].join(" · ");
  }
  const wrong = found.compared.filter((one) => !one.agrees).map((one) => {
    const first = one.first_difference;
    if (!first) return `${WHERE[one.where]} differs from ${whole}`;
    const path = first.path.join(" › ");
    const left = first.what === "added" ? "nothing" : JSON.stringify(first.left);
    const right = first.what === "removed" ? "nothing" : JSON.stringify(first.right);
    return `${WHERE[one.where]} differs from ${whole} at ${path}: it has ${left}, the log says ${right}`;
  });
  return [...wrong, ...missing].join(" · ");
}

async function verify(button) {
  button.disabled = true;
  tell(verdict, "folding the log…", null);
  try {
    const answer = await fetch(`/api/verification?id=${encodeURIComponent(button.dataset.id)}`);
    const found = await answer.json();
    if (answer.ok) tell(verdict, told(found), !found.agrees);
    else tell(verdict, `${found.error.message}; ${found.error.advice}`, null);
  } catch {
    tell(verdict, "the console does not answer; try again", null);
  }
  button.disabled = false;
}

function tell(place, text, isBad) {
  const room = 1000;
  const shown = clean(text);
  place.textContent = shown.length > room ? `${shown.slice(0, room)}…` : shown;
  place.classList.toggle("good", isBad === false);
  place.classList.toggle("bad", isBad === true);
}

// --- copies --------------------------------------------------------------------------------------------------------
/** Put a text into the clipboard. A page that came over plain HTTP from another machine has the old way only. */
async function putAside(text) {
  if (navigator.clipboard) { await navigator.clipboard.writeText(text); return; }
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  if (!isDone) throw new Error("no clipboard");
}

async function copy(button) {
  const place = document.getElementById("copied");
  try {
    let text = document.getElementById("command").textContent;
    if (button.dataset.copy === "fixture") {
      const answer = await fetch(button.dataset.address);
      const found = await answer.json();
      if (!answer.ok) { tell(place, `${found.error.message}; ${found.error.advice}`, true); return; }
      text = found.text;
    }
    await putAside(text);
    tell(place, "copied", false);
  } catch {
    tell(place, "it could not be copied", true);
  }
}

// --- start ---------------------------------------------------------------------------------------------------------
async function wait() {
  while (true) {
    await new Promise((resolve) => setTimeout(resolve, 300));
    const page = await pageOf(location.href).catch(() => null);
    const found = page?.getElementById("moment");
    if (page && !(found && "reading" in found.dataset)) { location.reload(); return; }
  }
}

if (range) {
  reveal(document.querySelector(".tree"));
  range.addEventListener("input", () => go(Number(range.value)));
  number.addEventListener("change", () => { if (number.value !== "") go(Number(number.value)); });
  document.getElementById("scrubber").addEventListener("submit", (event) => { event.preventDefault(); go(Number(number.value)); });
  onKey("ArrowLeft", () => go(Number(range.value) - 1));
  onKey("ArrowRight", () => go(Number(range.value) + 1));
  document.getElementById("verify").addEventListener("click", (event) => verify(event.currentTarget));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
    const details = event.target.closest("summary")?.parentElement;
    if (details?.dataset.path) toggled.set(details.dataset.path, !details.open);
  });
} else {
  wait();
}
