"""The scripts and styles of the pages, held in memory. Their address contains a hash, so browsers keep them."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class StaticBundle:
    """Serves the files of ``static/`` under ``/static/HASH/``."""

    def __init__(self) -> None:
        folder = Path(__file__).parent / "static"
        self._files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in _TYPES}
        self.hash = sha256(b"".join(self._files.values())).hexdigest()[:16]

    def address(self, name: str) -> str:
        """Return the address of a file. Raises ``KeyError`` if there is none with this name."""
        if name not in self._files:
            raise KeyError(name)
        return f"/static/{self.hash}/{name}"

    async def serve(self, request: Request) -> Response:
        """Answer a request. An address of another version is answered too, but not kept."""
        content = self._files.get(request.path_params["name"])
        if content is None:
            return PlainTextResponse("no such file\n", 404)
        is_current = request.path_params["version"] == self.hash
        kept = "public, max-age=31536000, immutable" if is_current else "no-store"
        suffix = Path(request.path_params["name"]).suffix
        return Response(content, media_type=_TYPES[suffix], headers={"cache-control": kept})
