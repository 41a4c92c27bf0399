"""The scripts of the demo's cases: each message of customers, tools and the model. Recorded runs become cases, too."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import InvalidName, Refused

_SHAPE = (
    'each line is {"run_id": "...", "messages": [{"role": "...", "content": "..."}, ...]}, the form of OpenAI chats'
)
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


def read_runs(path: Path) -> list[Transcript]:
    """Return one case per run of a file, gzipped or not, named by its ``run_id``: one JSON object per line.

    Raises ``Refused`` with file and line for anything else.
    """
    try:
        data = path.read_bytes()
        text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except (OSError, EOFError, zlib.error) as exc:
        raise Refused(
            f"the runs cannot be read: {exc}", file=str(path), hint="give --runs a .jsonl or .jsonl.gz file"
        ) from exc
    found = [_run(line, path, number) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    twice = len(found) - len({transcript.case for transcript in found})
    if twice or not any(transcript.model_calls for transcript in found):
        reason = f"{twice} runs have the run_id of another" if twice else "it has no message of an assistant"
        raise Refused(f"the file has no usable runs: {reason}", file=str(path), hint=_SHAPE)
    return found


def _run(text: bytes, path: Path, number: int) -> Transcript:
    try:
        raw = orjson.loads(text)
        case = raw["run_id"]
        process_key(case)
        lines = tuple(_line(message) for message in raw["messages"])
        facts = {name: raw[name] for name in ("task_id", "trial") if name in raw}
        return Transcript(case=case, lines=lines, facts={"run_id": case, **facts})
    except (ValueError, KeyError, TypeError, AttributeError, InvalidName) as exc:
        raise Refused(f"the line is not a run: {exc!r}", file=str(path), line=number, hint=_SHAPE) from exc


def _line(raw: Mapping[str, Any]) -> TranscriptLine:
    content = raw.get("content")
    if not isinstance(raw["role"], str) or not isinstance(content, str | None):
        raise TypeError("role and content are text")
    return TranscriptLine(
        role=raw["role"],
        content=content,
        tool_calls=raw.get("tool_calls"),
        tool_call_id=raw.get("tool_call_id"),
        name=raw.get("name"),
    )
