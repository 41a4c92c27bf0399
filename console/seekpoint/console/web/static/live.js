// One stream of server-sent events, and a word in the header while it is interrupted.
const sign = document.getElementById("connection");

/** Call handlers[name](data) for each event. The browser connects again by itself; a closed stream is opened again. */
export function follow(address, handlers) {
  let source;
  let again;
  function say(text) { sign.textContent = text; sign.hidden = text === ""; }
  function connect() {
    source = new EventSource(address);
    source.onopen = () => say("");
    source.onerror = () => {
      say("not connected, trying again…");
      if (source.readyState === EventSource.CLOSED) { clearTimeout(again); again = setTimeout(connect, 2000); }
    };
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => handle(JSON.parse(event.data)));
    }
  }
  connect();
  addEventListener("pagehide", () => source.close());
  return { close: () => source.close() };
}
