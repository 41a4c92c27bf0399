// One stream of server-sent events, and a word in the header while it is interrupted.
const sign = document.getElementById("connection");

/** Load the page again if the session has ended: it then leads to the sign-in. */
async function signInAgain() {
  try {
    if ((await fetch("/api/me")).status === 401) location.reload();
  } catch { /* the console does not answer: the next connection tries */ }
}

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
      if (source.readyState === EventSource.CLOSED) { clearTimeout(again); again = setTimeout(connect, 2000); signInAgain(); }
    };
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => handle(JSON.parse(event.data)));
    }
  }
  connect();
  addEventListener("pagehide", () => source.close());
  return { close: () => source.close() };
}
