"""Settings: where they come from, what is refused and why, and that no secret is ever shown."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.schemas.errors import InvalidName, InvalidSetting
from seekpoint.schemas.options import REFUSED, Options
from seekpoint.schemas.secrets import is_secret
from seekpoint.schemas.settings import TOPICS, Settings
from seekpoint.schemas.sources import variable

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"
GROUPS = ("kafka", "kafka_producer", "kafka_consumer", "kafka_admin", "redis", "topic")


def load(environ: dict[str, str] | None = None, **overrides: Any) -> Settings:
    """Settings from this environment alone."""
    return Settings.load(environ=environ or {}, **overrides)


def make(**given: Any) -> Settings:
    """Settings of keywords that no type checker would let pass."""
    return Settings(**given)


@pytest.fixture
def toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write ``seekpoint.toml`` into a working directory of its own."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> Path:
        path = tmp_path / "seekpoint.toml"
        path.write_text(text)
        return path

    return write


class TestSources:
    def test_without_anything_there_are_defaults(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An empty environment and no file are fine."""
        monkeypatch.chdir(tmp_path)
        assert load() == Settings()

    def test_keyword_beats_environment_beats_file_beats_default(self, toml: Callable[[str], Path]) -> None:
        """Each source hides the ones below it."""
        toml('journal = "file"\nnode_id = "file"\npartitions = 3')
        settings = load({"SEEKPOINT_JOURNAL": "env", "SEEKPOINT_NODE_ID": "env"}, journal="keyword")
        assert (settings.journal, settings.node_id, settings.partitions, settings.linger_ms) == ("keyword", "env", 3, 0)

    def test_options_are_merged_name_by_name(self, toml: Callable[[str], Path]) -> None:
        """One option in the environment does not hide the file's others."""
        toml('[kafka]\nsasl.username = "file"\nsasl.mechanism = "PLAIN"\n"socket.timeout.ms" = 7')
        settings = load({"SEEKPOINT_KAFKA_SASL_USERNAME": "env"}, kafka={"socket.timeout.ms": 8})
        assert settings.kafka == {"sasl.username": "env", "sasl.mechanism": "PLAIN", "socket.timeout.ms": "8"}

    def test_the_environment_reaches_every_setting_and_every_group(self) -> None:
        """By the name of the setting, or by the prefix of the group."""
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
    def test_no_redis_can_be_said_in_the_environment(self, text: str) -> None:
        """An empty value or none."""
        assert load({"SEEKPOINT_REDIS_URL": text}).redis_url is None

    def test_the_file_has_tables_for_the_groups(self, toml: Callable[[str], Path]) -> None:
        """Dotted names may be quoted or not; numbers and switches are taken as librdkafka writes them."""
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
        """The argument beats SEEKPOINT_CONFIG beats the working directory."""
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
    def test_a_wrong_file_is_named(self, toml: Callable[[str], Path], text: str) -> None:
        """With its path."""
        path = toml(text)
        with pytest.raises(InvalidSetting, match=re.escape(str(path.name))):
            load()

    @pytest.mark.parametrize("content", [None, b"\xff\xfe"], ids=["missing", "not text"])
    def test_a_file_that_was_named_must_be_readable(self, tmp_path: Path, content: bytes | None) -> None:
        """Whoever names a file wants it read."""
        path = tmp_path / "other.toml"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InvalidSetting, match=re.escape(str(path))):
            Settings.load(path, environ={})
        with pytest.raises(InvalidSetting, match=re.escape(str(path))):
            load({"SEEKPOINT_CONFIG": str(path)})

    def test_what_kubernetes_sets_is_no_setting(self) -> None:
        """A service named seekpoint, or seekpoint-redis, puts these into every pod."""
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
    def test_an_unknown_variable_names_its_nearest_match(self, name: str, nearest: str) -> None:
        """Never a silent default."""
        with pytest.raises(InvalidSetting, match=name) as caught:
            load({name: "1"})
        assert nearest in caught.value.hint

    def test_an_unknown_keyword_names_its_nearest_match(self) -> None:
        """For Settings, for load and for replace."""
        makers: list[Any] = [make, load, lambda **given: dataclasses.replace(Settings(), **given)]
        for maker in makers:
            with pytest.raises(InvalidSetting, match="partitons") as caught:
                maker(partitons=3)
            assert "partitions" in caught.value.hint

    @pytest.mark.parametrize(
        ("text", "nearest"), [("jurnal = 1", "journal"), ("[kafka_producer]", "kafka.producer"), ("[topics]", "topic")]
    )
    def test_an_unknown_key_of_the_file_names_its_nearest_match(
        self, toml: Callable[[str], Path], text: str, nearest: str
    ) -> None:
        """Tables too."""
        toml(text)
        with pytest.raises(InvalidSetting) as caught:
            load()
        assert nearest in caught.value.hint


class TestForms:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("journal", ""),
            ("journal", "."),
            ("journal", ".."),
            ("journal", "a b"),
            ("journal", "ä"),
            ("journal", "a" * 201),
            ("journal", "a\n"),
            ("bootstrap_servers", ""),
            ("bootstrap_servers", "a b:1"),
            ("bootstrap_servers", "a:1,,b:2"),
            ("redis_url", "cache:6379"),
            ("redis_url", "http://cache"),
            ("partitions", "0"),
            ("partitions", "10001"),
            ("partitions", "many"),
            ("partitions", "1.5"),
            ("replication_factor", "0"),
            ("node_id", "a b"),
            ("append_timeout_s", "0"),
            ("append_timeout_s", "-1"),
            ("append_timeout_s", "nan"),
            ("append_timeout_s", "inf"),
            ("append_timeout_s", "soon"),
            ("linger_ms", "-1"),
            ("dead_letters_max", "0"),
        ],
    )
    def test_a_value_of_the_wrong_form_is_named_with_the_form(self, name: str, text: str) -> None:
        """The setting as it was written, the value and what it must be."""
        if text.strip() == text:
            with pytest.raises(InvalidSetting, match="must be") as caught:
                load({variable(name): text})
            assert caught.value.setting == variable(name)
            assert caught.value.value == (repr(text) if name != "redis_url" else "***")
        with pytest.raises(InvalidSetting, match="must be") as caught:
            make(**{name: text})
        assert caught.value.setting == name

    @pytest.mark.parametrize(
        ("name", "value"),
        [("partitions", True), ("partitions", 8.0), ("partitions", "8"), ("linger_ms", True), ("journal", None)],
    )
    def test_keywords_have_types(self, name: str, value: Any) -> None:
        """Text is parsed from the environment and the file only."""
        with pytest.raises(InvalidSetting, match=name):
            make(**{name: value})

    @pytest.mark.parametrize(
        "servers", ["kafka", "a:1,b:2", "a:1, b:2", "SSL://a:9093", "[::1]:9092", "127.0.0.1:9092"]
    )
    def test_brokers_are_named_as_librdkafka_reads_them(self, servers: str) -> None:
        """One or several, by name or address."""
        assert Settings(bootstrap_servers=servers).producer_config()["bootstrap.servers"] == servers

    def test_a_heartbeat_must_be_faster_than_the_time_it_may_stand_still(self) -> None:
        """Else every owner would look dead."""
        with pytest.raises(InvalidSetting, match="every owner looks dead"):
            Settings(heartbeat_interval_s=15, owner_timeout_s=15)

    @given(st.sampled_from([field.name for field in dataclasses.fields(Settings)]), st.text())
    def test_any_text_in_the_environment_is_read_or_refused_with_our_error(self, name: str, text: str) -> None:
        """No ValueError, whatever it is."""
        with contextlib.suppress(InvalidSetting):
            load({variable(name): text})

    def test_topics_are_named_after_the_journal(self) -> None:
        """And only the eight there are."""
        settings = Settings(journal="fleet")
        assert [settings.topic_name(topic) for topic in TOPICS][:2] == ["fleet.journal", "fleet.checkpoints"]
        with pytest.raises(InvalidName, match="jornal"):
            settings.topic_name("jornal")


REFUSALS = [(group, name) for group in GROUPS for name in REFUSED[group]]


class TestRefused:
    @pytest.mark.parametrize(("group", "name"), REFUSALS)
    def test_what_a_guarantee_rests_on_is_refused_with_the_reason(self, group: str, name: str) -> None:
        """From each source."""
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
    def test_no_group_lets_a_guarantee_of_kafka_through(self, group: str, name: str) -> None:
        """librdkafka's settings for all clients reach the producer too."""
        with pytest.raises(InvalidSetting, match="may not be set"):
            make(**{group: {name: "1"}})

    def test_an_url_cannot_smuggle_in_what_is_refused(self) -> None:
        """redis-py lets the URL's query win over keywords."""
        with pytest.raises(InvalidSetting, match="decode_responses"):
            Settings(redis_url="redis://cache/0?client_name=a&decode_responses=true")

    def test_options_checked_for_one_group_are_checked_again_for_another(self) -> None:
        """What Redis may have, Kafka may not."""
        options = Options("redis", {"acks": "1"})
        with pytest.raises(InvalidSetting, match="acks"):
            Settings(kafka=options)

    def test_numbers_and_switches_become_text(self) -> None:
        """As librdkafka reads them."""
        options = {"a": 1, "b": 0.5, "c": True}
        assert make(kafka=options).kafka == {"a": "1", "b": "0.5", "c": "true"}

    @pytest.mark.parametrize("value", [print, None, ["a"], {"a": 1}, b"a"], ids=repr)
    def test_callbacks_and_objects_do_not_pass(self, value: Any) -> None:
        """Settings are text: they are pickled, and read from files."""
        with pytest.raises(InvalidSetting, match="error_cb"):
            make(kafka={"error_cb": value})


class TestConfigs:
    def test_ours_lie_on_top_of_the_users(self) -> None:
        """Settings for one kind of client beat those for all, ours beat both."""
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
        """redis-py wants numbers and switches, not text."""
        options = {"socket_timeout": "2", "max_connections": "9", "socket_keepalive": "no", "client_name": "7"}
        expected = {"socket_timeout": 2.0, "max_connections": 9, "socket_keepalive": False, "client_name": "7"}
        assert Settings(redis=options).redis_config() == expected

    @pytest.mark.parametrize(("name", "text"), [("max_connections", "1.5"), ("socket_keepalive", "maybe")])
    def test_a_redis_option_of_the_wrong_form_is_named(self, name: str, text: str) -> None:
        """When the settings are made, not when Redis is first needed."""
        with pytest.raises(InvalidSetting, match=name):
            Settings(redis={name: text})


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


class TestSecrets:
    @pytest.mark.parametrize("show", [repr, str, "{}".format, lambda s: repr(dataclasses.asdict(s)["kafka"])])
    def test_settings_are_printed_without_secrets(self, show: Callable[[Settings], str]) -> None:
        """What is no secret stays readable."""
        assert "hush" not in show(SECRETS)
        assert "'sasl.username': 'ann'" in show(SECRETS)

    def test_each_part_is_printed_without_secrets(self) -> None:
        """One group alone too."""
        assert "hush" not in "".join(repr(getattr(SECRETS, group)) for group in GROUPS)
        assert "redis://ann:***@cache:6379/0?ssl_password=***" in repr(SECRETS)

    def test_the_secrets_are_known(self) -> None:
        """Written and decoded; where and how is none."""
        secrets = SECRETS.secrets()
        assert {f"hush{number}" for number in (2, 3, 5, 7, 8, 9, 10, 11)} <= secrets
        assert {"hush%2F1", "hush/1", "principal=hush6"} <= secrets
        assert not secrets & {"oidc", "true", "/etc/key", "ann", ""}

    def test_messages_of_others_are_scrubbed(self) -> None:
        """As they are, as repr writes them, the longest first."""
        text = f"{SECRETS.redis_url} {dict(SECRETS.kafka)} {dict(SECRETS.kafka)['ssl.key.pem']} hush10 hush/1 fine"
        assert "hush" not in SECRETS.scrub(text)
        assert SECRETS.scrub(text).endswith(" fine")
        assert Settings().scrub("nothing to hide") == "nothing to hide"

    @pytest.mark.parametrize(
        "url",
        [
            "redis://:hush@h",
            "redis://u:hu@hush@h/0",
            "redis://u:a/hush@h",
            "redis://u:a#hush@h?x=1",
            "redis://u:a?hush@h",
        ],
    )
    def test_a_password_that_was_not_encoded_is_not_shown_by_halves(self, url: str) -> None:
        """Up to the last @."""
        assert "hush" not in repr(Settings(redis_url=url))

    def test_a_wrong_url_is_not_shown(self) -> None:
        """It may be the password, pasted into the wrong variable."""
        for wrong in ("hush", "http://u:hush@h", "redis://u:hush@h /0"):
            with pytest.raises(InvalidSetting) as caught:
                load({"SEEKPOINT_REDIS_URL": wrong})
            assert "hush" not in f"{caught.value} {caught.value!r} {caught.value.facts}"

    @pytest.mark.parametrize(
        ("text", "secret"), [("pw", "pw"), ("pw\n", "pw"), ("pw\n\n", "pw\n"), ("pw\r\n", "pw"), (" pw ", " pw ")]
    )
    def test_a_secret_may_lie_in_a_file(
        self, tmp_path: Path, toml: Callable[[str], Path], text: str, secret: str
    ) -> None:
        """One newline at its end is the editor's, the rest is the secret's."""
        file = tmp_path / "secret"
        file.write_bytes(text.encode())
        assert load({"SEEKPOINT_KAFKA_SASL_PASSWORD_FILE": str(file)}).kafka == {"sasl.password": secret}
        assert load({"SEEKPOINT_REDIS_PASSWORD_FILE": str(file)}).redis == {"password": secret}
        assert Settings(kafka={"sasl.password.file": str(file)}).kafka == {"sasl.password": secret}
        toml(f'[kafka]\nsasl.password.file = "{file}"\n[redis]\npassword_file = "{file}"')
        assert (load().kafka, load().redis) == ({"sasl.password": secret}, {"password": secret})

    def test_the_whole_redis_url_may_lie_in_a_file(self, tmp_path: Path, toml: Callable[[str], Path]) -> None:
        """As it holds a password."""
        file = tmp_path / "url"
        file.write_text("redis://:pw@cache\n")
        assert load({"SEEKPOINT_REDIS_URL_FILE": str(file)}).redis_url == "redis://:pw@cache"
        toml(f'redis_url_file = "{file}"')
        assert load().redis_url == "redis://:pw@cache"
        assert load({"SEEKPOINT_REDIS_URL": "none"}).redis_url is None

    def test_a_value_above_beats_a_file_below(self, tmp_path: Path, toml: Callable[[str], Path]) -> None:
        """Precedence is by source, not by kind."""
        file = tmp_path / "secret"
        file.write_text("from the file")
        toml(f'[kafka]\nsasl.password.file = "{file}"')
        assert load({"SEEKPOINT_KAFKA_SASL_PASSWORD": "env"}).kafka == {"sasl.password": "env"}

    def test_value_and_file_in_one_place_is_an_error(self, tmp_path: Path) -> None:
        """Nobody could say which counts."""
        for name in ("SEEKPOINT_KAFKA_SASL_PASSWORD", "SEEKPOINT_REDIS_URL"):
            with pytest.raises(InvalidSetting, match="both"):
                load({name: "x", f"{name}_FILE": str(tmp_path)})

    @pytest.mark.parametrize("content", [None, b"\xffhush"], ids=["missing", "not text"])
    def test_a_secret_file_that_cannot_be_read_is_named(self, tmp_path: Path, content: bytes | None) -> None:
        """The setting and the path, never the content."""
        file = tmp_path / "secret"
        if content is not None:
            file.write_bytes(content)
        for name in ("SEEKPOINT_KAFKA_SASL_PASSWORD_FILE", "SEEKPOINT_REDIS_URL_FILE"):
            with pytest.raises(InvalidSetting, match=re.escape(str(file))) as caught:
                load({name: str(file)})
            assert "hush" not in f"{caught.value}{caught.value.__cause__!r}"

    def test_librdkafkas_own_files_pass_as_they_are(self) -> None:
        """Three of its names end in .file themselves."""
        options = {"sasl.oauthbearer.assertion.private.key.file": "/etc/key"}
        assert Settings(kafka=options).kafka == options

    @pytest.mark.parametrize("name", ["ssl.key.pem", "ssl_password", "sasl.oauthbearer.extensions", "SASL.PASSWORD"])
    def test_secret_names_are_recognised(self, name: str) -> None:
        """In librdkafka's and in Redis' spelling."""
        assert is_secret(name)


class TestValue:
    def test_settings_are_a_value(self) -> None:
        """Pickled, copied, compared, hashed; and not changed."""
        for same in (pickle.loads(pickle.dumps(SECRETS)), copy.deepcopy(SECRETS), dataclasses.replace(SECRETS)):
            assert same == SECRETS
            assert hash(same) == hash(SECRETS)
        assert dict(pickle.loads(pickle.dumps(SECRETS)).kafka) == dict(SECRETS.kafka)
        with pytest.raises(dataclasses.FrozenInstanceError):
            SECRETS.journal = "other"  # type: ignore[misc]
        with pytest.raises(TypeError):
            SECRETS.kafka["acks"] = "0"  # type: ignore[index]

    def test_a_changed_copy_is_checked(self) -> None:
        """dataclasses.replace cannot make settings that Settings would refuse."""
        assert dataclasses.replace(SECRETS, partitions=3).kafka == SECRETS.kafka
        for wrong in ({"partitions": 0}, {"kafka": {"acks": "1"}}):
            with pytest.raises(InvalidSetting):
                dataclasses.replace(SECRETS, **wrong)

    def test_a_mapping_that_changes_later_changes_nothing(self) -> None:
        """The settings hold a copy."""
        options = {"sasl.username": "ann"}
        settings = Settings(kafka=options)
        options["acks"] = "0"
        assert settings.kafka == {"sasl.username": "ann"}

    def test_loading_is_fast(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Below a millisecond without a file; the best of many, as machines are busy."""
        monkeypatch.chdir(tmp_path)
        durations = []
        for _ in range(50):
            start = time.perf_counter()
            Settings.load(environ={"HOME": "/"})
            durations.append(time.perf_counter() - start)
        assert min(durations) < 0.001

    def test_importing_settings_imports_nothing_heavy(self) -> None:
        """It is on the path from a crash to the next step."""
        heavy = "{'tomllib', 'difflib', 'pydantic', 'confluent_kafka', 'redis'}"
        code = f"import sys, seekpoint.schemas.settings as s; s.Settings(); print(sorted({heavy} & sys.modules.keys()))"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        assert run.stdout.strip() == "[]"


class TestDocs:
    def test_the_table_is_the_dataclass(self) -> None:
        """Every setting, its variable and its default, in order."""
        rows = re.findall(r"^\| `(\w+)` \| `(SEEKPOINT_\w+)(?:…)?` \| (\S+) \|", DOCS.read_text(), re.MULTILINE)
        assert rows == [(field.name, _variable(field.name), _default(field)) for field in dataclasses.fields(Settings)]

    def test_every_refused_name_is_listed_with_its_reason(self) -> None:
        """And no other."""
        rows = re.findall(r"^\| `(kafka|topic|redis)…?` \| `([\w.]+)` \| (.+) \|$", DOCS.read_text(), re.MULTILINE)
        assert rows == [
            (group, name, reason) for group in ("kafka", "topic", "redis") for name, reason in REFUSED[group].items()
        ]

    def test_the_example_file_is_one(self, toml: Callable[[str], Path], tmp_path: Path) -> None:
        """What the docs show can be pasted."""
        (example,) = re.findall(r"```toml\n(.*?)```", DOCS.read_text(), re.DOTALL)
        for name in ("kafka", "redis"):
            (tmp_path / name).write_text(f"{name} secret\n")
        toml(example.replace("/run/secrets", str(tmp_path)))
        settings = load()
        assert settings.kafka["sasl.password"] == "kafka secret"
        assert settings.redis["password"] == "redis secret"
        assert settings.kafka_consumer == {"fetch.min.bytes": "1"}

    def test_the_example_environment_is_one(self, tmp_path: Path) -> None:
        """Each line means what its comment says."""
        (example,) = re.findall(r"```sh\n(.*?)```", DOCS.read_text(), re.DOTALL)
        (tmp_path / "kafka").write_text("secret")
        environ = dict(re.findall(r"export (\w+)=(\S+)", example.replace("/run/secrets", str(tmp_path))))
        settings = load(environ)
        meanings = re.findall(r'# (\w+)\["([\w.]+)"\]', example)
        assert len(meanings) == len(environ) - 1
        assert all(name in getattr(settings, group) for group, name in meanings)


def _variable(name: str) -> str:
    return variable(name) + ("_" if name in GROUPS else "")


def _default(field: dataclasses.Field[Any]) -> str:
    if field.name in GROUPS:
        return "none"
    if type(field.default) is bool:
        return f"`{str(field.default).lower()}`"
    return f"`{'none' if field.default is None else field.default}`"
