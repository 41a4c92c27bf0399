"""The pages that the project shows, taken apart: blocks of code, tables, links, command lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CONTINUED", "PAGES", "ROOT", "Block", "anchors", "blocks", "commands", "links", "page_name", "table"]

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
CONTINUED = ROOT / "docs" / "tutorial.md"
"""The page whose blocks use the names of the blocks before them. A block of any other page works alone."""


def page_name(page: Path) -> str:
    """Return the path of a page in the checkout, for the ids of tests."""
    return str(page.relative_to(ROOT))


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    """Of its first line of text, counted from 1."""
    language: str
    text: str

    @property
    def name(self) -> str:
        """Return the page and the line, for the ids of tests."""
        return f"{page_name(self.page)}:{self.line}"

    @property
    def needs_kafka(self) -> bool:
        """Whether it connects to one, or starts one."""
        return ".connect(" in self.text or "LocalCluster(" in self.text

    @property
    def expected(self) -> list[str]:
        """What it prints, line for line: the comments behind its prints."""
        return re.findall(r"^ *print\(.*\)  # (.+)$", self.text, re.MULTILINE)


def blocks(page: Path, language: str) -> list[Block]:
    """The blocks of one language, in order."""
    text = page.read_text()
    return [
        Block(page, text.count("\n", 0, match.start(1)) + 1, language, match[1])
        for match in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def links(page: Path) -> list[str]:
    """The targets of the page's links that stay in the checkout: ``path``, ``path#anchor`` or ``#anchor``."""
    found = re.findall(r"\]\(([^)\s]+)\)", _without_code(page.read_text()))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """What its headings are called in links, as GitHub makes it."""
    headings = re.findall(r"^#+ (.+)$", _without_code(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def table(page: Path, *header: str) -> list[list[str]]:
    """The cells of the table with this header. An empty first cell means the one above."""
    lines = page.read_text().splitlines()
    start = lines.index(f"| {' | '.join(header)} |") + 2
    rows: list[list[str]] = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        first, *others = [cell.strip() for cell in line.strip("|").split(" | ")]
        rows.append([first or rows[-1][0], *others])
    return rows


def commands(page: Path) -> Iterator[str]:
    """Every ``seekpoint ...`` that the page shows: at a prompt, in ``$(...)``, or as inline code."""
    text = page.read_text()
    for block in re.findall(r"^```(?:console|sh)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        prompts = re.findall(r"^\$ (.+)$", block, re.MULTILINE)
        for line in prompts:
            yield from re.findall(r"(?:^|\$\()(seekpoint [^)#|\n]*)", line)
    yield from re.findall(r"`(seekpoint [^`\n]+)`", _without_blocks(text))


def _without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def _without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", lambda match: match[0].strip("`").replace("](", ""), _without_blocks(text))
