"""The file with the settings of OpenID Connect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from identity_providers import (
    IdentityProvider,
    settings_file,
)
from seekpoint.console.web.auth.oidc_settings import read_oidc_settings
from seekpoint.console.web.console_options import ConsoleOptions
from seekpoint.schemas.errors import InvalidSetting

WRONG_SETTINGS = {
    'issuer = "http://login.example.com"': "issuer must be an https:// address",
    'address = "http://console.example.com"': "address must be an https:// address",
    'address = "https://console.example.com/path"': "an address without a path",
    'scopes = ["email"]': "openid among them",
    'client_secret = "x"': "client_secret must be a file",
    'colour = "red"': "colour",
    'client_secret_file = "nowhere"': "No such file",
    "x": "is not valid",
}


@pytest.mark.parametrize("line", WRONG_SETTINGS)
def test_wrong_settings_are_refused(provider: IdentityProvider, tmp_path: Path, line: str) -> None:
    """Before the console listens, with the name of the setting."""
    path = settings_file(tmp_path, provider)
    name = line.partition(" ")[0]
    kept = [one for one in path.read_text().splitlines() if not one.startswith(f"{name} =")]
    path.write_text("\n".join([line, *kept]))
    with pytest.raises(InvalidSetting, match=re.escape(WRONG_SETTINGS[line])):
        read_oidc_settings(path, "http://127.0.0.1:8700")


def test_another_address_has_to_be_named(
    provider: IdentityProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A console for other machines cannot know its own. The secret may come from the environment."""
    path = settings_file(tmp_path, provider)
    with pytest.raises(InvalidSetting, match="address must be"):
        read_oidc_settings(path, None)
    path.write_text(path.read_text().replace("client_secret_file", "#"))
    monkeypatch.setenv("SEEKPOINT_OIDC_CLIENT_SECRET", "of the environment")
    assert read_oidc_settings(path, "http://127.0.0.1:1").client_secret == "of the environment"
    ConsoleOptions(host="0.0.0.0", oidc=path).check()
    with pytest.raises(InvalidSetting, match="needs authentication"):
        ConsoleOptions(host="0.0.0.0").check()
