"""Markdown of an agent as safe HTML: no HTML of its own, no links, no images, no invisible characters."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from seekpoint.console.render.output import clean

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


def markdown_html(text: str) -> str:
    """Return Markdown as HTML. Links, images and HTML stay as the text that they were written as.

    >>> markdown_html("**a** [b](javascript:c) <script>")
    '<p><strong>a</strong> [b](javascript:c) &lt;script&gt;</p>\\n'
    """
    html: str = _parser().render("\n".join(map(clean, text.split("\n"))))
    return html


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    plain = ["link", "image", "autolink", "reference", "html_inline", "html_block", "entity"]
    return MarkdownIt("commonmark", {"html": False, "maxNesting": 20}).disable(plain)
