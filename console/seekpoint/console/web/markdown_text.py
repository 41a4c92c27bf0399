"""Markdown of an agent as safe HTML: no HTML of its own, no links, no images, no invisible characters."""

from __future__ import annotations

import time
from functools import cache
from html import escape
from typing import TYPE_CHECKING

from seekpoint.console.render.output import clean

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_PAGE_S = 0.4
_CHARS_MAX = 10_000


class MarkdownPage:
    """Renders the texts of one page in a thread. Long texts, and all after 0.4 s of processor time, stay as written.

    A list item of three characters costs 0.2 ms, and the parser cannot be stopped.
    """

    def __init__(self) -> None:
        self._ends_at = time.thread_time() + _PAGE_S

    def html(self, text: str) -> str:
        """Return a text as HTML: its Markdown, or itself."""
        if len(text) <= _CHARS_MAX and time.thread_time() < self._ends_at:
            return markdown_html(text)
        return f"<pre>{escape(_shown(text))}</pre>"


def markdown_html(text: str) -> str:
    """Return Markdown as HTML. Links, images and HTML stay as the text that they were written as.

    >>> markdown_html("**a** [b](javascript:c) <script>")
    '<p><strong>a</strong> [b](javascript:c) &lt;script&gt;</p>\\n'
    """
    html: str = _parser().render(_shown(text))
    return html


def _shown(text: str) -> str:
    return "\n".join(map(clean, text.split("\n")))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    plain = ["link", "image", "autolink", "reference", "html_inline", "html_block", "entity"]
    return MarkdownIt("commonmark", {"html": False, "maxNesting": 20}).disable(plain)
