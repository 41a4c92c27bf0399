"""Client options: those that a guarantee depends on are refused, all others reach the client."""

from __future__ import annotations

import re
from typing import Any

import pytest

from seekpoint.schemas.config.client_options import REFUSED, ClientOptions
from seekpoint.schemas.config.setting_sources import variable
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting
from settings_examples import GROUPS, load, make

REFUSALS = [(group, name) for group in GROUPS for name in REFUSED[group]]


class TestRefused:
    @pytest.mark.parametrize(("group", "name"), REFUSALS)
    def test_an_option_that_a_guarantee_depends_on_is_refused_with_the_reason(self, group: str, name: str) -> None:
        """This holds for each source of settings."""
        reason = re.escape(REFUSED[group][name])
        with pytest.raises(InvalidSetting, match=reason):
            make(**{group: {name: "1"}})
        with pytest.raises(InvalidSetting, match=reason):
            load(**{group: {name: "1"}})
        if "_" not in name or group == "redis":
            option = f"{variable(group)}_{name.upper().replace('.', '_')}"
            if option != "SEEKPOINT_REDIS_URL":
                with pytest.raises(InvalidSetting, match=reason):
                    load({option: "1"})

    @pytest.mark.parametrize(
        "name",
        [
            *("acks", "request.required.acks", "enable.idempotence", "enable.gapless.guarantee", "message.timeout.ms"),
            *("delivery.timeout.ms", "max.in.flight", "max.in.flight.requests.per.connection", "retries"),
            *("message.send.max.retries", "transactional.id", "partitioner", "dr_cb", "dr_msg_cb", "isolation.level"),
            *(
                "auto.offset.reset",
                "enable.auto.commit",
                "enable.auto.offset.store",
                "group.id",
                "enable.partition.eof",
            ),
            *("bootstrap.servers", "ACKS"),
        ],
    )
    @pytest.mark.parametrize("group", ["kafka", "kafka_producer", "kafka_consumer", "kafka_admin"])
    def test_every_kafka_group_refuses_the_options_of_guarantees(self, group: str, name: str) -> None:
        """librdkafka's settings for all clients reach the producer too."""
        with pytest.raises(InvalidSetting, match="may not be set"):
            make(**{group: {name: "1"}})

    def test_a_url_cannot_set_a_refused_option(self) -> None:
        """In redis-py the URL's query overrides keywords."""
        with pytest.raises(InvalidSetting, match="decode_responses"):
            Settings(redis_url="redis://cache/0?client_name=a&decode_responses=true")

    def test_options_checked_for_one_group_are_checked_again_for_another(self) -> None:
        """An option that is legal for Redis may be refused for Kafka."""
        options = ClientOptions("redis", {"acks": "1"})
        with pytest.raises(InvalidSetting, match="acks"):
            Settings(kafka=options)

    def test_numbers_and_switches_become_text(self) -> None:
        """The texts are those that librdkafka parses."""
        options = {"a": 1, "b": 0.5, "c": True}
        assert make(kafka=options).kafka == {"a": "1", "b": "0.5", "c": "true"}

    @pytest.mark.parametrize("value", [print, None, ["a"], {"a": 1}, b"a"], ids=repr)
    def test_callbacks_and_objects_are_refused(self, value: Any) -> None:
        """Settings are text: they are pickled and read from files."""
        with pytest.raises(InvalidSetting, match="error_cb"):
            make(kafka={"error_cb": value})


class TestConfigs:
    def test_seekpoints_options_override_the_users(self) -> None:
        """Options for one kind of client override those for all; Seekpoint's override both."""
        settings = Settings(
            node_id="node-1",
            bootstrap_servers="kafka:1",
            linger_ms=2,
            kafka={"client.id": "mine", "socket.timeout.ms": "1", "security.protocol": "SSL"},
            kafka_producer={"socket.timeout.ms": "2"},
            kafka_consumer={"socket.timeout.ms": "3"},
            kafka_admin={"socket.timeout.ms": "4"},
        )
        common = {"client.id": "node-1", "bootstrap.servers": "kafka:1", "security.protocol": "SSL"}
        assert settings.producer_config() == {**common, "socket.timeout.ms": "2", "linger.ms": 2}
        assert settings.consumer_config() == {**common, "socket.timeout.ms": "3"}
        assert settings.admin_config() == {**common, "socket.timeout.ms": "4"}

    def test_redis_options_are_typed(self) -> None:
        """redis-py takes numbers and booleans, not text."""
        options = {"socket_timeout": "2", "max_connections": "9", "socket_keepalive": "no", "client_name": "7"}
        expected = {"socket_timeout": 2.0, "max_connections": 9, "socket_keepalive": False, "client_name": "7"}
        assert Settings(redis=options).redis_config() == expected

    @pytest.mark.parametrize(("name", "text"), [("max_connections", "1.5"), ("socket_keepalive", "maybe")])
    def test_a_redis_option_of_the_wrong_type_is_named(self, name: str, text: str) -> None:
        """The error is raised when the settings are constructed, not when Redis is first used."""
        with pytest.raises(InvalidSetting, match=name):
            Settings(redis={name: text})
