"""The settings of a Faust app, made from ``Settings``: servers, credentials, and what the guarantees need.

Faust's client is aiokafka. Of librdkafka's settings those for TLS and for SASL by name and password carry over; the
others do not exist there.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting

if TYPE_CHECKING:
    from faust.types.auth import CredentialsT

_RECORD_OVERHEAD_BYTES = 65_536
_SESSION_S = 6.0
"""The brokers' minimum, unless ``group.min.session.timeout.ms`` is set. After it another member goes on."""
_REQUEST_TIMEOUT_S = 30.0
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def faust_config(settings: Settings, limits: Limits) -> dict[str, Any]:
    """Return the keyword settings of ``faust.App``, all but its id and its data folder.

    With a ``node_id`` the worker is a static member of the group: after a restart it continues at once.
    """
    config: dict[str, Any] = {
        "broker": [f"kafka://{server}" for server in _servers(settings.bootstrap_servers)],
        "store": "memory://",
        "web_enabled": False,
        "autodiscover": False,
        "processing_guarantee": "at_least_once",
        "broker_session_timeout": _SESSION_S,
        "broker_heartbeat_interval": min(settings.heartbeat_interval_s, _SESSION_S / 6),
        "broker_request_timeout": max(_REQUEST_TIMEOUT_S, _SESSION_S + 1),
        "broker_check_crcs": True,
        # A new group starts with the oldest request, because no member has answered it.
        "consumer_auto_offset_reset": "earliest",
        "consumer_max_fetch_size": limits.record_bytes + _RECORD_OVERHEAD_BYTES,
        "consumer_group_instance_id": settings.node_id,
        "producer_acks": -1,
        "producer_linger": 0.0,
        "producer_max_request_size": limits.record_bytes + _RECORD_OVERHEAD_BYTES,
        "producer_request_timeout": _REQUEST_TIMEOUT_S,
        "topic_replication_factor": settings.replication_factor or 1,
    }
    credentials = _credentials(settings)
    if credentials is not None:
        config["broker_credentials"] = credentials
    return config


def _servers(bootstrap_servers: str) -> list[str]:
    return [server.strip().rpartition("://")[2] for server in bootstrap_servers.split(",") if server.strip()]


def _credentials(settings: Settings) -> CredentialsT | None:
    """Return the credentials; None if the cluster asks for none."""
    given = {**settings.kafka, **settings.kafka_consumer}
    protocol = given.get("security.protocol", "plaintext").lower()
    if protocol == "plaintext":
        return None
    if protocol not in ("ssl", "sasl_plaintext", "sasl_ssl"):
        raise InvalidSetting("Faust does not support this security.protocol", setting="kafka security.protocol")
    from faust.auth import SASLCredentials, SSLCredentials

    context = _tls(given) if protocol.endswith("ssl") else None
    if context is not None and protocol == "ssl":
        return SSLCredentials(context)
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms", "PLAIN")).upper()
    if mechanism not in _MECHANISMS:
        raise InvalidSetting(
            f"the recovery service supports the mechanisms {', '.join(_MECHANISMS)}",
            setting="kafka sasl.mechanism",
            value=mechanism,
        )
    name, password = given.get("sasl.username"), given.get("sasl.password")
    return SASLCredentials(username=name, password=password, ssl_context=context, mechanism=mechanism)


def _tls(given: dict[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=given.get("ssl.ca.location"))
        if "ssl.certificate.location" in given:
            context.load_cert_chain(
                given["ssl.certificate.location"], given.get("ssl.key.location"), given.get("ssl.key.password")
            )
    except (OSError, ssl.SSLError) as exc:
        raise InvalidSetting(f"a TLS file cannot be used: {exc}", setting="kafka ssl.*") from exc
    if given.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if given.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
