"""The options of a console, and which combinations it refuses."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING

from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.consumers.staging import MaskRules
    from seekpoint.producers import Agent, Prices

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


class ConsoleOptions(FrozenStruct, frozen=True, kw_only=True):
    """The address that a console listens on, and the rights of its visitors."""

    host: str = "127.0.0.1"
    port: int = 8700
    """0: any free port."""
    allow_changes: bool = False
    """Whether those who need no token may change something."""
    tokens: Path | None = None
    oidc: Path | None = None
    """The settings of signing in with OpenID Connect."""
    allowed_hosts: tuple[str, ...] = ()
    is_https: bool = False
    """Whether browsers reach it over HTTPS, through a proxy."""
    agents: tuple[Agent, ...] = ()
    """The agents that it can run again."""
    prices: Prices | None = None
    """The prices of the models of reruns."""
    masks: MaskRules | None = None
    """The rules that mask all replays into staging."""

    def check(self) -> None:
        """Raise ``InvalidSetting`` for an address that others can reach if nothing says who they are."""
        if not self.has_sign_in and not is_loopback(self.host):
            raise InvalidSetting(
                "a console that other machines can reach needs authentication", setting="--host", found=self.host,
                hint="give --oidc FILE, or --tokens FILE, made by: seekpoint console token add NAME --role viewer",
            )  # fmt: skip

    @property
    def has_sign_in(self) -> bool:
        """Return whether only those may use it who say who they are."""
        return self.tokens is not None or self.oidc is not None

    @property
    def address(self) -> str:
        """Return the address of this machine's browsers. ``port`` is the real one."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def hosts(self) -> tuple[str, ...] | None:
        """Return the hosts that requests may name; None: any.

        Only a console that needs no authentication depends on this check, and one on a loopback address knows its
        names.
        """
        if not is_loopback(self.host):
            return (*self.allowed_hosts, *_LOOPBACK_NAMES) if self.allowed_hosts else None
        own = f"[{self.host}]" if ":" in self.host else self.host
        return (*_LOOPBACK_NAMES, own, *self.allowed_hosts)


def is_loopback(host: str) -> bool:
    """Return whether only programs of this machine can reach the address.

    >>> is_loopback("127.0.0.2"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("")
    (True, True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
