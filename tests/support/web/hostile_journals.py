"""A journal in which everything that an agent, a client or another program can write is hostile.

Each field has a canary of its own: markup, scripts, links of Markdown, escape sequences, direction marks. A page that
shows it as text shows its word. A page that runs any of it sets ``window.canary``, or asks another site.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from entry_examples import an_id, claim, external, own
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.wire.encoding import encode
from written_journals import CASE_BEGAN_US, write_entries, write_records

__all__ = ["Canaries", "HostileJournal", "hostile_journal"]

_LONG = 1_048_576


class Canaries:
    """Makes canaries. ``planted`` has what each word was planted in."""

    def __init__(self, beacon: str) -> None:
        self._beacon = beacon
        self.planted: dict[str, str] = {}

    def __call__(self, where: str, characters: int = 0) -> str:
        """Return a hostile text for a field, at least so long."""
        number = len(self.planted)
        word = f"cnry{number:03}x"
        self.planted[word] = where
        hit = f"window.canary={number}"
        return (
            f'{word}<script>{hit}</script><img src=x onerror="{hit}"><img src="{self._beacon}/{number}">'
            f"<a href='javascript:{hit}'>a</a>[l](javascript:{hit})![i]({self._beacon}/{number})<svg/onload={hit}>"
            f"\u202egnp\u2066\x1b[31m\x07\u200b</textarea></title></script>\"'autofocus onfocus={hit} {{{{7*7}}}}"
        ) + "x" * characters

    def short(self, where: str, characters_max: int = 150) -> str:
        """Return one for a field that takes neither many characters nor control characters."""
        number = len(self.planted)
        word = f"cnry{number:03}x"
        self.planted[word] = where
        return f'{word}<img src=x onerror="window.canary={number}">\'&#x3c;'[:characters_max]

    def json(self, where: str) -> str:
        """Return a JSON text with hostile keys and values."""
        return orjson.dumps({self(f"a key in {where}"): [self(where), {"deep": self(where)}]}).decode()

    def error(self, where: str) -> str:
        """Return a failure as entries have it."""
        told = {"type": self(f"the type in {where}"), "message": self(where), "data": {"why": self(where)}}
        return orjson.dumps({**told, "retryable": False}).decode()


@dataclass(frozen=True, slots=True)
class HostileJournal:
    """What was written. ``process_id`` has legal entries, ``odd_id`` one of each kind, most of them senseless."""

    canaries: Canaries
    process_id: str
    odd_id: str
    looks_like_another: str
    gate: str
    effect: str


def hostile_journal(settings: Settings, beacon: str) -> HostileJournal:
    """Write such a journal. ``beacon`` is the address of a site that nobody should ask."""
    canaries = Canaries(beacon)
    made = HostileJournal(
        canaries,
        process_id=canaries.short("process id"),
        odd_id=canaries.short("process id"),
        looks_like_another=f"case\u202e{canaries.short('process id with a direction mark')}",
        gate=f"{canaries.short('gate')}:1",
        effect=f"{canaries.short('effect')}:1",
    )
    write_entries(settings, _numbered(made.process_id, _legal(made, canaries), canaries))
    write_entries(settings, _numbered(made.odd_id, _one_of_each(canaries), canaries))
    write_entries(settings, _numbered(made.looks_like_another, [], canaries))
    write_records(settings, _junk(canaries))
    return made


def _junk(c: Canaries) -> list[tuple[bytes, bytes]]:
    """Return keys and values of records that are no entries: they become dead letters."""
    good = encode(own(1, b.MessageSaid("user", "x" * 40)))
    return [
        (c("key of a dead letter").encode(), c("bytes of a dead letter").encode()),
        (b"\xff\xfe\x80" + c("key of a dead letter").encode(), b"\x80\xff\xc3" + c("bytes of a dead letter").encode()),
        (b"case-17", good.replace(b"x" * 40, b"\xed\xa0\x80\xff" * 10)),
        (b"case-17", good[:12] + c("end of an entry").encode()),
    ]


def _numbered(process_id: str, bodies: list[b.Body], canaries: Canaries) -> Iterator[Entry]:
    first = b.Claim(0, canaries.short("node"), "boot")
    yield claim(1)._replace(process_id=process_id, ts=CASE_BEGAN_US, body=first)
    seq = 0
    for number, body in enumerate(bodies, 1):
        if type(body).EXTERNAL:
            entry = external(body, 5_000 + number, canaries(f"actor of {body.KIND}"))
        else:
            seq += 1
            entry = own(seq, body)._replace(correlation_id=canaries(f"correlation id of {body.KIND}"))
        yield entry._replace(process_id=process_id, ts=CASE_BEGAN_US + number * 1_000, id=an_id(20_000 + number))


def _legal(made: HostileJournal, c: Canaries) -> list[b.Body]:
    step, ask, branch = f"{c.short('step')}:1", f"{c.short('decision')}:1", f"~1.1/{c.short('step of a branch')}:1"
    at = CASE_BEGAN_US
    usage = orjson.dumps({c.short("usage"): 7, "input_tokens": 3}).decode()
    messages = [{"role": "user", "content": c("request")}]
    return [
        b.AgentStarted(c.short("agent"), c.short("version"), "d" * 32, c.json("input of the process")),
        b.StepStarted(step, 1, c("name of a step"), "1" * 32, c.json("input of a step"), 1, "", at),
        b.StepEnded(step, 1, "retry", "null", c.error("error of an attempt"), at + 5_000, at + 1_000, 1_000),
        b.StepStarted(step, 1, c("name of a step"), "1" * 32, c.json("input of a step"), 2, "", at + 5_000),
        b.StepEnded(step, 2, "succeeded", c.json("output of a step"), None, None, at + 9_000, 4_000),
        b.DecisionStarted(ask, 2, c("name of a decision"), "2" * 32, orjson.dumps(messages).decode()),
        b.DecisionMade(
            ask, 1, "succeeded", c.json("response"), tool_calls=c.json("tool calls"), model=c("model"), usage=usage,
            cost_usd="0.5", ended_at_us=at + 20_000, duration_us=3,
        ),
        b.StepStarted(branch, 1, c("name of a step"), "3" * 32, "null", 1, "", at + 30_000),
        b.StepEnded(branch, 1, "failed", "null", c.error("error of a step"), None, at + 31_000, 1_000),
        b.MessageSaid("user", c("message")),
        b.MessageSaid(
            "assistant", c("message"), tool_calls=orjson.dumps(
                [{"id": c("id of a tool call"), "function": {"name": c("tool"), "arguments": c("arguments of a tool")}}]
            ).decode(),
        ),
        b.MessageSaid("tool", c("message"), tool_call_id=c("id of a tool call"), name=c("name of a message")),
        b.MessageSaid(
            "assistant", None, parts=orjson.dumps([{"type": "text", "text": c("part of a message")}]).decode()
        ),
        b.MessageSaid("assistant", c("long message", _LONG // 2)),
        b.ContextUpdated(c("key of the memory"), c.json("value of the memory")),
        b.ContextUpdatedMany({c("key of the memory"): c.json("value of the memory")}),
        b.ContextUpdated("long", orjson.dumps(c("long value", _LONG // 2)).decode()),
        b.ErrorRecorded(c("class of an error"), c("error"), c("traceback"), c("place of an error")),
        b.Custom(c("kind of a custom entry"), c.json("custom entry")),
        b.BudgetSet('{"usd":"5"}'),
        b.EffectIntended(
            made.effect, 3, c("name of an effect"), "4" * 32, "at_most_once", c("connector"), c("business key"),
            c("idempotency key"), c.json("arguments of an effect"), started_at_us=at + 40_000,
        ),
        b.EffectSettled(made.effect, 1, "unknown", "null", c.error("error of an effect"), "call"),
        b.GateOpened(made.gate, 4, c("name of a gate"), "5" * 32, None, c.json("question")),
        b.Signal(c("name of a signal"), c.json("signal")),
        b.LifecycleChanged("awaiting", c("reason")),
        b.SuspendRequested(c("reason")),
    ]  # fmt: skip


def _one_of_each(c: Canaries) -> list[b.Body]:
    """Return a body of each class, with a canary in each text: a new kind of entry is covered at once."""
    last: list[type[b.Body]] = [b.Released, b.Finished]
    kinds = [kind for kind in b.BODIES if kind not in (b.Claim, b.Seeded, *last)]
    return [kind(**{name: _value(c, kind, name) for name in kind.__struct_fields__}) for kind in (*kinds, *last)]


def _value(c: Canaries, kind: type[b.Body], name: str) -> Any:
    type_ = str(kind.__annotations__[name]).removesuffix(" | None")
    where = f"{name} of {kind.KIND}"
    makers: dict[str, Callable[[], Any]] = {
        "str": lambda: c(where), "Json": lambda: c.json(where), "int": lambda: 7, "bool": lambda: True,
        "bytes": lambda: an_id(7), "Data": lambda: b"\0<b>",
        "Mapping[str, Json]": lambda: {c(where): c.json(where)},
    }  # fmt: skip
    return makers[type_]()
