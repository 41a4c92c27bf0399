"""Take the pictures of the web console for the documentation, of the journal of a demo in which a worker was killed."""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

if TYPE_CHECKING:
    from browsers import Browser
    from consoles import Served
    from seekpoint.schemas.config.settings import Settings

__all__ = ["FOLDER", "PICTURES", "Picture", "take"]

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
_COLOURS = 128
_MIDDLE = 3
"""Of the six model calls of a case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A page of the console. To show another page in the documentation, add one to ``PICTURES``."""

    name: str
    path: str
    of: str = ""
    """``case``: of a case that another worker took over; ``gate``: of a process that waits for a person."""
    shows: str
    """The selector of something that is there once the page has its data."""
    click: str = ""
    """The selector of what is clicked then."""
    width: int = 1280
    height: int = 620
    dark: bool = False


_TIMELINE = "#rows .row .bar"
_ROWS = "table.rows tbody tr"
PICTURES = (
    Picture(name="console-processes", path="/processes", shows=_ROWS, width=1500, height=560),
    Picture(name="console-timeline", path="/timeline", of="case", shows=_TIMELINE, height=370),
    Picture(name="console-timeline-dark", path="/timeline", of="case", shows=_TIMELINE, height=370, dark=True),
    Picture(name="console-calls", path="/calls", of="case", shows=_ROWS, click="#calls [data-whole]"),
    Picture(name="console-entries", path="/entries", of="case", shows=_ROWS, height=560),
    Picture(name="console-story", path="/story", of="case", shows="#grows > *", height=560),
    Picture(name="console-time-machine", path="/time-machine", of="case", shows="#moment > *", height=560),
    Picture(name="console-pipeline", path="/pipeline", shows="main table tbody tr", height=700),
    Picture(name="console-gate", path="/gate", of="gate", shows="form.act", height=520),
)


def take(folder: Path = FOLDER) -> None:
    """Run the demo on a cluster of its own, and take all pictures."""
    from browsers import Browser

    folder.mkdir(exist_ok=True)
    with _demo() as (served, case):
        browser = Browser()
        try:
            for picture in PICTURES:
                content = _photograph(browser, served, picture, case)
                (folder / f"{picture.name}.png").write_bytes(content)
                print(f"{picture.name}.png: {len(content) // 1024} KiB", file=sys.stderr)
        finally:
            browser.close()


@contextmanager
def _demo() -> Iterator[tuple[Served, str]]:
    """Serve a console on the journal of a demo. Yield it with the id of a case that was taken over."""
    from consoles import serving
    from seekpoint.compose import LocalCluster
    from seekpoint.console.demo.aftermath import BackgroundProjector
    from seekpoint.console.demo.conductor import DemoOptions, run
    from seekpoint.console.demo.demo_story import DemoStory
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.console.web.console_options import ConsoleOptions

    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "cluster"
        outcome = run(DemoOptions(keep=True, directory=directory, long_entries=2_000), DemoStory(sys.stderr))
        cluster = LocalCluster.attach(directory)
        try:
            settings = cluster.settings(journal=outcome.journal)
            _wait_at_a_gate(settings)
            case = min(outcome.take_overs, key=lambda one: abs(one.model_calls_done - _MIDDLE)).case
            with BackgroundProjector(settings), closing(CommandTarget(None, None, None)) as target:
                target.__dict__["settings"] = settings
                with serving(target, ConsoleOptions(port=0, allow_changes=True)) as served:
                    yield served, case
        finally:
            cluster.stop()


def _wait_at_a_gate(settings: Settings) -> None:
    """Leave a process that asks a person for something."""
    from consoles import work_on
    from seekpoint.producers import Node, Process, agent
    from waiting_processes import run_until

    @agent("refunds", "3")
    async def refunds(process: Process, order: str) -> str:
        await process.step("look up", "{} was paid twice".format, order)
        answer = await process.gate("approve refund", prompt={
            "question": "Refund the second payment?", "order": order, "amount": "49.90", "currency": "EUR",
            "customer": "has been with us since 2019", "risk": "low",
        })  # fmt: skip
        return answer.outcome

    async def ask(node: Node) -> None:
        await run_until(node, refunds, "refund-4711", "order 4711", "awaiting")

    work_on(settings, ask)


def _photograph(browser: Browser, served: Served, picture: Picture, case: str) -> bytes:
    """Return a picture of a page as a small PNG."""
    import base64

    from PIL import Image

    of = {"": {}, "case": {"id": case}, "gate": {"id": "refund-4711", "key": "approve refund"}}[picture.of]
    browser.resize(picture.width, picture.height, dark=picture.dark)
    browser.open(f"{served.url}{picture.path}?{urlencode(of)}")
    browser.until(lambda: browser.all(picture.shows))
    if picture.click:
        browser.one(picture.click).click()
        browser.until(lambda: browser.all("tr.detail dl"))
    browser.script("document.activeElement.blur()")
    shot = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
    image = Image.open(io.BytesIO(base64.b64decode(shot))).convert("RGB")
    small = io.BytesIO()
    image.quantize(_COLOURS, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


if __name__ == "__main__":
    take()
