"""Arguments with which every command gets as far as the journal."""

from __future__ import annotations

from typing import Any

__all__ = ["LOCAL_COMMANDS", "usual_arguments"]

LOCAL_COMMANDS = frozenset(
    {
        "up",
        "down",
        "status",
        "demo",
        "schema check",
        "copy",
        "replay",
        "doctor",
        "serve dispatcher",
        "serve reactors",
        "console token ls",
        "console token add",
        "console token remove",
    }
)
"""Commands that begin with something else than the journal: the local cluster, a file, a module, a report of all."""

_ARGUMENTS = {
    "attachment": "be8889d3 scan.png",
    "run": "--agent touching:breaking --new",
    "submit": "--agent refund",
    "signal": "paid",
    "approve": "refund",
    "deny": "refund",
    "fork": "order-2 --at-seq 1",
    "rewind": "--to-seq 1",
    "diff": "order-1 order-2",
    "export": "order-1 order.spk",
    "import": "order.spk",
    "worker": "touching:breaking",
    "effects show": "pay:1",
    "effects resolve": "pay:1 --failed no",
    "effects revoke": "pay:1",
    "budget raise": "usd 1",
    "dlq show": "0:1",
    "shared get": "rate",
    "shared set": "rate 1",
    "schedules pause": "report",
    "schedules resume": "report",
    "schedules trigger": "report",
    "topics restore": "manifest.json",
    "trim": "--to-floor",
    "verify": "order-1",
    "redrive": "order-1",
    "rerun": "order-1 --agent touching:breaking",
    "replay-check": "order-1 --agent touching:breaking",
}


def usual_arguments(name: str, command: Any) -> list[str]:
    """Return the words of a command line, from the command's name on."""
    ids = ["order-1" for each in command.params if each.name in ("process_id", "fork_id") and each.required]
    return [*name.split(), *ids, *_ARGUMENTS.get(name, "").split()]
