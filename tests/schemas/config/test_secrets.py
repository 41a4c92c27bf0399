"""Secrets are never shown, and may be stored in files."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from seekpoint.schemas.config.secrets import is_secret
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting
from settings_examples import GROUPS, SECRETS, load


class TestSecrets:
    @pytest.mark.parametrize("show", [repr, str, "{}".format, lambda s: repr(dataclasses.asdict(s)["kafka"])])
    def test_settings_are_printed_without_secrets(self, show: Callable[[Settings], str]) -> None:
        """All other values stay readable."""
        assert "hush" not in show(SECRETS)
        assert "'sasl.username': 'ann'" in show(SECRETS)

    def test_each_group_is_printed_without_secrets(self) -> None:
        """A single group of options masks its secrets too."""
        assert "hush" not in "".join(repr(getattr(SECRETS, group)) for group in GROUPS)
        assert "redis://ann:***@cache:6379/0?ssl_password=***" in repr(SECRETS)

    def test_secrets_lists_all_secret_values(self) -> None:
        """URLs give their secrets as written and decoded; places and methods are no secrets."""
        secrets = SECRETS.secrets()
        assert {f"hush{number}" for number in (2, 3, 5, 7, 8, 9, 10, 11)} <= secrets
        assert {"hush%2F1", "hush/1", "principal=hush6"} <= secrets
        assert not secrets & {"oidc", "true", "/etc/key", "ann", ""}

    def test_messages_of_libraries_are_scrubbed(self) -> None:
        """Plain and escaped secrets are masked, the longest first."""
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
    def test_no_part_of_an_unencoded_password_is_shown(self, url: str) -> None:
        """Everything up to the last @ is masked."""
        assert "hush" not in repr(Settings(redis_url=url))

    def test_an_invalid_url_is_not_shown(self) -> None:
        """It may be a password in the wrong variable."""
        for wrong in ("hush", "http://u:hush@h", "redis://u:hush@h /0"):
            with pytest.raises(InvalidSetting) as caught:
                load({"SEEKPOINT_REDIS_URL": wrong})
            assert "hush" not in f"{caught.value} {caught.value!r} {caught.value.facts}"

    @pytest.mark.parametrize(
        ("text", "secret"), [("pw", "pw"), ("pw\n", "pw"), ("pw\n\n", "pw\n"), ("pw\r\n", "pw"), (" pw ", " pw ")]
    )
    def test_a_secret_may_be_in_a_file(
        self, tmp_path: Path, toml: Callable[[str], Path], text: str, secret: str
    ) -> None:
        """One final newline is removed; all other characters belong to the secret."""
        file = tmp_path / "secret"
        file.write_bytes(text.encode())
        assert load({"SEEKPOINT_KAFKA_SASL_PASSWORD_FILE": str(file)}).kafka == {"sasl.password": secret}
        assert load({"SEEKPOINT_REDIS_PASSWORD_FILE": str(file)}).redis == {"password": secret}
        assert Settings(kafka={"sasl.password.file": str(file)}).kafka == {"sasl.password": secret}
        toml(f'[kafka]\nsasl.password.file = "{file}"\n[redis]\npassword_file = "{file}"')
        named = load({"SEEKPOINT_CONFIG": "seekpoint.toml"})
        assert (named.kafka, named.redis) == ({"sasl.password": secret}, {"password": secret})

    def test_the_whole_redis_url_may_be_in_a_file(self, tmp_path: Path, toml: Callable[[str], Path]) -> None:
        """A URL may contain a password."""
        file = tmp_path / "url"
        file.write_text("redis://:pw@cache\n")
        assert load({"SEEKPOINT_REDIS_URL_FILE": str(file)}).redis_url == "redis://:pw@cache"
        toml(f'redis_url_file = "{file}"')
        assert load({"SEEKPOINT_CONFIG": "seekpoint.toml"}).redis_url == "redis://:pw@cache"
        assert load({"SEEKPOINT_CONFIG": "seekpoint.toml", "SEEKPOINT_REDIS_URL": "none"}).redis_url is None

    def test_a_value_overrides_a_file_of_a_lower_source(self, tmp_path: Path, toml: Callable[[str], Path]) -> None:
        """The precedence depends on the source, not on the kind."""
        file = tmp_path / "secret"
        file.write_text("from the file")
        toml(f'[kafka]\nsasl.password.file = "{file}"')
        environ = {"SEEKPOINT_CONFIG": "seekpoint.toml", "SEEKPOINT_KAFKA_SASL_PASSWORD": "env"}
        assert load(environ).kafka == {"sasl.password": "env"}

    def test_a_value_and_its_file_in_one_source_are_refused(self, tmp_path: Path) -> None:
        """It would be unclear which of them counts."""
        for name in ("SEEKPOINT_KAFKA_SASL_PASSWORD", "SEEKPOINT_REDIS_URL"):
            with pytest.raises(InvalidSetting, match="both"):
                load({name: "x", f"{name}_FILE": str(tmp_path)})

    @pytest.mark.parametrize("content", [None, b"\xffhush"], ids=["missing", "not text"])
    def test_a_secret_file_that_cannot_be_read_is_named(self, tmp_path: Path, content: bytes | None) -> None:
        """The error has the setting and the path, never the content."""
        file = tmp_path / "secret"
        if content is not None:
            file.write_bytes(content)
        for name in ("SEEKPOINT_KAFKA_SASL_PASSWORD_FILE", "SEEKPOINT_REDIS_URL_FILE"):
            with pytest.raises(InvalidSetting, match=re.escape(str(file))) as caught:
                load({name: str(file)})
            assert "hush" not in f"{caught.value}{caught.value.__cause__!r}"

    def test_librdkafkas_own_file_options_pass_unchanged(self) -> None:
        """Three of its options have names that end in .file."""
        options = {"sasl.oauthbearer.assertion.private.key.file": "/etc/key"}
        assert Settings(kafka=options).kafka == options

    @pytest.mark.parametrize("name", ["ssl.key.pem", "ssl_password", "sasl.oauthbearer.extensions", "SASL.PASSWORD"])
    def test_secret_names_are_recognised(self, name: str) -> None:
        """The names may have the notation of librdkafka or of Redis."""
        assert is_secret(name)
