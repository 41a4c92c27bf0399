"""Find out whether the MCP SDK is one that Seekpoint can use: pip lowers it without a question for another package."""

from __future__ import annotations

from importlib.metadata import version

from seekpoint.errors import InvalidSetting

_OLDEST = (2, 3)


def require_mcp(purpose: str) -> None:
    """Raise ``InvalidSetting`` where the SDK is older than ``purpose`` needs."""
    found = version("mcp")
    if tuple(int(part) for part in found.split(".")[:2] if part.isdecimal()) < _OLDEST:
        raise InvalidSetting(
            f"{purpose} needs a newer MCP SDK than is installed: pip takes an older one for packages that want mcp<2, "
            "such as langchain-mcp-adapters", found=f"mcp {found}",
            hint='pip install "seekpoint[mcp]" in an environment without that package, and use it from another one',
        )  # fmt: skip
