// Forms that change something: the first sending shows the dry run, the second carries it out.
const csrf = document.querySelector('meta[name="csrf-token"]').content;

async function send(address, body) {
  const headers = { "content-type": "application/json", "x-csrf-token": csrf };
  try {
    const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(body) });
    return await answer.json();
  } catch {
    return { error: { code: "NoAnswer", message: "the console gave no answer; nobody knows whether it acted", advice: "look at the process, then try again", facts: {} } };
  }
}

function bodyOf(form) {
  const body = {};
  for (const field of form.elements) {
    if (!field.name || field.value === "" || (field.type === "checkbox" && !field.checked)) continue;
    const value = field.type === "checkbox" ? true : "number" in field.dataset ? Number(field.value) : field.value;
    if ("lines" in field.dataset) body[field.name] = value.split("\n").map((line) => line.trim()).filter((line) => line !== "");
    else if ("list" in field.dataset) (body[field.name] ??= []).push(value);
    else body[field.name] = value;
  }
  return body;
}

function make(tag, text, className) {
  const found = document.createElement(tag);
  if (className) found.className = className;
  if (text !== undefined) found.textContent = text;
  return found;
}

/** Text of the journal, isolated so that its direction does not change what is around it. */
function isolated(tag, text, className) {
  const found = make(tag, undefined, className);
  found.append(make("bdi", visible(text)));
  return found;
}

function visible(text) {
  return String(text).replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function panelOf(form) {
  if (form.nextElementSibling?.classList.contains("plan")) return form.nextElementSibling;
  const panel = make("section", undefined, "plan");
  panel.tabIndex = -1;
  form.insertAdjacentElement("afterend", panel); // a field may be called after
  return panel;
}

function showError(panel, error) {
  const alert = make("div", undefined, "failure");
  alert.setAttribute("role", "alert");
  alert.append(isolated("p", error.message));
  if (error.advice) alert.append(isolated("p", error.advice));
  for (const [name, value] of Object.entries(error.facts ?? {})) alert.append(isolated("p", `${name}: ${value}`, "muted"));
  panel.setAttribute("aria-label", "It was refused");
  panel.replaceChildren(alert);
  panel.focus();
}

function showOutcome(panel, outcome) {
  const told = isolated("p", outcome.text, "done");
  told.setAttribute("role", "status");
  panel.setAttribute("aria-label", "Done");
  panel.replaceChildren(told);
  for (const { text, address } of outcome.links) {
    const link = make("a", text);
    link.href = address;
    panel.append(link, " ");
  }
  if (outcome.links.length > 0) panel.querySelector("a").focus();
  else panel.focus();
}

function showPlan(form, panel, address, body, planned) {
  const list = make("ul");
  for (const { kind, text } of planned.lines) list.append(isolated("li", text, kind));
  const doIt = make("button", "Do it", "primary");
  const back = make("button", "Back");
  doIt.type = back.type = "button";
  back.addEventListener("click", () => close(form, panel));
  doIt.addEventListener("click", async () => {
    doIt.disabled = back.disabled = true;
    const answer = await send(address, { ...body, plan_id: planned.plan_id });
    if (answer.error) { showError(panel, answer.error); return; }
    form.reset();
    showOutcome(panel, answer.outcome);
  });
  const note = make("p", "This is what would happen. Nothing was done yet.", "muted");
  panel.setAttribute("aria-label", "Dry run");
  panel.replaceChildren(isolated("h2", planned.title), note, list, doIt, " ", back);
  doIt.focus();
}

function close(form, panel) {
  panel.remove();
  form.querySelector("[name=reason]").focus();
}

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form.act");
  if (!form) return;
  event.preventDefault();
  const address = event.submitter?.dataset.act ?? form.dataset.act;
  const body = bodyOf(form);
  const panel = panelOf(form);
  panel.replaceChildren(make("p", "looking…", "muted"));
  const answer = await send(address, body);
  if (answer.error) showError(panel, answer.error);
  else showPlan(form, panel, address, body, answer.planned);
});

// A dry run is that of the fields as they were.
document.addEventListener("input", (event) => {
  const form = event.target.closest?.("form.act");
  if (form?.nextElementSibling?.classList.contains("plan")) form.nextElementSibling.remove();
});

document.addEventListener("keydown", (event) => {
  const panel = event.key === "Escape" ? event.target.closest?.(".plan") : null;
  if (panel) close(panel.previousElementSibling, panel);
});
