"""The pages of a health port, as a probe gets them."""

from __future__ import annotations

import urllib.error
import urllib.request

__all__ = ["get"]


def get(port: int, path: str) -> tuple[int, str]:
    """The code and the text of a page."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
