"""A real Chromium without a window, driven by selenium."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

__all__ = ["SCROLL_MS_MAX", "Browser", "axe_source", "missing_browser"]

T = TypeVar("T")

SCROLL_MS_MAX = 600
"""A step of a scroll takes 20 ms on a quiet machine, and seconds if a page makes all rows of a long list."""

_SCROLL = """
    const [selector, places, done] = arguments, scroller = document.querySelector(selector);
    let step = 0, worst = 0;
    const next = () => {
      const began = performance.now();
      scroller.scrollTop = places[step];
      requestAnimationFrame(() => requestAnimationFrame(() => {
        worst = Math.max(worst, performance.now() - began);
        step += 1;
        step < places.length ? next() : done(worst);
      }));
    };
    next();"""
_CHECKOUT = Path(__file__).resolve().parents[3]


def missing_browser() -> str | None:
    """Return what is missing for a browser on this machine; None if one can be started."""
    found = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    missing = [name for name, path in found.items() if path is None]
    return f"not installed: {', '.join(missing)} (.ci/run installs them with apt-get)" if missing else None


class Browser:
    """A browser with one window."""

    def __init__(self) -> None:
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(argument)
        options.add_argument("--hide-scrollbars")
        options.binary_location = shutil.which("chromium") or ""
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService(shutil.which("chromedriver"), log_output=subprocess.DEVNULL)
        self.driver = webdriver.Chrome(options=options, service=service)
        self.resize(1280, 800)

    def close(self) -> None:
        """End the browser."""
        self.driver.quit()

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Give the page this size, in light or dark colours."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, url: str) -> None:
        """Open a page, and forget what the console of the browser said before."""
        self._log()
        self.driver.get(url)

    @contextmanager
    def blocking(self, pattern: str) -> Iterator[None]:
        """Let requests to addresses like ``*/api/*`` fail, as if nobody answered."""
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": [pattern]})
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})

    @contextmanager
    def starting_with(self, text: str) -> Iterator[None]:
        """Run a script in each page before its own ones."""
        command = "Page.addScriptToEvaluateOnNewDocument"
        added = self.driver.execute_cdp_cmd(command, {"source": text})
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)

    def script(self, text: str, *arguments: Any) -> Any:
        """Return the result of a script in the page."""
        return self.driver.execute_script(text, *arguments)

    def one(self, selector: str) -> WebElement:
        """Return the element."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        """Return all elements."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "body") -> str:
        """Return what a person reads there."""
        return str(self.script("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def click(self, selector: str) -> bool:
        """Click the element; return whether there is one. By one script: a page may replace its lines between two."""
        return bool(self.script("const it = document.querySelector(arguments[0]); it?.click(); return !!it", selector))

    def press(self, keys: str) -> None:
        """Press keys, wherever the focus is."""
        ActionChains(self.driver).send_keys(keys).perform()

    def until(self, check: Callable[[], T], timeout_s: float = 15.0) -> T:
        """Return the first true result of ``check``. An element that the page has just replaced is looked for again."""
        deadline = time.monotonic() + timeout_s
        while True:
            with suppress(StaleElementReferenceException):
                if found := check():
                    return found
            assert time.monotonic() < deadline, f"it did not happen: {self.text()[:2000]}"
            time.sleep(0.03)

    def slowest_scroll_ms(self, selector: str, places: list[int], loaded: Callable[[], object]) -> float:
        """Return how long the slowest of the steps to ``places`` took until it was painted.

        The best of three passes counts, each on the page loaded anew: what else the machine does is not under test.
        """
        passes = []
        for _ in range(3):
            loaded()
            passes.append(float(self.driver.execute_async_script(_SCROLL, selector, places)))
            if passes[-1] <= SCROLL_MS_MAX:
                break
            self.driver.refresh()
        return min(passes)

    def arrive(self, place: str) -> None:
        """Wait until a page whose address contains ``place`` has loaded with its scripts."""
        self.until(lambda: place in self.driver.current_url and self.script("return document.readyState") == "complete")

    def problems(self) -> list[str]:
        """Return what the browser complains about: errors of scripts, and violations of the content policy."""
        return [str(one["message"]) for one in self._log() if one["level"] in ("SEVERE", "WARNING")]

    def _log(self) -> list[dict[str, Any]]:
        driver: Any = self.driver
        found: list[dict[str, Any]] = driver.get_log("browser")
        return found

    def violations(self, axe: str) -> list[str]:
        """Return what axe-core finds wrong with the page, for WCAG 2.2 AA."""
        self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
        tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
        ran = self.driver.execute_async_script(
            "const done = arguments[1]; axe.run(document, {runOnly: arguments[0]}).then(done, (e) => done(String(e)))",
            tags,
        )
        assert isinstance(ran, dict), ran
        return [f"{one['id']}: {json.dumps([node['html'] for node in one['nodes']])}" for one in ran["violations"]]


@functools.cache
def axe_source() -> str | None:
    """Return the script of axe-core, installed by npm once; None where npm is missing or does not answer."""
    folder = _CHECKOUT / ".venv" / "axe-core"
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        npm = shutil.which("npm")
        if npm is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            npm,
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--prefer-offline",
            "--prefix",
            str(folder),
            "axe-core@4",
        ]
        if subprocess.run(command, capture_output=True, check=False, timeout=90).returncode != 0:
            return None
    return script.read_text()
