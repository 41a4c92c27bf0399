"""Signing in with a token, in a real browser, and what another site can make this browser do afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from browsers import Browser
from consoles import serving
from other_sites import other_site
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.auth.tokens import TokenFile
from seekpoint.console.web.auth.user_identity import Role
from seekpoint.console.web.console_options import ConsoleOptions


@pytest.fixture
def token(tmp_path: Path) -> str:
    """An operator's token."""
    return TokenFile(tmp_path / "tokens.json").add("ann", Role.OPERATOR, "2026-11-25")


def sign_in(browser: Browser, url: str, token: str) -> None:
    browser.open(f"{url}/processes")
    browser.one("#token").send_keys(token + Keys.ENTER)
    browser.until(lambda: browser.all("table.rows"))


def test_a_link_of_another_site_leads_to_the_page(
    browser: Browser, target: CommandTarget, token: str, tmp_path: Path, axe: str
) -> None:
    """Somebody who is signed in and follows a link in a chat sees the page. A form of that site does nothing."""
    options = ConsoleOptions(port=0, tokens=tmp_path / "tokens.json")
    with serving(target, options) as served, other_site() as chat:
        browser.open(f"{served.url}/processes")
        assert browser.violations(axe) == []
        sign_in(browser, served.url, token)
        chat.page = f"""<a href="{served.url}/process?id=order-1">look</a>
            <form method="post" action="{served.url}/sign-out"><button>out</button></form>"""
        browser.open(chat.url)
        browser.one("a").click()
        browser.until(lambda: browser.text("h1") == "order-1")
        browser.open(chat.url)
        browser.one("button").click()
        browser.until(lambda: "another site" in browser.text())
        browser.open(f"{served.url}/processes")
        assert "ann" in browser.text(".who")
        browser.one("header form button").click()
        browser.until(lambda: browser.all("#token"))
        browser.open(f"{served.url}/processes")
        assert browser.all("#token")
