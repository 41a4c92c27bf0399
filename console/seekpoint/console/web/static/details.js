// Rows whose link opens a page of its own: here the part #whole of that page is put below the row instead.

async function wholeOf(address) {
  const answer = await fetch(address, { headers: { accept: "text/html" } });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html"); // its scripts never run
  const found = page.getElementById("whole") ?? page.querySelector("main");
  found.removeAttribute("id");
  return document.adoptNode(found);
}

function fold(row) {
  if (!row.nextElementSibling?.classList.contains("detail")) return false;
  row.nextElementSibling.remove();
  row.querySelector("[data-whole]").setAttribute("aria-expanded", "false");
  return true;
}

async function toggle(link) {
  const row = link.closest("tr");
  if (fold(row)) return;
  const detail = document.createElement("tr");
  detail.className = "detail";
  const cell = detail.insertCell();
  cell.colSpan = row.cells.length;
  cell.textContent = "reading…";
  row.after(detail);
  link.setAttribute("aria-expanded", "true");
  try {
    cell.replaceChildren(await wholeOf(link.href));
  } catch {
    cell.textContent = "the console does not answer; try again";
  }
}

for (const link of document.querySelectorAll("[data-whole]")) link.setAttribute("aria-expanded", "false");
document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-whole]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  toggle(link);
});
