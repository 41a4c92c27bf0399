"""Support cases of a small web shop: the messages of customers, tools and the agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from seekpoint.console.demo.transcripts import ASSISTANT, Transcript, TranscriptLine

_Step = tuple[str, ...]
"""("user", text), ("agent", text) or ("tool", name, arguments as JSON, answer as JSON)."""

_LOOK_UP: _Step = ("tool", "find_order", '{"order": "ORDER"}', '{"order": "ORDER", "total": "TOTAL", "city": "CITY"}')
_BYE: tuple[_Step, ...] = (("user", "Thank you, that is all."), ("agent", "You are welcome, NAME. Have a good day!"))

_SUBJECTS: dict[str, tuple[_Step, ...]] = {
    "where is my order": (
        ("user", "Hello, where is my order ORDER?"),
        _LOOK_UP,
        ("tool", "track_parcel", '{"order": "ORDER"}', '{"status": "in transit", "at": "depot CITY", "eta_days": 2}'),
        ("agent", "It is at the depot in CITY and should reach you in two days, NAME."),
        ("user", "Can somebody ring before they come?"),
        ("tool", "add_delivery_note", '{"order": "ORDER", "note": "ring before delivery"}', '{"ok": true}'),
        ("agent", "Done: the driver will ring you."),
        *_BYE,
    ),
    "refund": (
        ("user", "I sent order ORDER back a week ago. Where is my money?"),
        _LOOK_UP,
        ("tool", "find_return", '{"order": "ORDER"}', '{"received": true, "condition": "as new"}'),
        ("agent", "Your parcel has arrived. Shall I pay back TOTAL to your card?"),
        ("user", "Yes, please."),
        ("tool", "refund", '{"order": "ORDER", "amount": "TOTAL"}', '{"refund": "R-ORDER", "status": "paid"}'),
        ("agent", "TOTAL is on its way to you, reference R-ORDER."),
        *_BYE,
    ),
    "change address": (
        ("user", "I have moved. Please send order ORDER to 12 Mill Lane, CITY."),
        _LOOK_UP,
        ("agent", "It has not left yet. The new address is 12 Mill Lane, CITY: right?"),
        ("user", "Right."),
        ("tool", "change_address", '{"order": "ORDER", "address": "12 Mill Lane, CITY"}', '{"ok": true}'),
        ("tool", "send_confirmation", '{"order": "ORDER", "to": "customer"}', '{"sent": true}'),
        ("agent", "The address is changed, and a confirmation is in your mail."),
        *_BYE,
    ),
    "cancel order": (
        ("user", "Please cancel order ORDER, I ordered twice."),
        _LOOK_UP,
        ("tool", "shipping_state", '{"order": "ORDER"}', '{"packed": false}'),
        ("agent", "It is not packed yet, so I can cancel it and pay back TOTAL. Shall I?"),
        ("user", "Yes."),
        ("tool", "cancel_order", '{"order": "ORDER"}', '{"cancelled": true}'),
        ("tool", "refund", '{"order": "ORDER", "amount": "TOTAL"}', '{"refund": "R-ORDER", "status": "paid"}'),
        ("agent", "Order ORDER is cancelled, and TOTAL is paid back."),
        *_BYE,
    ),
    "arrived broken": (
        ("user", "The lamp in order ORDER arrived broken."),
        _LOOK_UP,
        ("agent", "I am sorry, NAME. Would you like a new one, or your money back?"),
        ("user", "A new one."),
        ("tool", "check_stock", '{"item": "lamp"}', '{"in_stock": 17}'),
        ("tool", "send_replacement", '{"order": "ORDER"}', '{"order": "ORDER-B", "leaves": "today"}'),
        ("agent", "A new lamp leaves today as order ORDER-B. Keep the broken one."),
        *_BYE,
    ),
    "copy of the invoice": (
        ("user", "I need the invoice of order ORDER again, for my company."),
        _LOOK_UP,
        ("agent", "Gladly. What is the company's name?"),
        ("user", "NAME & Co, CITY."),
        ("tool", "make_invoice", '{"order": "ORDER", "to": "NAME & Co, CITY"}', '{"invoice": "I-ORDER"}'),
        ("tool", "send_mail", '{"document": "I-ORDER"}', '{"sent": true}'),
        ("agent", "Invoice I-ORDER over TOTAL is in your mail."),
        *_BYE,
    ),
}
_NAMES = ("Ada", "Bo", "Chidi", "Dana", "Emil", "Fatma", "Goran", "Hana", "Ines", "Jun", "Kofi")
_CITIES = ("Porto", "Graz", "Leeds", "Turku", "Lyon", "Gdynia", "Bergen")


def support_cases(count: int = 24) -> list[Transcript]:
    """Return the cases ``case-01``, ``case-02``, ..., always the same. Each needs six or seven model calls.

    >>> [(case.case, case.facts["subject"], case.model_calls) for case in support_cases(2)]
    [('case-01', 'where is my order', 6), ('case-02', 'refund', 6)]
    """
    subjects = list(_SUBJECTS)
    return [_case(number, subjects[(number - 1) % len(subjects)]) for number in range(1, count + 1)]


def _case(number: int, subject: str) -> Transcript:
    facts = {
        "NAME": _NAMES[number % len(_NAMES)],
        "CITY": _CITIES[number % len(_CITIES)],
        "TOTAL": f"{19 + 7 * number % 230}.90 EUR",
        "ORDER": str(4700 + number),
    }
    case = f"case-{number:02d}"
    lines = [line for at, step in enumerate(_SUBJECTS[subject]) for line in _lines(step, facts, f"call-{number}-{at}")]
    known: dict[str, Any] = {"subject": subject, "customer": facts["NAME"], "order": facts["ORDER"]}
    return Transcript(case=case, lines=tuple(lines), facts=known)


def _lines(step: _Step, facts: dict[str, str], call_id: str) -> Sequence[TranscriptLine]:
    kind, *texts = (_filled(text, facts) for text in step)
    if kind == "user":
        return [TranscriptLine(role="user", content=texts[0])]
    if kind == "agent":
        return [TranscriptLine(role=ASSISTANT, content=texts[0])]
    tool, arguments, answer = texts
    orjson.loads(arguments), orjson.loads(answer)
    call = {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}
    asked = TranscriptLine(role=ASSISTANT, tool_calls=[call])
    return [asked, TranscriptLine(role="tool", content=answer, tool_call_id=call_id, name=tool)]


def _filled(text: str, facts: dict[str, str]) -> str:
    for name, value in facts.items():
        text = text.replace(name, value)
    return text
