"""The agents of a worker, and the name of the group of workers that have the same ones."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from seekpoint.producers.durable.steps.agent import Agent, check_is_agent
from seekpoint.schemas.errors import InvalidSetting


def agents_by_name(agents: Iterable[Agent]) -> dict[str, Agent]:
    """Return the agents by name. Raises ``InvalidSetting`` if there is none, or two have one name."""
    found: dict[str, Agent] = {}
    for one in agents:
        check_is_agent(one)
        if one.name in found:
            raise InvalidSetting("two agents of a worker have one name", setting="agents", name=one.name)
        found[one.name] = one
    if not found:
        raise InvalidSetting("a worker needs at least one agent", setting="agents")
    return found


def group_of(agents: Iterable[Agent]) -> str:
    """Name the group of the workers with these agents."""
    text = "\0".join(sorted(f"{one.name} {one.version}" for one in agents))
    return blake2b(text.encode(), digest_size=6).hexdigest()
