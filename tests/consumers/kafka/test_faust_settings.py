"""What Faust is told: our settings in its words."""

from __future__ import annotations

from pathlib import Path

import pytest

from seekpoint.consumers.kafka.faust_settings import faust_config
from seekpoint.schemas.config.limits import DEFAULT_LIMITS
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting


def test_guarantees_are_not_left_to_defaults() -> None:
    """All replicas acknowledge, nothing is exactly once, no web server, and an answer of the record limit fits."""
    config = faust_config(Settings(bootstrap_servers="SSL://a:9093, b:9094", node_id="n"), DEFAULT_LIMITS)
    assert config["broker"] == ["kafka://a:9093", "kafka://b:9094"]
    assert config["producer_acks"] == -1
    assert config["processing_guarantee"] == "at_least_once"
    assert config["consumer_auto_offset_reset"] == "earliest"
    assert config["web_enabled"] is False
    assert config["consumer_group_instance_id"] == "n"
    assert config["producer_max_request_size"] > DEFAULT_LIMITS.record_bytes
    assert "broker_credentials" not in config


def test_a_session_is_one_that_brokers_accept() -> None:
    """Six seconds, the least that they accept, whatever the time-out of owners; and at least six heartbeats in it."""
    config = faust_config(Settings(owner_timeout_s=2.0, heartbeat_interval_s=0.5), DEFAULT_LIMITS)
    assert (config["broker_session_timeout"], config["broker_heartbeat_interval"]) == (6.0, 0.5)
    long = faust_config(Settings(owner_timeout_s=90.0, heartbeat_interval_s=80.0), DEFAULT_LIMITS)
    assert (long["broker_session_timeout"], long["broker_heartbeat_interval"]) == (6.0, 1.0)
    assert long["broker_request_timeout"] > 6.0


def test_who_signs_in_by_password_does_so_here_too() -> None:
    """SASL works by name and password, with and without TLS."""
    kafka = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "ann", "sasl.password": "pw"}
    plain = faust_config(Settings(kafka=kafka), DEFAULT_LIMITS)["broker_credentials"]
    assert (plain.username, plain.password, plain.protocol.value) == ("ann", "pw", "SASL_PLAINTEXT")
    secure = {**kafka, "security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512"}
    over_tls = faust_config(Settings(kafka=secure), DEFAULT_LIMITS)["broker_credentials"]
    assert (over_tls.protocol.value, over_tls.mechanism.value) == ("SASL_SSL", "SCRAM-SHA-512")
    assert over_tls.ssl_context.check_hostname


def test_tls_alone() -> None:
    """It uses the system's authorities, and checks host names unless the settings disable that."""
    strict = faust_config(Settings(kafka={"security.protocol": "ssl"}), DEFAULT_LIMITS)["broker_credentials"]
    assert strict.context.check_hostname
    lax = {"security.protocol": "ssl", "ssl.endpoint.identification.algorithm": "none"}
    assert not faust_config(Settings(kafka=lax), DEFAULT_LIMITS)["broker_credentials"].context.check_hostname


@pytest.mark.parametrize(
    "kafka",
    [
        {"security.protocol": "carrier-pigeon"},
        {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"},
        {"security.protocol": "ssl", "ssl.ca.location": "no-such-file.pem"},
    ],
    ids=["protocol", "mechanism", "file"],
)
def test_settings_that_faust_does_not_support_are_named(kafka: dict[str, str], tmp_path: Path) -> None:
    """The error comes before any connection: none is made without the requested protection."""
    with pytest.raises(InvalidSetting):
        faust_config(Settings(kafka=kafka), DEFAULT_LIMITS)
