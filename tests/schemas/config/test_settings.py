"""Settings: their types, their behaviour as a value, and their documentation."""

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

from seekpoint.schemas.config.client_options import REFUSED
from seekpoint.schemas.config.setting_sources import variable
from seekpoint.schemas.config.settings import TOPICS, Settings
from seekpoint.schemas.errors import InvalidName, InvalidSetting
from settings_examples import GROUPS, SECRETS, load, make

DOCS = Path(__file__).parents[3] / "docs" / "settings.md"


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
    def test_an_illegal_value_raises_with_the_expected_type(self, name: str, text: str) -> None:
        """The error has the setting as written, the value and the legal values."""
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
        """Text is parsed only from the environment and the file."""
        with pytest.raises(InvalidSetting, match=name):
            make(**{name: value})

    @pytest.mark.parametrize(
        "servers", ["kafka", "a:1,b:2", "a:1, b:2", "SSL://a:9093", "[::1]:9092", "127.0.0.1:9092"]
    )
    def test_brokers_are_named_as_librdkafka_reads_them(self, servers: str) -> None:
        """There may be one or several, by name or address."""
        assert Settings(bootstrap_servers=servers).producer_config()["bootstrap.servers"] == servers

    def test_the_heartbeat_interval_must_be_below_the_owner_timeout(self) -> None:
        """Otherwise every owner would look dead."""
        with pytest.raises(InvalidSetting, match="every owner looks dead"):
            Settings(heartbeat_interval_s=15, owner_timeout_s=15)

    @given(st.sampled_from([field.name for field in dataclasses.fields(Settings)]), st.text())
    def test_any_text_in_the_environment_is_parsed_or_raises_a_typed_error(self, name: str, text: str) -> None:
        """No ValueError leaves the parser."""
        with contextlib.suppress(InvalidSetting):
            assert isinstance(load({variable(name): text}), Settings)

    def test_topics_are_named_after_the_journal(self) -> None:
        """A journal has only these eight topics."""
        settings = Settings(journal="fleet")
        assert [settings.topic_name(topic) for topic in TOPICS][:2] == ["fleet.journal", "fleet.checkpoints"]
        with pytest.raises(InvalidName, match="jornal"):
            settings.topic_name("jornal")


class TestValue:
    def test_settings_are_a_value(self) -> None:
        """They can be pickled, copied, compared and hashed, but not changed."""
        for same in (pickle.loads(pickle.dumps(SECRETS)), copy.deepcopy(SECRETS), dataclasses.replace(SECRETS)):
            assert same == SECRETS
            assert hash(same) == hash(SECRETS)
        assert dict(pickle.loads(pickle.dumps(SECRETS)).kafka) == dict(SECRETS.kafka)
        with pytest.raises(AttributeError, match="immutable type: 'Settings'"):
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
        """It takes less than a millisecond without a file; the best of many runs counts."""
        monkeypatch.chdir(tmp_path)
        durations = []
        for _ in range(50):
            start = time.perf_counter()
            Settings.load(environ={"HOME": "/"})
            durations.append(time.perf_counter() - start)
        assert min(durations) < 0.001

    def test_importing_settings_imports_nothing_heavy(self) -> None:
        """The import is on the path from a crash to the next step."""
        heavy = "{'tomllib', 'difflib', 'pydantic', 'confluent_kafka', 'redis'}"
        settings = "from seekpoint.schemas import Settings; Settings()"
        code = f"import sys; {settings}; print(sorted({heavy} & sys.modules.keys()))"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240)
        assert run.stdout.strip() == "[]"


class TestDocs:
    def test_the_table_of_the_docs_matches_the_dataclass(self) -> None:
        """It has every setting, its variable and its default, in order."""
        rows = re.findall(r"^\| `(\w+)` \| `(SEEKPOINT_\w+)(?:…)?` \| (\S+) \|", DOCS.read_text(), re.MULTILINE)
        assert rows == [(field.name, _variable(field.name), _default(field)) for field in dataclasses.fields(Settings)]

    def test_every_refused_name_is_listed_with_its_reason(self) -> None:
        """The list has no other name."""
        rows = re.findall(r"^\| `(kafka|topic|redis)…?` \| `([\w.]+)` \| (.+) \|$", DOCS.read_text(), re.MULTILINE)
        assert rows == [
            (group, name, reason) for group in ("kafka", "topic", "redis") for name, reason in REFUSED[group].items()
        ]

    def test_the_example_file_is_valid(self, toml: Callable[[str], Path], tmp_path: Path) -> None:
        """Users can paste it."""
        (example,) = re.findall(r"```toml\n(.*?)```", DOCS.read_text(), re.DOTALL)
        for name in ("kafka", "redis"):
            (tmp_path / name).write_text(f"{name} secret\n")
        toml(example.replace("/run/secrets", str(tmp_path)))
        settings = load({"SEEKPOINT_CONFIG": "seekpoint.toml"})
        assert settings.kafka["sasl.password"] == "kafka secret"
        assert settings.redis["password"] == "redis secret"
        assert settings.kafka_consumer == {"fetch.min.bytes": "1"}

    def test_the_example_environment_is_valid(self, tmp_path: Path) -> None:
        """Each line has the effect that its comment describes."""
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
