"""Encode and decode the messages of services: framed like entries, but no entries, and not in ``NAME.schemas``.

There, a message that somebody writes into the journal's topic would stop its readers instead of becoming a dead letter.
So their schemas ship as ``.avsc`` files only. Framing is Avro's single-object encoding (``C3 01``, CRC-64-AVRO
fingerprint, body). Readers trust nothing: every length is checked, all bytes are consumed, and each failure is one
``UndecodableRecord``.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, TypeVar

from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import InvalidName, UndecodableRecord, UnserializableValue
from seekpoint.schemas.wire import avro_primitives as avro
from seekpoint.schemas.wire.avro_primitives import Get, Put, optional_get, optional_put

__all__ = ["FLAG", "ID", "LONG", "OPTIONAL_LONG", "OPTIONAL_TEXT", "TEXT", "MessageForm", "ServiceMessage"]

FieldCodec: TypeAlias = tuple[Put, Get]
ID: FieldCodec = (avro.put_id, avro.get_id)
TEXT: FieldCodec = (avro.put_text, avro.get_text)
LONG: FieldCodec = (avro.put_long, avro.get_long)
FLAG: FieldCodec = (avro.put_bool, avro.get_bool)
OPTIONAL_TEXT: FieldCodec = (optional_put(avro.put_text), optional_get(avro.get_text))
OPTIONAL_LONG: FieldCodec = (optional_put(avro.put_long), optional_get(avro.get_long))

_MAGIC = b"\xc3\x01"


class ServiceMessage(Protocol):
    """A message about one process, which is also its key."""

    @property
    def process_id(self) -> str:
        """The process it is about."""
        ...


M = TypeVar("M", bound=ServiceMessage)


class MessageForm:
    """How one kind of message is written: the fingerprint of its schema, and its fields in their order."""

    def __init__(self, fingerprint: str, **fields: FieldCodec) -> None:
        self.fingerprint = bytes.fromhex(fingerprint)
        """CRC-64-AVRO of the schema's parsing canonical form, little-endian; a test compares it with fastavro's."""
        self._fields = tuple((name, put, get) for name, (put, get) in fields.items())
        self._header = _MAGIC + self.fingerprint

    def encode(self, message: ServiceMessage) -> bytes:
        """Return ``message`` in single-object encoding. Raises ``InvalidName``, ``UnserializableValue``."""
        process_key(message.process_id)
        out = bytearray(self._header)
        try:
            for name, put, _ in self._fields:
                put(out, getattr(message, name))
        except ValueError as exc:
            raise UnserializableValue(f"it cannot be written: {exc}", process_id=message.process_id) from exc
        return bytes(out)

    def decode(self, data: bytes | None, kind: type[M], limits: Limits = DEFAULT_LIMITS) -> M:
        """Return the message in ``data``. Raises ``UndecodableRecord`` for anything else."""
        if data is None:
            raise UndecodableRecord("a record without a value")
        if len(data) > limits.record_bytes:
            raise UndecodableRecord("larger than the journal's record limit", bytes=len(data))
        header = self._header
        if not data.startswith(header):
            raise UndecodableRecord(f"no {kind.__name__}: it starts otherwise", found=data[: len(header)].hex())
        values: dict[str, Any] = {}
        at = len(header)
        try:
            for name, _, get in self._fields:
                values[name], at = get(data, at)
            process_key(values["process_id"])
        except (ValueError, IndexError, InvalidName) as exc:
            raise UndecodableRecord(f"no {kind.__name__}: {exc or type(exc).__name__}") from exc
        if at != len(data):
            raise UndecodableRecord(f"no {kind.__name__}: bytes are left over")
        return kind(**values)
