"""Connectors: found by name when they are used, refused when they could not keep what they promise."""

from __future__ import annotations

from typing import Any

import pytest

from seekpoint.producers.durable.effects.connectors import Connector, Connectors, accepts
from seekpoint.schemas.errors import InvalidName, InvalidSetting, UnknownConnector


def pay(amount: int, *, idempotency_key: str) -> str:
    return f"{amount} by {idempotency_key}"


def test_a_connector_that_is_not_registered_is_an_error_that_says_what_to_register() -> None:
    """Its name, what there is, and the call that makes it known."""
    known = Connectors()
    known.register(Connector("mail"))
    with pytest.raises(UnknownConnector) as caught:
        known["payments"]
    assert caught.value.connector == "payments"
    assert caught.value.known == ["mail"]
    assert "register(Connector(" in str(caught.value)
    assert "mail" in known
    assert "payments" not in known


def test_a_connector_is_looked_up_when_it_is_used() -> None:
    """Registering one of the same name again replaces it."""
    known = Connectors()
    known.register(Connector("payments", pay))
    later = known.register(Connector("payments", pay, max_attempts=2))
    assert known["payments"] is later


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "x" * 101])
def test_a_name_that_cannot_stand_in_a_key_is_refused(name: str) -> None:
    """No slash, no control characters, 1 to 100 of them."""
    with pytest.raises(InvalidName):
        Connector(name)


def test_a_system_that_is_said_to_enforce_the_key_must_be_given_it() -> None:
    """Else a second call would be a second effect."""
    with pytest.raises(InvalidSetting, match="idempotency_key"):
        Connector("payments", lambda amount: amount, enforces_key=True)
    assert Connector("payments", pay, enforces_key=True).enforces_key


def test_a_dispatcher_needs_something_to_call() -> None:
    """An outbox without dispatch= would wait for ever."""
    with pytest.raises(InvalidSetting, match="dispatch"):
        Connector("payments", outbox=True)
    with pytest.raises(InvalidSetting, match="at least once"):
        Connector("payments", pay, max_attempts=0)


def test_only_a_parameter_of_that_name_is_handed_the_key() -> None:
    """What takes anything may pass it on to somebody who does not expect it; what hides its signature is left alone."""

    class Client:
        def send(self, text: str, idempotency_key: str | None = None) -> None: ...

        async def forward(self, **options: Any) -> None: ...

        def positional(self, idempotency_key: str, /) -> None: ...

    client = Client()
    assert accepts(client.send, "idempotency_key")
    assert accepts(pay, "idempotency_key")
    assert not accepts(client.forward, "idempotency_key")
    assert not accepts(client.positional, "idempotency_key")
    assert not accepts(print, "idempotency_key")
    assert not accepts(type("Odd", (), {"__call__": None, "__signature__": 1})(), "idempotency_key")
