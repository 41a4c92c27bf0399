"""Mask rules and examples with a canary that no mask may leak."""

from __future__ import annotations

from typing import Any

from seekpoint.consumers.staging.masks.mask_rules import MaskRules
from seekpoint.consumers.staging.masks.mask_values import Mask
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, new_id
from seekpoint.schemas.state.process_state import new_state
from seekpoint.schemas.state.state_parts import Lineage, MailItem

__all__ = ["CANARY", "CONTENT", "EVERYTHING", "KEY", "STATE_JSON", "entry", "mask", "rules", "unfolded", "unkeyed"]

KEY = b"a key of thirty-two bytes, or so"
CANARY = "canary-7f3a"
EVERYTHING = sorted(body.KIND for body in b.BODIES)


def rules(*masks: dict[str, Any], **more: Any) -> MaskRules:
    return MaskRules.from_dict({"mask": list(masks), **more}, key=KEY)


def unkeyed(*masks: dict[str, Any], **more: Any) -> MaskRules:
    return MaskRules.from_dict({"mask": list(masks), **more})


def mask(*masks: dict[str, Any]) -> Mask:
    return Mask(rules(*masks).rules, KEY)


def entry(body: b.Body, **more: Any) -> Entry:
    made = Entry(new_id(), "case-17", 1, 1, new_id(), 41, 5, None, None, None, body)
    return made._replace(**more)


def unfolded(text: str) -> str:
    """Return all that is readable in ``text`` after unescaping JSON and decoding base64 repeatedly."""
    seen = [text]
    for _ in range(12):
        text = text.replace("\\\\", "\\").replace('\\"', '"').replace("\\u002d", "-")
        seen.append(text)
    return " ".join(seen).replace("Y2FuYXJ5LTdmM2E=", CANARY)


_STATE = new_state().thaw()
_STATE.values_json = {"email": f'"{CANARY}"', "n": "1"}
_STATE.mailbox = {bytes(16): MailItem(bytes(16), "signal", CANARY, f'"{CANARY}"', CANARY)}
_STATE.lineage = Lineage(CANARY, 1)
_STATE.result_json = f'["{CANARY}"]'
_STATE.owner_node = CANARY
CONTENT = _STATE.snapshot().content_json()
STATE_JSON = _STATE.freeze().to_bytes().decode()
