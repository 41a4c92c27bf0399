"""The sources of settings: keywords, the environment and a file, and unknown names in each of them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting
from settings_examples import load, make


class TestSources:
    def test_without_any_source_the_defaults_apply(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Neither variables nor a file are required."""
        monkeypatch.chdir(tmp_path)
        assert load() == Settings()

    def test_keyword_overrides_environment_overrides_file_overrides_default(self, toml: Callable[[str], Path]) -> None:
        """Each source hides those below it."""
        toml('journal = "file"\nnode_id = "file"\npartitions = 3')
        settings = load({"SEEKPOINT_JOURNAL": "env", "SEEKPOINT_NODE_ID": "env"}, journal="keyword")
        assert (settings.journal, settings.node_id, settings.partitions, settings.linger_ms) == ("keyword", "env", 3, 0)

    def test_options_are_merged_name_by_name(self, toml: Callable[[str], Path]) -> None:
        """An option in the environment does not hide other options in the file."""
        toml('[kafka]\nclient.rack = "file"\nclient.id = "c"\n"socket.timeout.ms" = 7')
        settings = load({"SEEKPOINT_KAFKA_CLIENT_RACK": "env"}, kafka={"socket.timeout.ms": 8})
        assert settings.kafka == {"client.rack": "env", "client.id": "c", "socket.timeout.ms": "8"}

    def test_the_environment_can_set_every_setting_and_every_group(self) -> None:
        """A variable has the name of the setting or the prefix of the group."""
        settings = load(
            {
                "SEEKPOINT_REDIS_URL": "redis://cache:1/2",
                "SEEKPOINT_REDIS_SOCKET_TIMEOUT": "2.5",
                "SEEKPOINT_KAFKA_SECURITY_PROTOCOL": "SSL",
                "SEEKPOINT_KAFKA_PRODUCER_BATCH_SIZE": "1000",
                "SEEKPOINT_KAFKA_CONSUMER_FETCH_MIN_BYTES": "1",
                "SEEKPOINT_KAFKA_ADMIN_SOCKET_TIMEOUT_MS": "2",
                "SEEKPOINT_TOPIC_FLUSH_MESSAGES": "1",
                "SEEKPOINT_PARTITIONS": "16",
                "SEEKPOINT_REPLICATION_FACTOR": "none",
                "SEEKPOINT_LINGER_MS": "0.5",
                "UNRELATED": "x",
            }
        )
        assert settings == Settings(
            redis_url="redis://cache:1/2",
            redis={"socket_timeout": "2.5"},
            kafka={"security.protocol": "SSL"},
            kafka_producer={"batch.size": "1000"},
            kafka_consumer={"fetch.min.bytes": "1"},
            kafka_admin={"socket.timeout.ms": "2"},
            topic={"flush.messages": "1"},
            partitions=16,
            linger_ms=0.5,
        )

    @pytest.mark.parametrize("text", ["", "none", "None"])
    def test_the_environment_can_disable_redis(self, text: str) -> None:
        """The value is empty or none."""
        assert load({"SEEKPOINT_REDIS_URL": text}).redis_url is None

    def test_the_file_has_tables_for_the_groups(self, toml: Callable[[str], Path]) -> None:
        """Dotted names may be quoted; numbers and booleans become librdkafka's texts."""
        toml(
            """
            append_timeout_s = 60
            redis_url = "none"
            [kafka]
            security.protocol = "SSL"
            "log.connection.close" = false
            [kafka.producer]
            batch.size = 1000
            [kafka.consumer]
            "fetch.min.bytes" = 1
            [kafka.admin]
            socket.timeout.ms = 5
            [redis]
            socket_timeout = 2.5
            [topic]
            flush.messages = 1
            """
        )
        assert load() == Settings(
            append_timeout_s=60,
            redis_url=None,
            kafka={"security.protocol": "SSL", "log.connection.close": "false"},
            kafka_producer={"batch.size": "1000"},
            kafka_consumer={"fetch.min.bytes": "1"},
            kafka_admin={"socket.timeout.ms": "5"},
            redis={"socket_timeout": "2.5"},
            topic={"flush.messages": "1"},
        )

    def test_the_file_may_be_elsewhere(self, toml: Callable[[str], Path], tmp_path: Path) -> None:
        """The argument overrides SEEKPOINT_CONFIG, which overrides the working directory."""
        toml('journal = "here"')
        for name in ("named", "argument"):
            (tmp_path / name).write_text(f'journal = "{name}"')
        assert load().journal == "here"
        assert load({"SEEKPOINT_CONFIG": str(tmp_path / "named")}).journal == "named"
        environ = {"SEEKPOINT_CONFIG": str(tmp_path / "named")}
        assert Settings.load(tmp_path / "argument", environ=environ).journal == "argument"

    @pytest.mark.parametrize(
        "text",
        [
            "journal = ",
            "journal = 1",
            "kafka = 1",
            'redis = "x"',
            "[journal]",
            "[kafka]\nproducer = 1",
            "[kafka]\na = [1]",
        ],
    )
    def test_the_error_for_an_invalid_file_has_its_path(self, toml: Callable[[str], Path], text: str) -> None:
        """The file is no TOML, or has values of wrong types."""
        path = toml(text)
        with pytest.raises(InvalidSetting, match=re.escape(str(path.name))):
            load()

    @pytest.mark.parametrize("content", [None, b"\xff\xfe"], ids=["missing", "not text"])
    def test_a_file_that_was_named_must_be_readable(self, tmp_path: Path, content: bytes | None) -> None:
        """A missing or unreadable file is an error, not an empty one."""
        path = tmp_path / "other.toml"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InvalidSetting, match=re.escape(str(path))):
            Settings.load(path, environ={})
        with pytest.raises(InvalidSetting, match=re.escape(str(path))):
            load({"SEEKPOINT_CONFIG": str(path)})

    def test_variables_of_kubernetes_are_ignored(self) -> None:
        """A service named seekpoint or seekpoint-redis sets them in every pod."""
        environ = {
            "SEEKPOINT_SERVICE_HOST": "10.0.0.1",
            "SEEKPOINT_SERVICE_PORT": "80",
            "SEEKPOINT_SERVICE_PORT_HTTP": "80",
            "SEEKPOINT_PORT": "tcp://10.0.0.1:80",
            "SEEKPOINT_PORT_80_TCP": "tcp://10.0.0.1:80",
            "SEEKPOINT_PORT_80_TCP_ADDR": "10.0.0.1",
            "SEEKPOINT_REDIS_SERVICE_HOST": "10.0.0.2",
            "SEEKPOINT_REDIS_PORT": "tcp://10.0.0.2:6379",
            "SEEKPOINT_REDIS_PORT_6379_TCP_PROTO": "tcp",
        }
        assert load(environ) == load()


class TestWrongNames:
    @pytest.mark.parametrize(
        ("name", "nearest"),
        [
            ("SEEKPOINT_PARTITONS", "SEEKPOINT_PARTITIONS"),
            ("SEEKPOINT_JOURNEL", "SEEKPOINT_JOURNAL"),
            ("SEEKPOINT_journal", "SEEKPOINT_JOURNAL"),
            ("SEEKPOINT_CONFIGURE", "SEEKPOINT_CONFIG"),
            ("SEEKPOINT_KAFKA_CONSUMER", "docs/settings.md"),
            ("SEEKPOINT_KAFKA_", "docs/settings.md"),
            ("SEEKPOINT_", "docs/settings.md"),
        ],
    )
    def test_an_unknown_variable_raises_with_the_nearest_match(self, name: str, nearest: str) -> None:
        """It is never silently ignored."""
        with pytest.raises(InvalidSetting, match=name) as caught:
            load({name: "1"})
        assert nearest in caught.value.hint

    def test_an_unknown_keyword_raises_with_the_nearest_match(self) -> None:
        """This holds for Settings, load and replace."""
        makers: list[Any] = [make, load, lambda **given: dataclasses.replace(Settings(), **given)]
        for maker in makers:
            with pytest.raises(InvalidSetting, match="partitons") as caught:
                maker(partitons=3)
            assert "partitions" in caught.value.hint

    @pytest.mark.parametrize(
        ("text", "nearest"), [("jurnal = 1", "journal"), ("[kafka_producer]", "kafka.producer"), ("[topics]", "topic")]
    )
    def test_an_unknown_key_of_the_file_raises_with_the_nearest_match(
        self, toml: Callable[[str], Path], text: str, nearest: str
    ) -> None:
        """This holds for tables too."""
        toml(text)
        with pytest.raises(InvalidSetting) as caught:
            load()
        assert nearest in caught.value.hint


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    """Editors on Windows write one in front of settings and of secrets."""
    secret, file = tmp_path / "secret", tmp_path / "settings.toml"
    secret.write_bytes(b"\xef\xbb\xbfopen sesame\r\n")
    file.write_bytes(b"\xef\xbb\xbfjournal = 'mine'\n[kafka]\nsasl.password_file = '%s'\n" % str(secret).encode())
    settings = Settings.load(file, {})
    assert (settings.journal, settings.kafka) == ("mine", {"sasl.password": "open sesame"})
