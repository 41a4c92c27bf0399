"""No secret is ever shown, and one may lie in a file."""

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
        named = load({"SEEKPOINT_CONFIG": "seekpoint.toml"})
        assert (named.kafka, named.redis) == ({"sasl.password": secret}, {"password": secret})

    def test_the_whole_redis_url_may_lie_in_a_file(self, tmp_path: Path, toml: Callable[[str], Path]) -> None:
        """As it holds a password."""
        file = tmp_path / "url"
        file.write_text("redis://:pw@cache\n")
        assert load({"SEEKPOINT_REDIS_URL_FILE": str(file)}).redis_url == "redis://:pw@cache"
        toml(f'redis_url_file = "{file}"')
        assert load({"SEEKPOINT_CONFIG": "seekpoint.toml"}).redis_url == "redis://:pw@cache"
        assert load({"SEEKPOINT_CONFIG": "seekpoint.toml", "SEEKPOINT_REDIS_URL": "none"}).redis_url is None

    def test_a_value_above_beats_a_file_below(self, tmp_path: Path, toml: Callable[[str], Path]) -> None:
        """Precedence is by source, not by kind."""
        file = tmp_path / "secret"
        file.write_text("from the file")
        toml(f'[kafka]\nsasl.password.file = "{file}"')
        environ = {"SEEKPOINT_CONFIG": "seekpoint.toml", "SEEKPOINT_KAFKA_SASL_PASSWORD": "env"}
        assert load(environ).kafka == {"sasl.password": "env"}

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
