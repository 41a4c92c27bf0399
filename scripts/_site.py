"""Hooks of mkdocs.yml: pages of the checkout's root beside those of docs/, an anchor for each error, one package."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

__all__ = ["on_config", "on_files", "on_page_markdown"]

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md")
_LINK = re.compile(
    r"(?P<code>^```.*?^```$|`[^`\n]*`)|\[(?P<text>(?:`[^`\n]*`|[^\[\]`])*)\]\((?P<target>[^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)


_package = tempfile.TemporaryDirectory(prefix="seekpoint-site-")


@event_priority(100)  # before mkdocstrings
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Show mkdocstrings the package as a wheel has it. The stubs that join the roots for Pyright would hide them."""
    package = Path(_package.name) / "seekpoint"
    if not package.exists():
        package.mkdir()
        for part in ROOT.glob("*/seekpoint/*"):
            if part.name not in ("__init__.pyi", "__pycache__"):
                (package / part.name).symlink_to(part)
    config.plugins["mkdocstrings"].config["handlers"]["python"]["paths"] = [_package.name]
    return config


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
