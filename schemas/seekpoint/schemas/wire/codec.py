"""The codec of entries: Avro single-object encoding (``C3 01``, CRC-64-AVRO fingerprint, body).

Hand-written code reads and writes the current schema, two to three times as fast as a schema interpreter;
``schema_resolution`` reads entries of other schemas. The time and memory for untrusted bytes are bounded by the record
limit: every length is checked before it is used, all bytes must be consumed, and every failure raises
``UndecodableRecord``. The tests compare with fastavro.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from seekpoint.schemas.bodies import BODIES, Body, Seeded
from seekpoint.schemas.bodies.entry import Entry, process_key
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import InvalidName, LimitExceeded, UndecodableRecord
from seekpoint.schemas.frozen_struct import field_types
from seekpoint.schemas.state.migrations import FOLD_VERSION, fold_version_in
from seekpoint.schemas.values.json_values import check
from seekpoint.schemas.wire import avro_primitives as avro
from seekpoint.schemas.wire.avro_primitives import ID_BYTES, Get, get_long, optional_get
from seekpoint.schemas.wire.avro_schema import SCHEMA_FINGERPRINT, schema_json
from seekpoint.schemas.wire.body_readers import ReadBody, body_reader
from seekpoint.schemas.wire.encoding import HEADER, MAGIC, encode, encode_within, encoded_process_id, is_entry
from seekpoint.schemas.wire.schema_resolution import EntryReader, entry_reader, refuse_newer_format

__all__ = ["SCHEMA_FINGERPRINT", "Codec", "OwnerEntry", "encode", "encode_within", "is_entry", "schema_json"]

_HEADER_BYTES = len(HEADER)
_PROCESS_ID_AT = _HEADER_BYTES + ID_BYTES
_THREE_NULLS = bytes(3)
_NOT_SMALL = 0x81
"""A mask for the first byte of a number: a masked bit is set if the number is negative or longer than one byte."""
_PRESENT = 2
_OWNERS_SEQ = bytes([_PRESENT])
"""The byte of the other branch in a union with null."""
_PRESENT_ID_BYTES = 1 + ID_BYTES
_PLAIN_CHARS_MAX = 64
"""The length up to which only the syntax of a JSON text is checked: depth and items cannot exceed the length."""

_get_optional_long = optional_get(get_long)
_get_optional_text = optional_get(avro.get_text)
_get_optional_id = optional_get(avro.get_id)
_new_tuple = tuple.__new__  # takes half the time of the named tuple's constructor

_GETTERS: Mapping[str, Get] = {
    "str": avro.get_text,
    "Json": avro.get_text,
    "int": get_long,
    "bool": avro.get_bool,
    "bytes": avro.get_id,
    "Data": avro.get_data,
    "str | None": _get_optional_text,
    "Json | None": _get_optional_text,
    "int | None": _get_optional_long,
    "bytes | None": _get_optional_id,
    "Mapping[str, Json]": avro.get_texts,
}


# --- reading ----------------------------------------------------------------------------------------------------------
_RESTORING = frozenset(branch for branch, body in enumerate(BODIES) if body.RESTORES)


class OwnerEntry(NamedTuple):
    """The fields of an owner's entry that the fold needs, with the names that they have in ``Entry``."""

    seq: int
    epoch: int
    claim_id: bytes
    encoded_ts: bytes
    """``ts`` as Avro encodes it."""
    body: Body


_USUAL = re.compile(
    rb"\x02([\x80-\xff]{0,3}[\0-\x7f])"  # seq
    rb"([\0-\x7f])"  # epoch
    rb"\x02(.{16})"  # claim_id
    rb"(?:\0|\x02[\x80-\xff]{0,7}[\0-\x7f])"  # prev_offset
    rb"([\x80-\xff]{0,7}[\0-\x7f])"  # ts
    rb"\0\0\0"  # neither actor nor caused_by nor correlation_id
    rb"([\0-\x7f])",  # the body's branch
    re.DOTALL,
).match
"""Matches what follows the process id in most entries of an owner, several times as fast as Python code."""


class Codec:
    """The decoder of one journal's entries: it knows the journal's limits and all its writer schemas.

    ``refresh`` re-reads the journal's schemas to their end. The codec calls it before it reports an unknown schema.
    """

    def __init__(
        self,
        limits: Limits = DEFAULT_LIMITS,
        schemas: Mapping[bytes, str] | None = None,
        refresh: Callable[[], Mapping[bytes, str]] | None = None,
    ) -> None:
        self.limits = limits
        self._schemas = dict(schemas or {})
        self._readers: dict[bytes, EntryReader] = {}
        self._refresh = refresh

    def decode(self, data: bytes | None) -> Entry:
        """Return the entry in ``data``.

        Raises ``UndecodableRecord`` if ``data`` is no entry within the limits. Raises ``NewerFormat`` for a registered
        schema of a newer format, and for a seed of a newer fold in a journal that has such a schema: the reader must
        stop, not skip. Raises ``JournalMismatch`` for a registered schema that is no schema of entries. Errors of
        ``refresh`` pass through.
        """
        if data is None:
            raise UndecodableRecord("a record without a value")
        is_large = len(data) > self.limits.record_bytes
        if is_large and len(data) > self.limits.restoring_bytes:
            raise UndecodableRecord("larger than the journal's record limit", bytes=len(data))
        try:
            if data.startswith(HEADER):
                entry = _decode_current(data, self.limits, is_large)
            else:
                entry = self._decode_other(data, is_large)
        except (ValueError, IndexError, LimitExceeded, InvalidName, RecursionError) as exc:
            raise UndecodableRecord(f"not an entry: {exc or type(exc).__name__}") from exc
        if type(entry[-1]) is Seeded:
            self._check_fold_version(entry[-1])
        return entry

    def decode_owner_entry(self, data: bytes | None, key: bytes) -> OwnerEntry | None:
        """Decode an owner's entry of the process ``key``, if it has the usual form, in half the time of ``decode``.

        The result agrees with that of ``decode``. None means only that ``decode`` must read the record.
        """
        limits = self.limits
        try:
            process_id = encoded_process_id(key)
            if (
                data is None
                or len(data) > limits.record_bytes
                or not (data.startswith(HEADER) and data.startswith(process_id, _PROCESS_ID_AT))
            ):
                return None
            found = _USUAL(data, _PROCESS_ID_AT + len(process_id))
            if found is None:
                return None
            raw, epochs, claim_id, encoded_ts, branches = found.groups()
            low, epoch, branch = raw[0], epochs[0], branches[0]
            if (epoch | branch) & 1:
                return None
            is_short = len(raw) == 2 and not low & 1
            seq = (low & 0x7F) >> 1 | raw[1] << 6 if is_short else get_long(raw, 0)[0]
            body = _READERS[branch >> 1](data, found.end(), limits)
        except (ValueError, IndexError, LimitExceeded, InvalidName, UndecodableRecord):
            return None
        return _new_tuple(OwnerEntry, (seq, epoch >> 1, claim_id, encoded_ts, body))

    @staticmethod
    def is_owner_entry(data: bytes | None, key: bytes) -> bool:
        """Whether ``data`` begins as an owner's entry of the process ``key``, of the current format. Decodes nothing.

        For readers that pass over such entries unread: True says nothing about the rest of the record.
        """
        if data is None or not data.startswith(HEADER):
            return False
        process_id = encoded_process_id(key)
        return data.startswith(process_id + _OWNERS_SEQ, _PROCESS_ID_AT)

    def _check_fold_version(self, body: Seeded) -> None:
        """Raise ``NewerFormat`` for the state of a newer fold, if the journal has a schema of a newer format.

        A genuine writer registers the newer format first. Without one, the fold refuses the seed as forged.
        """
        if self._refresh is None or fold_version_in(body.state) <= FOLD_VERSION:
            return
        self._schemas = dict(self._refresh())
        for text in self._schemas.values():
            refuse_newer_format(text)

    def _decode_other(self, data: bytes, is_large: bool) -> Entry:
        if not data.startswith(MAGIC):
            raise ValueError("no Avro single-object header")
        entry, at = self._reader_of(data[len(MAGIC) : _HEADER_BYTES])(data, _HEADER_BYTES, is_large)
        if at != len(data):
            raise ValueError("bytes are left over")
        process_key(entry.process_id)
        _check_texts(entry.body, self.limits)
        return entry

    def _reader_of(self, fingerprint: bytes) -> EntryReader:
        if fingerprint in self._readers:
            return self._readers[fingerprint]
        if fingerprint not in self._schemas and self._refresh is not None:
            self._schemas = dict(self._refresh())
        text = self._schemas.get(fingerprint)
        if text is None:
            raise ValueError(f"no schema with the fingerprint {fingerprint.hex()}")
        self._readers[fingerprint] = entry_reader(text, fingerprint)
        return self._readers[fingerprint]


# A function call per field would double the time, so fields of one byte are decoded inline. A slice beyond the end is
# short; reading the next byte then raises IndexError.
def _decode_current(data: bytes, limits: Limits, is_large: bool) -> Entry:
    entry_id = data[_HEADER_BYTES:_PROCESS_ID_AT]
    size = data[_PROCESS_ID_AT]
    if size & _NOT_SMALL:
        size, at = get_long(data, _PROCESS_ID_AT)
        if size < 0:
            raise ValueError("a text has a negative length")
        end = at + size
    else:
        at = _PROCESS_ID_AT + 1
        end = at + (size >> 1)
    process_id = _process_id(data[at:end])
    if data[end] == _PRESENT:
        seq, at = get_long(data, end + 1)
    else:
        seq, at = _get_optional_long(data, end)
    epoch = data[at]
    if epoch & _NOT_SMALL:
        epoch, at = get_long(data, at)
    else:
        epoch, at = epoch >> 1, at + 1
    if data[at] == _PRESENT:
        claim_id, at = data[at + 1 : at + _PRESENT_ID_BYTES], at + _PRESENT_ID_BYTES
    else:
        claim_id, at = _get_optional_id(data, at)
    if data[at] == _PRESENT:
        prev_offset, at = get_long(data, at + 1)
    else:
        prev_offset, at = _get_optional_long(data, at)
    ts, at = avro.get_timestamp(data, at)
    if data[at : at + 3] == _THREE_NULLS:
        actor = caused_by = correlation_id = None
        at += 3
    else:
        actor, at = _get_optional_text(data, at)
        caused_by, at = _get_optional_id(data, at)
        correlation_id, at = _get_optional_text(data, at)
    branch = data[at]  # one byte is enough for 64 bodies, which a test checks
    if branch & _NOT_SMALL or branch >> 1 >= len(_READERS):
        raise ValueError("the union has no such body")
    if is_large and branch >> 1 not in _RESTORING:
        raise ValueError("larger than the journal's record limit")
    body = _READERS[branch >> 1](data, at + 1, limits)
    return _new_tuple(
        Entry, (entry_id, process_id, seq, epoch, claim_id, prev_offset, ts, actor, caused_by, correlation_id, body)
    )


@lru_cache(maxsize=16_384)
def _process_id(key: bytes) -> str:
    text = key.decode()
    process_key(text)
    return text


def _check_texts(body: Body, limits: Limits) -> None:
    for name, kind in field_types(type(body)).items():
        value = getattr(body, name)
        if "Json" in kind and value is not None:
            _check_json(value, limits)


def _check_json(value: Any, limits: Limits) -> None:
    if type(value) is dict:
        if len(value) > limits.items:
            raise LimitExceeded(f"more than {limits.items} context values in one entry")
        for text in value.values():
            _check_json(text, limits)
        return
    chars = len(value)
    is_short = chars <= _PLAIN_CHARS_MAX and chars <= limits.depth and chars <= limits.items
    if is_short and "$" not in value and "\\" not in value:
        orjson.loads(value)
    else:
        check(value, limits)


def _first_reader(branch: int, body: type[Body]) -> ReadBody:
    """Return a reader that compiles the real one when it is first called: to compile all at import costs 20 ms."""

    def first(data: bytes, at: int, limits: Limits) -> Any:
        _READERS[branch] = body_reader(body, _GETTERS, _check_json)
        return _READERS[branch](data, at, limits)

    return first


_READERS: list[ReadBody] = [_first_reader(branch, body) for branch, body in enumerate(BODIES)]
