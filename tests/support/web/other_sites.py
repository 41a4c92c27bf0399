"""A web site that is not the console: what it makes a browser do comes from another site."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["OtherSite", "other_site"]


class OtherSite:
    """A site with one page. ``asked`` are the requests that it got, such as those of a page that it should not hear of.

    Its name is ``localhost``, so that for a browser it has nothing to do with a console at 127.0.0.1.
    """

    def __init__(self) -> None:
        self.page = ""
        self.asked: list[str] = []
        self.url = ""


@contextmanager
def other_site() -> Iterator[OtherSite]:
    """Serve such a site until the block ends."""
    site = OtherSite()

    class Handler(BaseHTTPRequestHandler):
        timeout = 1.0  # a browser opens connections that it never uses

        def do_GET(self) -> None:
            site.asked.append(self.path)
            self._answer(200, site.page.encode())

        def do_POST(self) -> None:
            site.asked.append(self.path)
            self._answer(204, b"")

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    site.url = f"http://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="another site")
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
