"""Hooks of mkdocs.yml: put the pages of the checkout's root beside those of docs/, and give each error an anchor."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

__all__ = ["on_files", "on_page_markdown"]

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md")
_LINK = re.compile(
    r"(?P<code>^```.*?^```$|`[^`\n]*`)|\[(?P<text>(?:`[^`\n]*`|[^\[\]`])*)\]\((?P<target>[^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the root's pages to the site. The README gets a folder: beside index.md mkdocs takes it for another index."""
    for name in ROOT_PAGES:
        files.append(File.generated(config, _on_site(name), abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Rewrite links between docs/ and the root to their places on the site, and name the rows of errors."""
    here = PurePosixPath(page.file.src_uri)
    source = PurePosixPath(here.name) if page.file.generated_by else "docs" / here
    if here.name == "errors.md":
        markdown = re.sub(r"^\| `(\w+)` \|", r'| <a id="\1"></a>`\1` |', markdown, flags=re.MULTILINE)

    def rewritten(match: re.Match[str]) -> str:
        if match["code"]:
            return match[0]
        path, mark, anchor = match["target"].partition("#")
        if not path or ":" in path:
            return match[0]
        target = os.path.normpath(source.parent / path)
        if target in ROOT_PAGES:
            place = _on_site(target)
        elif target.startswith("docs/"):
            place = target.removeprefix("docs/")
        else:
            return match["text"]
        return f"[{match['text']}]({os.path.relpath(place, here.parent)}{mark}{anchor})"

    return _LINK.sub(rewritten, markdown)


def _on_site(name: str) -> str:
    return f"project/{name.lower()}" if name == "README.md" else name
