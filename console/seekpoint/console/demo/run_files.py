"""Read recorded agent runs as cases: a file of conversations, one JSON object per line, gzipped or not."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from seekpoint.console.demo.transcripts import Transcript, TranscriptLine
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import InvalidName, Refused

_SHAPE = (
    'each line is {"run_id": "...", "messages": [{"role": "...", "content": "..."}, ...]}, the form of OpenAI chats'
)


def read_runs(path: Path) -> list[Transcript]:
    """Return one case per run, named by its ``run_id``. Raises ``Refused`` with file and line for anything else."""
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
