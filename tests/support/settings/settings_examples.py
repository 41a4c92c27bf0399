"""Settings made for a test: of an environment alone, of any keywords, and some that are full of secrets."""

from __future__ import annotations

from typing import Any

from seekpoint.schemas.config.settings import Settings

__all__ = ["GROUPS", "SECRETS", "load", "make"]

GROUPS = ("kafka", "kafka_producer", "kafka_consumer", "kafka_admin", "redis", "topic")

SECRETS = Settings(
    redis_url="redis://ann:hush%2F1@cache:6379/0?ssl_password=hush2",
    kafka={
        "sasl.username": "ann",
        "sasl.password": "hush3",
        "ssl.key.pem": "-----BEGIN\nhush4\n-----END",
        "ssl.key.location": "/etc/key",
        "sasl.oauthbearer.client.secret": "hush5",
        "sasl.oauthbearer.config": "principal=hush6",
        "sasl.oauthbearer.method": "oidc",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
    },
    kafka_producer={"ssl.keystore.password": "hush7"},
    kafka_consumer={"sasl.jaas.config": "hush8", "some.new.api.token": "hush9"},
    kafka_admin={"sasl.oauthbearer.token.endpoint.url": "https://bob:hush10@idp/token"},
    redis={"password": "hush11", "client_name": "ann"},
)


def load(environ: dict[str, str] | None = None, **overrides: Any) -> Settings:
    """Settings from this environment alone."""
    return Settings.load(environ=environ or {}, **overrides)


def make(**given: Any) -> Settings:
    """Settings of keywords that no type checker would let pass."""
    return Settings(**given)
