"""The file of access tokens. It holds hashes only, and a key that signs sessions. Only its owner may read it."""

from __future__ import annotations

import hmac
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from operator import itemgetter
from pathlib import Path

import msgspec

from seekpoint.console.services.arguments.target import home
from seekpoint.console.web.auth.user_identity import Role, UserIdentity
from seekpoint.schemas.config.private_files import open_private, take_lock, write_private
from seekpoint.schemas.errors import InvalidName, InvalidSetting
from seekpoint.schemas.frozen_struct import FrozenStruct, built

_PREFIX = "spc_"
_NAME_CHARS_MAX = 80
_LOCK_TIMEOUT_S = 10.0
_ENDED_MAX = 10_000


class StoredToken(FrozenStruct, frozen=True, kw_only=True):
    """A token as its file has it."""

    name: str
    """Whose it is: the actor of what is done with it."""
    role: str
    hash: str
    """SHA-256 in hexadecimal. A token is 32 random bytes, so a slow hash would add nothing."""
    created: str

    @property
    def proof(self) -> str:
        """Return the part of the hash that a session names, so that it ends with its token."""
        return self.hash[:16]


class _Content(FrozenStruct, frozen=True, kw_only=True):
    session_key: str
    tokens: tuple[StoredToken, ...] = ()
    ended: dict[str, int] = msgspec.field(default_factory=dict)
    """Sessions that were signed out, with the time at which they would have ended by themselves."""


class TokenFile:
    """Reads and writes a file of tokens. A change of the file counts at once, without a restart.

    A change is made under a lock, so that of two programs none undoes what the other one did.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: tuple[tuple[int, int, int], _Content] | None = None

    def add(self, name: str, role: Role, created: str) -> str:
        """Add a token and return it. It cannot be shown again. Raises ``InvalidName`` for a name that is taken."""
        if not name.isprintable() or not name.strip() or len(name) > _NAME_CHARS_MAX:
            raise InvalidName(f"a token's name has 1 to {_NAME_CHARS_MAX} printable characters", found=repr(name[:100]))
        token = _PREFIX + secrets.token_urlsafe(32)
        stored = StoredToken(name=name, role=role.title, hash=_hash(token), created=created)
        with self._locked():
            content = self._content() if self.path.exists() else _Content(session_key=secrets.token_hex(32))
            if any(one.name == name for one in content.tokens):
                raise InvalidName(
                    "a token has this name already", found=name,
                    hint="remove it first: seekpoint console token remove NAME",
                )  # fmt: skip
            self._write(msgspec.structs.replace(content, tokens=(*content.tokens, stored)))
        return token

    def remove(self, name: str) -> None:
        """Remove a token; sessions that began with it end. Raises ``InvalidName`` if there is none with this name."""
        with self._locked():
            content = self._content()
            kept = tuple(token for token in content.tokens if token.name != name)
            if len(kept) == len(content.tokens):
                raise InvalidName("no token has this name", found=name, hint="seekpoint console token ls lists them")
            self._write(msgspec.structs.replace(content, tokens=kept))

    def end_session(self, session_id: str, expires_at: int, now: float) -> None:
        """Remember that a session was signed out, until it would have ended by itself.

        Of more than 10,000 sessions the file keeps those that would have lasted longest.
        """
        with self._locked():
            content = self._content()
            lasting = {known: end for known, end in content.ended.items() if end > now} | {session_id: expires_at}
            longest = sorted(lasting.items(), key=itemgetter(1))[-_ENDED_MAX:]
            self._write(msgspec.structs.replace(content, ended=dict(longest)))

    def is_ended(self, session_id: str) -> bool:
        """Return whether a session was signed out."""
        return session_id in self._content().ended

    def tokens(self) -> tuple[StoredToken, ...]:
        """Return all tokens. Raises ``InvalidSetting`` if the file is missing or damaged."""
        return self._content().tokens

    def session_key(self) -> bytes:
        """Return the key that signs sessions."""
        return bytes.fromhex(self._content().session_key)

    def identity_of(self, token: str) -> UserIdentity | None:
        """Return whose token this is; None if it is nobody's. Compares in constant time."""
        presented, found = _hash(token), None
        for one in self.tokens():
            if hmac.compare_digest(one.hash, presented):
                found = one
        return None if found is None else _identity(found)

    def identity_by_proof(self, name: str, proof: str) -> UserIdentity | None:
        """Return who a session names, with the present role; None if the token was removed or replaced."""
        found = next((one for one in self.tokens() if one.name == name and one.proof == proof), None)
        return None if found is None else _identity(found)

    def _content(self) -> _Content:
        try:
            with os.fdopen(open_private(self.path, os.O_RDONLY), "rb") as file:
                status = os.fstat(file.fileno())
                stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
                if self._read is None or self._read[0] != stamp:
                    self._read = stamp, msgspec.json.decode(file.read(), type=built(_Content))
        except FileNotFoundError as exc:
            raise InvalidSetting(
                "there is no file of tokens", setting=str(self.path),
                hint="make one: seekpoint console token add NAME --role viewer",
            ) from exc  # fmt: skip
        except (OSError, msgspec.DecodeError) as exc:
            raise InvalidSetting("the file of tokens cannot be read", setting=str(self.path), found=str(exc)) from exc
        return self._read[1]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        deadline = time.monotonic() + _LOCK_TIMEOUT_S
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = open_private(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT)
        except OSError as exc:
            raise self._not_written(exc) from exc
        try:
            while not take_lock(lock):
                if time.monotonic() > deadline:
                    raise self._not_written("another program has locked it")
                time.sleep(0.01)
            yield
        finally:
            os.close(lock)

    def _write(self, content: _Content) -> None:
        try:
            write_private(self.path, msgspec.json.format(msgspec.json.encode(content), indent=1), sync=True)
        except OSError as exc:
            raise self._not_written(exc) from exc

    def _not_written(self, reason: OSError | str) -> InvalidSetting:
        return InvalidSetting("the file of tokens cannot be written", setting=str(self.path), found=str(reason))


def token_file(path: Path | None) -> TokenFile:
    """Return the file of tokens at ``path``; None: at its usual place."""
    return TokenFile(path or home() / "console-tokens.json")


def bearer_token(authorization: str) -> str | None:
    """Return the token of a header ``Authorization``; None if it has another scheme.

    >>> bearer_token("bearer spc_a"), bearer_token("Basic YTpi"), bearer_token("")
    ('spc_a', None, None)
    """
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _identity(stored: StoredToken) -> UserIdentity:
    return UserIdentity(name=stored.name, role=Role[stored.role.upper()], proof=stored.proof)


def _hash(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
