// The live pipeline. The server renders each part; this replaces those that changed.
import { follow } from "./live.js";

const shown = new Map();

function replace(place, html) {
  const box = document.createElement("template");
  box.innerHTML = html; // the server's own HTML, in which every text is escaped
  const text = box.innerHTML;
  if (shown.get(place) === text) return;
  shown.set(place, text);
  place.replaceChildren(box.content);
}

follow(document.querySelector("[data-stream]").dataset.stream, {
  pipeline(parts) {
    for (const [id, html] of Object.entries(parts)) replace(document.getElementById(id), html);
  },
});
