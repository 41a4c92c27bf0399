"""The time machine of a process, in a real browser and through the API."""

from __future__ import annotations

import json
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from browsers import Browser
from consoles import Served, file_settings, serving
from entry_examples import claim, external, own
from seekpoint.console.cli import main
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.data.fixture_text import fixture_text
from seekpoint.consumers.recovery.process_history import Logged
from seekpoint.schemas import Limits
from seekpoint.schemas import bodies as b
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.state.process_state import new_state
from written_journals import HOSTILE, a_case, many_steps, write_entries

_ODD = "-a 'b' $(id)"


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a journal with one case, one of an odd name, and a process with mail only. Only looked at."""
    settings = file_settings(tmp_path_factory.mktemp("moments"), partitions=1)
    mail = external(b.Signal("later", "1"), 70)._replace(process_id="mail")
    long = [
        one._replace(process_id="wide") for one in (claim(1), own(1, b.ContextUpdated("text", json.dumps(HOSTILE))))
    ]
    write_entries(settings, [*a_case(), *a_case(_ODD), mail, *long, *many_steps("steps", 300)])
    return f"sqlite:///{settings.sqlite_path}"


@pytest.fixture
def served(journal: str) -> Iterator[Served]:
    """A console on the journal."""
    with closing(CommandTarget(None, None, None, journal)) as target, serving(target) as found:
        yield found


def _open(browser: Browser, served: Served, query: str) -> None:
    browser.open(f"{served.url}/time-machine?{query}")
    browser.until(lambda: browser.all("#moment[data-seq]"))


def _at(browser: Browser, seq: int) -> None:
    shown = """const moment = document.getElementById("moment");
        return [moment.dataset.seq, document.getElementById("range").value, document.getElementById("number").value,
                new URL(location).searchParams.get("seq"), moment.hasAttribute("aria-busy")]"""
    browser.until(lambda: browser.script(shown) == [str(seq)] * 4 + [False])


def test_keys_and_the_number_lead_to_every_seq(browser: Browser, served: Served) -> None:
    """The slider has the focus. The address is the moment, so a reload shows it again, without scripts too."""
    _open(browser, served, "id=case-17")
    _at_end = browser.one("#moment").get_attribute("data-seq")
    assert _at_end == "16"
    browser.press(Keys.ARROW_LEFT)
    _at(browser, 15)
    browser.press(Keys.HOME)
    _at(browser, 1)
    browser.press(Keys.ARROW_RIGHT + Keys.ARROW_RIGHT + Keys.ARROW_RIGHT)
    _at(browser, 4)
    browser.press(Keys.PAGE_UP)
    browser.until(lambda: browser.script("return document.getElementById('moment').dataset.seq") != "4")
    browser.press(Keys.END)
    _at(browser, 16)
    browser.press(Keys.ARROW_RIGHT)
    browser.one("#number").clear()
    browser.one("#number").send_keys("13" + Keys.ENTER)
    _at(browser, 13)
    browser.driver.refresh()
    _at(browser, 13)


def test_what_an_entry_changed_is_marked(browser: Browser, served: Served) -> None:
    """With what it was before. The list has the entries of others in between, a fenced one too."""
    _open(browser, served, "id=case-17&seq=13")
    marked = [one.text.replace("\n", " ") for one in browser.all(".tree li.changed")]
    assert 'status "succeeded" changed was "started"' in marked
    assert 'outcome "approved"' in browser.one(".tree li.added").text
    assert [one.text.split(" ")[1] for one in browser.all("ol.between li")] == ["signal", "claim", "seq", "seq"]
    assert "fenced" in browser.text("ol.between")
    summary = next(one for one in browser.all(".tree summary") if one.text.startswith("agent"))
    summary.click()
    browser.press(Keys.ARROW_LEFT)
    _at(browser, 12)
    closed = browser.script("return document.querySelector('[data-path=\"process/agent\"]').open")
    assert closed is False, "what somebody closed stays closed"


def test_verify_turns_green_or_red(browser: Browser, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the states that were compared, or the first difference: content in it is text."""
    _open(browser, served, "id=case-17")
    browser.one("#verify").click()
    browser.until(lambda: browser.all("#verdict.good"))
    assert "the console: the same as a fold of the whole log, up to seq 16" in browser.text("#verdict")
    _open(browser, served, "id=wide")
    wrong = fold(new_state(), 0, a_case()[0])
    monkeypatch.setattr("seekpoint.console.web.data.moments.ProcessMoments.state", lambda *_: _behind(wrong))
    browser.one("#verify").click()
    browser.until(lambda: browser.all("#verdict.bad"))
    told = browser.text("#verdict")
    assert "the console differs from a fold of the whole log at context › text: it has nothing, the log says" in told
    assert "<script>window.canary=1</script>" in told
    assert browser.script("return window.canary ?? null") is None


def _behind(state: object) -> object:
    """Return a state that says it has the entries of the process."""
    draft = state.thaw()  # type: ignore[attr-defined]
    draft.offset = 42
    return draft.freeze()


def test_moments_are_copied(browser: Browser, served: Served) -> None:
    """As a command and as a fixture: the clipboard has what the page and the API say."""
    grant = {"origin": served.url, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    browser.driver.execute_cdp_cmd("Browser.grantPermissions", grant)
    _open(browser, served, "id=case-17&seq=12")
    clipboard = "const done = arguments[0]; navigator.clipboard.readText().then(done, (e) => done(String(e)))"
    browser.one("[data-copy=command]").click()
    browser.until(lambda: browser.text("#copied") == "copied")
    assert browser.driver.execute_async_script(clipboard) == "seekpoint state case-17 --at-seq 12"
    browser.one("[data-copy=fixture]").click()
    with served.client() as client:
        text = client.get("/api/fixture?id=case-17&seq=12").json()["text"]
    browser.until(lambda: browser.driver.execute_async_script(clipboard) == text)


def test_the_copied_command_prints_the_state(served: Served, journal: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of any process id that a journal may have."""
    with served.client() as client:
        for process_id, seq in (("case-17", 12), (_ODD, 3)):
            told = client.get("/api/moment", params={"id": process_id, "seq": seq}).json()
            program, *words = shlex.split(told["command"])
            assert program == "seekpoint"
            assert main([words[0], "--journal-url", journal, "--json", *words[1:]]) == 0
            printed = json.loads(capsys.readouterr().out)
            assert (printed["process_id"], printed["seq"], printed["offset"]) == (process_id, seq, told["offset"])
            assert printed["context"] == told["state"]["context"]
            compared = client.get("/api/differences", params={"id": process_id, "seq": 3, "other_seq": 5}).json()
            assert main([*shlex.split(compared["command"])[1:2], "--journal-url", journal,
                         *shlex.split(compared["command"])[2:]]) == 1  # fmt: skip
            assert "plan:1" in capsys.readouterr().out


def test_the_copied_fixture_runs(served: Served, tmp_path: Path) -> None:
    """As it is, for every moment; an odd name, other limits and hostile content change nothing."""
    with served.client() as client:
        for number, (process_id, seq) in enumerate((("case-17", 12), (_ODD, 16), ("steps", 250), ("wide", 1))):
            answer = client.get("/api/fixture", params={"id": process_id, "seq": seq}).json()
            assert "<script>" not in answer["text"]
            (tmp_path / f"test_copied_{number}.py").write_text(answer["text"])
    entries = [Logged(offset, 1_000 + offset, entry) for offset, entry in enumerate(a_case())]
    state = new_state()
    for offset, _, entry in entries:
        state = fold(state, offset, entry)
    limited = fixture_text("case-17", entries, state, Limits(depth=20), "1.0")
    assert "depth=20" in limited
    (tmp_path / "test_limited.py").write_text(limited)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", str(tmp_path)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "5 passed" in ran.stdout, ran.stdout


def test_a_long_history_is_not_a_text(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer says which command writes it to a file. A process with mail only has nothing to copy."""
    monkeypatch.setattr("seekpoint.console.web.routes.time_machine_routes._ENTRIES_MAX", 100)
    with served.client() as client:
        answer = client.get("/api/fixture?id=steps&seq=200")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "TooLong")
        assert "seekpoint export steps FILE" in answer.json()["error"]["advice"]
        assert client.get("/api/fixture?id=steps&seq=90").status_code == 200
        assert client.get("/api/fixture?id=mail").status_code == 409


def test_two_moments_are_compared(browser: Browser, served: Served) -> None:
    """The form of a moment leads there; both sides lead back. The first table has what an agent's code sees."""
    _open(browser, served, "id=case-17&seq=3")
    browser.one("[name=other_seq]").send_keys("9" + Keys.ENTER)
    browser.arrive("/differences")
    [content, bookkeeping] = browser.all("table.differences")
    assert 'calls["plan:1"]' in content.text
    assert "bookkeeping.seq" in bookkeeping.text
    assert "not there" in content.text
    assert browser.text("code") == "seekpoint diff case-17@3 case-17@9"
    browser.open(f"{served.url}/differences?id=case-17&other_id=wide")
    assert "<script>window.canary=1</script>" in browser.text("table.differences")
    assert browser.script("return window.canary ?? null") is None
    browser.open(f"{served.url}/differences?id=case-17&seq=5&other_seq=5")
    assert "The agent's content is the same." in browser.text("main")


_BAD = {
    "/api/moment?id=nobody": 404,
    "/api/moment?id=case-17&seq=17": 404,
    "/api/moment?id=case-17&seq=0": 404,
    "/api/moment?id=case-17&seq=x": 400,
    "/api/moment?id=mail": 200,
    "/api/differences?id=case-17&other_id=nobody": 404,
    "/api/differences?id=case-17&other_seq=99": 404,
    "/api/verification?id=nobody": 404,
    "/time-machine?id=nobody": 404,
    "/time-machine?id=case-17&seq=99": 404,
    "/time-machine?id=mail": 200,
    "/differences?id=case-17&seq=99": 404,
}


def test_a_bad_address_is_explained(served: Served) -> None:
    """By the pages as by the API. A process with mail only has a moment."""
    with served.client() as client:
        assert {address: client.get(address).status_code for address in _BAD} == _BAD


def test_one_verification_at_a_time(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each folds a whole log, so the second one is told to wait; it does not keep a thread of the console."""
    import threading

    began, may_end = threading.Event(), threading.Event()
    held: list[int] = []

    def slow(*_: object) -> object:
        began.set()
        assert may_end.wait(20)
        raise ValueError("enough")

    monkeypatch.setattr("seekpoint.console.web.routes.time_machine_routes.refold", slow)

    def ask() -> None:
        with served.client() as client:
            held.append(client.get("/api/verification?id=case-17").status_code)

    thread = threading.Thread(target=ask)
    thread.start()
    assert began.wait(20)
    with served.client() as client:
        answer = client.get("/api/verification?id=case-17")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "VerificationRunning")
        may_end.set()
        thread.join(20)
        assert held == [500]
        monkeypatch.undo()
        assert client.get("/api/verification?id=case-17").json()["agrees"]


def test_hostile_content_is_text(browser: Browser, served: Served) -> None:
    """In the tree, in what it was, and in the list of entries."""
    for query in ("id=wide", "id=case-17&seq=15", "id=case-17&seq=16"):
        _open(browser, served, query)
        assert "<script>window.canary=1</script>" in browser.text(".tree")
        assert re.search(r"\\u202egnp|\\\\u202egnp", browser.text("#moment"))
        assert browser.script("return window.canary ?? null") is None
        assert browser.all("main img, main script, main a[href^=javascript]") == []


def test_a_hundred_thousand_entries(browser: Browser, long_journal: str) -> None:
    """The page is there at once and says that it reads. Then a step is shown within 200 ms, wherever it leads."""
    with (
        closing(CommandTarget(None, None, None, long_journal)) as target,
        serving(target) as served,
        served.client() as client,
    ):
        assert client.get("/api/process?id=long").json()["seq"] == 99_999
        began = time.perf_counter()
        browser.open(f"{served.url}/time-machine?id=long")
        assert browser.all("#moment")
        assert time.perf_counter() - began < 2
        browser.until(lambda: browser.all("#moment[data-seq='99999']"), 30)
        steps = []
        for seq in (*range(50_000, 50_010), *range(90_010, 90_000, -1)):
            began = time.perf_counter()
            assert client.get(f"/time-machine?id=long&seq={seq}").status_code == 200
            steps.append(time.perf_counter() - began)
        assert statistics.median(steps) < 0.2
        browser.press(Keys.HOME)
        browser.until(lambda: browser.all("#moment[data-seq='1']"))
        assert len(browser.all(".tree li")) < 400


def test_the_pages_are_accessible(browser: Browser, served: Served, axe: str) -> None:
    """axe-core finds nothing, in light and dark, wide and narrow, with a verdict."""
    for address in ("/time-machine?id=case-17&seq=13", "/differences?id=case-17&seq=3&other_id=steps"):
        browser.open(f"{served.url}{address}")
        for verify in browser.all("#verify"):
            verify.click()
            browser.until(lambda: browser.all("#verdict.good"))
        for width, dark in ((1280, False), (1280, True), (800, False)):
            browser.resize(width, 800, dark=dark)
            assert browser.violations(axe) == []
