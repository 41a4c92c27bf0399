"""The settings of signing in with OpenID Connect: a file in TOML, and a client secret that is not in it."""

from __future__ import annotations

import os
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from seekpoint.console.web.auth.user_identity import Role
from seekpoint.console.web.console_options import is_loopback
from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.frozen_struct import FrozenStruct

SECRET_VARIABLE = "SEEKPOINT_OIDC_CLIENT_SECRET"

_Text = Annotated[str, Meta(min_length=1, max_length=500)]
_Values = tuple[_Text, ...]


class _Roles(FrozenStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    viewer: _Values = ()
    operator: _Values = ()
    admin: _Values = ()


class OidcSettings(FrozenStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the OpenID provider that says who somebody is, and of the roles that its answers give."""

    issuer: _Text
    client_id: _Text
    client_secret_file: str | None = None
    address: str | None = None
    """Where browsers reach the console, such as ``https://console.example.com``."""
    scopes: tuple[_Text, ...] = ("openid", "profile", "email")
    actor: _Text = "email"
    """The claim that names the actor of changes."""
    role_claim: _Text = "groups"
    roles: _Roles
    client_secret: str | None = None
    """Not from the file itself."""

    @property
    def proof(self) -> str:
        """Return what a session names, so that it ends when somebody changes these settings."""
        public = msgspec.structs.replace(self, client_secret=None, address=None)
        return "oidc:" + sha256(msgspec.json.encode(public)).hexdigest()[:16]

    def role_of(self, values: set[str]) -> Role | None:
        """Return the highest role that one of the claim's values gives; None if none of them gives one."""
        given = {role: getattr(self.roles, role.title) for role in Role}
        return max((role for role, wanted in given.items() if not values.isdisjoint(wanted)), default=None)


def read_oidc_settings(path: Path, own_address: str | None) -> OidcSettings:
    """Return the settings in a file. ``own_address`` is used if it names none. Raises ``InvalidSetting``."""
    try:
        found = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8-sig")), OidcSettings)
        secret = os.environ.get(SECRET_VARIABLE)
        if found.client_secret_file is not None:
            secret = (path.parent / found.client_secret_file).read_text(encoding="utf-8-sig").strip()
    except OSError as exc:
        raise InvalidSetting(
            f"a file of the sign-in cannot be read: {exc.strerror}", setting="--oidc", found=exc.filename, hint=_HINT
        ) from exc
    except (ValueError, msgspec.ValidationError) as exc:
        raise InvalidSetting(f"{path} is not valid: {exc}", setting="--oidc", hint=_HINT) from exc
    if found.client_secret is not None:
        raise _invalid(path, "client_secret", "the secret itself", f"a file: client_secret_file, or {SECRET_VARIABLE}")
    address = (found.address or own_address or "").rstrip("/")
    checked = msgspec.structs.replace(found, client_secret=secret or None, address=address)
    _check(path, checked)
    return checked


_HINT = "see docs/operate/console.md, Sign in with OpenID Connect"


def _check(path: Path, found: OidcSettings) -> None:
    address = found.address or ""
    if not address:
        raise _invalid(path, "address", "nothing", "the address at which browsers reach this console")
    for name, value in (("issuer", found.issuer), ("address", address)):
        if not is_safe_address(value):
            raise _invalid(path, name, value, "an https:// address, or http:// on this machine")
    if urlsplit(address).path or urlsplit(address).query:
        raise _invalid(path, "address", address, "an address without a path")
    if "openid" not in found.scopes:
        raise _invalid(path, "scopes", ", ".join(found.scopes), "openid among them")
    if not any((found.roles.viewer, found.roles.operator, found.roles.admin)):
        raise _invalid(path, "roles", "no value", "values of the claim that give a role")


def is_safe_address(address: str) -> bool:
    """Return whether what is sent there stays secret: it uses TLS, or does not leave this machine.

    >>> [is_safe_address(one) for one in ("https://a.example", "http://127.0.0.1:8080", "http://a.example", "file:///")]
    [True, True, False, False]
    """
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return False
    is_plain = not parts.fragment and not parts.username and address.isprintable() and " " not in address
    return is_plain and ((parts.scheme == "https" and bool(host)) or (parts.scheme == "http" and is_loopback(host)))


def _invalid(path: Path, name: str, found: Any, wanted: str) -> InvalidSetting:
    return InvalidSetting(
        f"{path} is not valid: {name} must be {wanted}", setting="--oidc", found=str(found), hint=_HINT
    )  # fmt: skip
