"""A settings file that the user did not name: an attacker who writes it gains nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from seekpoint.schemas import Settings
from seekpoint.schemas.config.cluster_profiles import load_clusters
from seekpoint.schemas.errors import InvalidSetting
from settings_examples import load

Write = Callable[[str], Path]

OPTIONS = [
    ("folds", 'folds = ["evil"]'),
    ("effects", 'effects = "recorded"'),
    ("tracing", 'tracing = "content"'),
    ("redis_url_file", 'redis_url_file = "/etc/passwd"'),
    ("redis_url", 'redis_url = "rediss://cache:6379/0?ssl_cert_reqs=none"'),
    ("redis_url", 'redis_url = "rediss://cache:6379/0?ssl_ca_certs=mine.pem"'),
    ("plugin.library.paths", '[kafka]\nplugin.library.paths = "./evil.so"'),
    ("plugin.library.paths", '[kafka]\n"plugin.library.paths" = "./evil.so"'),
    ("plugin.library.paths", '[kafka.producer]\nplugin.library.paths = "./evil.so"'),
    ("plugin.library.paths", '[kafka.consumer]\nplugin.library.paths = "./evil.so"'),
    ("plugin.library.paths", '[kafka.admin]\nplugin.library.paths = "./evil.so"'),
    ("ssl.engine.location", '[kafka]\nssl.engine.location = "./evil.so"'),
    ("ssl.providers", '[kafka]\nssl.providers = "evil"'),
    ("sasl.kerberos.kinit.cmd", '[kafka]\nsasl.kerberos.kinit.cmd = "touch pwned"'),
    ("ssl.ca.location", '[kafka]\nssl.ca.location = "./mine.pem"'),
    ("ssl.ca.pem", '[kafka]\nssl.ca.pem = "x"'),
    ("enable.ssl.certificate.verification", "[kafka]\nenable.ssl.certificate.verification = false"),
    ("ssl.endpoint.identification.algorithm", '[kafka]\nssl.endpoint.identification.algorithm = "none"'),
    ("ssl.cipher.suites", '[kafka]\nssl.cipher.suites = "NULL"'),
    ("https.ca.location", '[kafka]\nhttps.ca.location = "./mine.pem"'),
    ("security.protocol", '[kafka]\nsecurity.protocol = "SASL_PLAINTEXT"'),
    ("security.protocol", '[kafka.producer]\nsecurity.protocol = "plaintext"'),
    ("sasl.mechanism", '[kafka]\nsasl.mechanism = "GSSAPI"'),
    ("sasl.oauthbearer.token.endpoint.url", '[kafka]\nsasl.oauthbearer.token.endpoint.url = "https://evil"'),
    ("sasl.oauthbearer.method", '[kafka]\nsasl.oauthbearer.method = "oidc"'),
    ("sasl.password.file", '[kafka]\nsasl.password.file = "/etc/passwd"'),
    ("ssl.key.location", '[kafka]\nssl.key.location = "/home/ann/key"'),
    ("debug", '[kafka]\ndebug = "all"'),
    ("password_file", '[redis]\npassword_file = "/etc/passwd"'),
    ("ssl_cert_reqs", '[redis]\nssl_cert_reqs = "none"'),
    ("ssl_check_hostname", "[redis]\nssl_check_hostname = false"),
    ("unix_socket_path", '[redis]\nunix_socket_path = "x"'),
]


@pytest.mark.parametrize(("option", "text"), OPTIONS, ids=[text for _, text in OPTIONS])
def test_a_file_that_nobody_named_neither_loads_code_nor_weakens_tls(toml: Write, option: str, text: str) -> None:
    """The error has the file and the option, and no file that it names is read."""
    path = toml(text)
    with pytest.raises(InvalidSetting, match="you did not name") as caught:
        load()
    assert option in str(caught.value.setting)
    assert str(path) in caught.value.message
    for way in ("--config", "SEEKPOINT_CONFIG=", "Settings.load("):
        assert way in caught.value.hint


@pytest.mark.parametrize("option", ["journal", "journal_url"])
@pytest.mark.parametrize("outside", [{"SEEKPOINT_BOOTSTRAP_SERVERS": "prod:9092"}, {"SEEKPOINT_JOURNAL": "fleet"}])
def test_a_file_that_nobody_named_does_not_choose_another_journal(
    toml: Write, option: str, outside: dict[str, str]
) -> None:
    """Where the environment names servers or a journal, a found file leads nobody to another one."""
    toml(f"{option} = 'sqlite:///x.db'" if option == "journal_url" else "journal = 'other'")
    if option == "journal" and "SEEKPOINT_JOURNAL" in outside:
        assert load(outside).journal == "fleet"
        return
    with pytest.raises(InvalidSetting, match="another journal"):
        load(outside)


@pytest.mark.parametrize("text", ['folds = ["evil"]', '[kafka]\nplugin.library.paths = "./evil.so"'])
def test_a_file_that_was_named_may_set_everything(toml: Write, text: str) -> None:
    """The argument or SEEKPOINT_CONFIG names it."""
    path = toml(text)
    by_argument = Settings.load(path, environ={})
    assert by_argument == load({"SEEKPOINT_CONFIG": "seekpoint.toml"})
    assert by_argument != Settings()


def test_an_ordinary_file_need_not_be_named(toml: Write) -> None:
    """It may set journal, servers, sizes and times, turn TLS on, and have its server's credentials."""
    toml(
        """
        journal = "fleet"
        bootstrap_servers = "kafka:9093"
        redis_url = "rediss://ann:pw@cache:6379/0?socket_timeout=2"
        linger_ms = 1
        [kafka]
        security.protocol = "sasl_ssl"
        sasl.mechanism = "SCRAM-SHA-512"
        sasl.username = "ann"
        sasl.password = "pw"
        [kafka.producer]
        batch.size = 1000
        [redis]
        socket_keepalive = true
        [topic]
        flush.messages = 1
        """
    )
    settings = load({"SEEKPOINT_NODE_ID": "a"})
    assert (settings.journal, settings.kafka["sasl.password"], settings.kafka_producer["batch.size"]) == (
        "fleet",
        "pw",
        "1000",
    )


CREDENTIALS = [
    {"SEEKPOINT_KAFKA_SASL_PASSWORD": "hush"},
    {"SEEKPOINT_KAFKA_SASL_USERNAME": "ann"},
    {"SEEKPOINT_KAFKA_PRODUCER_SASL_PASSWORD": "hush"},
    {"SEEKPOINT_KAFKA_SSL_KEY_LOCATION": "/etc/key"},
    {"SEEKPOINT_KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET": "hush"},
]


@pytest.mark.parametrize("environ", CREDENTIALS, ids=[next(iter(each)) for each in CREDENTIALS])
def test_credentials_of_the_environment_are_not_sent_to_a_server_of_the_file(
    toml: Write, environ: dict[str, str]
) -> None:
    """A server that the user set beside the credentials is the user's choice."""
    toml('bootstrap_servers = "evil:9092"\n[kafka]\nclient.rack = "r"')
    with pytest.raises(InvalidSetting, match="you did not name") as caught:
        load(environ)
    assert caught.value.setting == "bootstrap_servers"
    assert "hush" not in str(caught.value)
    assert load({**environ, "SEEKPOINT_BOOTSTRAP_SERVERS": "mine:1"}).bootstrap_servers == "mine:1"
    assert load({**environ, "SEEKPOINT_CONFIG": "seekpoint.toml"}).bootstrap_servers == "evil:9092"


def test_credentials_of_a_keyword_are_not_sent_to_a_server_of_the_file(toml: Write) -> None:
    """The program must set the server too, or name the file."""
    toml('bootstrap_servers = "evil:9092"')
    with pytest.raises(InvalidSetting, match="you did not name"):
        load(kafka={"sasl.password": "hush"})


@pytest.mark.parametrize("text", ['sasl.mechanism = "PLAIN"', 'sasl.username = "mallory"', 'sasl.password = "x"'])
def test_the_file_does_not_change_the_identity_of_the_environment(toml: Write, text: str) -> None:
    """With PLAIN instead of SCRAM the server would receive the password."""
    toml(f"[kafka.producer]\n{text}")
    environ = {"SEEKPOINT_BOOTSTRAP_SERVERS": "mine:1", "SEEKPOINT_KAFKA_SASL_PASSWORD": "hush"}
    with pytest.raises(InvalidSetting, match="you did not name"):
        load(environ)


@pytest.mark.parametrize("environ", [{"SEEKPOINT_REDIS_PASSWORD": "hush"}, {"SEEKPOINT_REDIS_SSL_KEYFILE": "/etc/key"}])
def test_redis_credentials_are_not_sent_to_a_redis_of_the_file(toml: Write, environ: dict[str, str]) -> None:
    """The rule is that of Kafka's credentials."""
    toml('redis_url = "redis://evil:6379/0"')
    with pytest.raises(InvalidSetting, match="you did not name") as caught:
        load(environ)
    assert caught.value.setting == "redis_url"
    assert load({**environ, "SEEKPOINT_REDIS_URL": "redis://mine"}).redis_url == "redis://mine"


def test_a_profile_of_a_file_that_nobody_named_has_the_same_limits(toml: Write) -> None:
    """A replay connects to it."""
    toml('[clusters.staging]\nbootstrap_servers = "a:1"\nstaging = true\nclient.rack = "r"')
    assert load_clusters(environ={})["staging"].is_staging
    path = toml('[clusters.staging]\nbootstrap_servers = "a:1"\nplugin.library.paths = "./evil.so"')
    with pytest.raises(InvalidSetting, match=r"clusters\.staging plugin\.library\.paths"):
        load_clusters(environ={})
    assert load_clusters(path, {})["staging"].settings.kafka == {"plugin.library.paths": "./evil.so"}
