"""A picture of a terminal with a command and its output, as SVG."""

from __future__ import annotations

import io
import re

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

__all__ = ["COLUMNS", "picture_of"]

COLUMNS = 120
_FORMAT = re.sub(r"@font-face \{\{.*?\}\}\n|<!--.*?-->\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Rich's format without the fonts that a browser would load from elsewhere."""


def picture_of(command: str, output: str, name: str) -> str:
    """Return a picture of a terminal after ``command`` as SVG. ``output`` may have ANSI colours.

    >>> "seekpoint ps" in picture_of("seekpoint ps", "one", "p").replace("&#160;", " ")
    True
    """
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "bold green"), command), soft_wrap=False)
    console.print(Text.from_ansi(output.rstrip("\n")))
    svg = console.export_svg(title="", theme=DIMMED_MONOKAI, code_format=_FORMAT, unique_id=name)
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)
