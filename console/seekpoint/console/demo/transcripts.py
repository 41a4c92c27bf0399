"""The scripts of the demo's cases: each message of customers, tools and the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

__all__ = ["Transcript", "TranscriptLine", "as_messages", "digest", "load_transcripts", "save_transcripts"]

ASSISTANT = "assistant"
_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptLine:
    """One message. ``tool_calls`` is a list in OpenAI's form."""

    role: str
    content: str | None = None
    tool_calls: list[Any] | None = None
    tool_call_id: str | None = None
    name: str | None = None

    @property
    def by_model(self) -> bool:
        """Whether the message is the model's and so costs a model call."""
        return self.role == ASSISTANT


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The messages of one case. ``facts`` are known before the first message."""

    case: str
    lines: tuple[TranscriptLine, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def model_calls(self) -> int:
        """The number of the model's messages."""
        return sum(line.by_model for line in self.lines)

    def turn_at(self, length: int) -> int:
        """Return the number (1, 2, ...) of the model's turn after ``length`` messages."""
        return 1 + sum(line.by_model for line in self.lines[:length])

    def digests(self) -> dict[int, str]:
        """Return the digest of the conversation that each turn has to send to the model."""
        turns = [at for at, line in enumerate(self.lines) if line.by_model]
        return {turn: digest(as_messages(self.lines[:at])) for turn, at in enumerate(turns, start=1)}


def as_messages(conversation: Iterable[Any]) -> list[dict[str, Any]]:
    """Return ``TranscriptLine`` objects, or the journal's messages, as the messages of a request to a model."""
    return [
        {name: value for name in _FIELDS if (value := getattr(one, name)) is not None or name == "content"}
        for one in conversation
    ]


def digest(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the digest of the messages of a request."""
    return blake2b(orjson.dumps(messages, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def save_transcripts(path: Path, transcripts: Sequence[Transcript]) -> None:
    """Write the transcripts to a file that every worker reads."""
    path.write_bytes(b"".join(orjson.dumps(transcript) + b"\n" for transcript in transcripts))


def load_transcripts(path: Path) -> list[Transcript]:
    """Read the file that ``save_transcripts`` wrote."""
    return [_transcript(orjson.loads(text)) for text in path.read_bytes().splitlines()]


def _transcript(raw: dict[str, Any]) -> Transcript:
    lines = tuple(TranscriptLine(**line) for line in raw["lines"])
    return Transcript(case=raw["case"], lines=lines, facts=raw["facts"])
