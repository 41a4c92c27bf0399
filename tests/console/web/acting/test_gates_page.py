"""Gates and effects in doubt are answered in the console: by the pages in a real browser, and by the API."""

from __future__ import annotations

from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from browsers import Browser
from consoles import Served, file_settings, serving, work_on
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.console_options import ConsoleOptions
from seekpoint.producers import Effect, Node, Process, agent
from seekpoint.schemas.config.settings import Settings
from waiting_processes import Caller, run_until

QUESTION = {"refund": 12, "why": '<img src=x onerror="document.title=1"> \x1b[31m\u202e'}


@agent("refunds", "1")
async def refunds(process: Process, order: str) -> Any:
    answer = await process.gate("approve", prompt={**QUESTION, "order": order})
    return [answer.outcome, answer.payload, answer.actor, answer.reason]


async def _send_money(idempotency_key: str) -> str:
    raise ConnectionResetError("the line broke")


@agent("payments", "1")
async def payments(process: Process, amount: int) -> Any:
    return await process.effect("pay", _send_money, semantics=Effect.AT_MOST_ONCE)


@pytest.fixture
def journal(tmp_path: Any) -> Settings:
    """A journal with an open gate."""
    settings = file_settings(tmp_path)
    work_on(settings, lambda node: run_until(node, refunds, "case-1", "o-1", "awaiting"))
    return settings


def result_of(journal: Settings, process_id: str) -> Any:
    """Return the result of the run after it went on."""
    return work_on(journal, lambda node: node.run(refunds, process_id))


def test_a_gate_is_approved_by_keys_alone(browser: Browser, acting: Served, journal: Settings, axe: str) -> None:
    """The question is text, the dry run comes first, and the answer has the actor and the reason."""
    browser.open(f"{acting.url}/waiting")
    browser.press("j")
    browser.press(Keys.ENTER)
    browser.until(lambda: browser.all("tr.detail form.act"))
    assert '"refund": 12' in browser.text("tr.detail pre")
    assert '<img src=x onerror=\\"document.title=1\\">' in browser.text("tr.detail pre")
    assert browser.all("tr.detail img") == []
    browser.one("tr.detail [name=reason]").send_keys("a good customer" + Keys.ENTER)
    browser.until(lambda: browser.all(".plan li.does"))
    assert "answers approve:1 with yes, as ann" in browser.text(".plan")
    assert '<img src=x onerror=\\"document.title=1\\">' in browser.text(".plan")
    assert browser.all(".plan img") == []
    assert browser.violations(axe) == []
    assert work_on(journal, _gate_is_open)
    browser.press(Keys.ENTER)
    browser.until(lambda: "approve:1 approved, as ann" in browser.text(".plan"))
    assert result_of(journal, "case-1")[:1] + result_of(journal, "case-1")[2:] == ["approved", "ann", "a good customer"]


async def _gate_is_open(node: Node) -> bool:
    return not (await node.recover("case-1")).state.mailbox


def test_a_gate_is_denied_with_an_answer(browser: Browser, acting: Served, journal: Settings) -> None:
    """The page of the process has the same form, and a bad answer is explained there."""
    browser.open(f"{acting.url}/gate?id=case-1&key=approve%3A1")
    browser.one("[name=answer]").send_keys("12")
    browser.one("[name=reason]").send_keys("too much")
    deny = browser.one('button[data-act="/api/deny"]')
    deny.click()
    browser.until(lambda: "the payload of a verdict is an object" in browser.text(".plan [role=alert]"))
    browser.problems()
    browser.one("[name=answer]").clear()
    browser.one("[name=answer]").send_keys('{"at_most": 5}')
    deny.click()
    browser.until(lambda: browser.all(".plan button.primary"))
    browser.press(Keys.ESCAPE)
    assert browser.all(".plan") == []
    deny.click()
    browser.until(lambda: browser.all(".plan button.primary"))[0].click()
    browser.until(lambda: "denied, as ann" in browser.text(".plan"))
    outcome, payload, actor, reason = result_of(journal, "case-1")
    assert (outcome, payload["at_most"], actor, reason) == ("denied", 5, "ann", "too much")


def test_nothing_is_done_without_a_dry_run_and_a_reason(caller: Caller) -> None:
    """Each of them is checked by the server."""
    asked = {"id": "case-1", "gate": "approve:1"}
    assert caller.refused("approve", **asked) == (400, "BadBody")
    assert caller.refused("approve", **asked, reason="   ") == (400, "BadBody")
    assert caller.refused("approve", **asked, reason="why", plan_id="0" * 32) == (409, "NoSuchPlan")
    planned = caller.plan("approve", **asked, reason="why")
    for other in ({"reason": "another"}, {"answer": '{"a":1}'}):
        assert caller.refused("approve", **{**asked, "reason": "why", **other}, plan_id=planned["plan_id"])[0] == 409
    assert caller.refused("deny", **asked, reason="why", plan_id=planned["plan_id"]) == (409, "NoSuchPlan")


def test_what_moved_since_the_dry_run_is_a_conflict(caller: Caller, journal: Settings) -> None:
    """An answer of somebody else, or a process that went on: nothing is sent."""
    asked = {"id": "case-1", "gate": "approve", "reason": "why"}
    planned = caller.plan("approve", **asked)
    work_on(journal, _write)
    assert caller.refused("approve", **asked, plan_id=planned["plan_id"]) == (409, "PlanChanged")
    fresh = caller.plan("approve", **asked)
    work_on(journal, lambda node: node.deny("case-1", "approve", actor="bob"))
    assert caller.refused("approve", **asked, plan_id=fresh["plan_id"]) == (409, "GateNotOpen")
    assert result_of(journal, "case-1")[2] == "bob"


async def _write(node: Node) -> None:
    async with node.open("case-1") as process:
        await process.update("x", 1)


def test_a_form_that_is_sent_twice_acts_once(caller: Caller, journal: Settings) -> None:
    """The second answer is that of the first, and the journal has one signal."""
    asked = {"id": "case-1", "gate": "approve", "reason": "why"}
    planned = caller.plan("approve", **asked)
    first, second = (caller.post("approve", **asked, plan_id=planned["plan_id"]) for _ in range(2))
    assert first.json() == second.json()
    entries = caller.client.get("/api/entries?id=case-1&kind=signal").json()["entries"]
    assert len(entries) == 1


def test_an_answered_gate_does_not_wait_for_a_person(caller: Caller) -> None:
    """Also before anybody runs the process, and so takes the answer."""
    assert [one["key"] for one in caller.client.get("/api/waiting").json()["gates"]] == ["approve:1"]
    caller.act("deny", id="case-1", gate="approve", reason="no")
    assert caller.client.get("/api/waiting").json()["gates"] == []
    assert caller.refused("approve", id="case-1", gate="approve", reason="yes") == (409, "GateNotOpen")
    assert caller.client.get("/gate?id=case-1&key=approve").status_code == 409


def test_who_only_looks_sees_no_form(journal: Settings, browser: Browser) -> None:
    """The question is there; the form is not, and the call is refused."""
    target = CommandTarget(None, None, None, journal.journal_url)
    with serving(target, ConsoleOptions(port=0)) as served:
        browser.open(f"{served.url}/gate?id=case-1&key=approve")
        assert '"refund": 12' in browser.text("pre")
        assert browser.all("form.act") == []
        with Caller(served) as caller:
            assert caller.refused("approve", id="case-1", gate="approve", reason="x") == (403, "RoleNeeded")
    target.close()


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_an_effect_in_doubt_is_settled(browser: Browser, journal: Settings, acting: Served, outcome: str) -> None:
    """With the evidence beside the form: what was asked, the attempts, who owned the process."""
    work_on(journal, lambda node: _in_doubt(node, "pay-1"))
    browser.open(f"{acting.url}/waiting")
    browser.until(lambda: "pay:1" in browser.text("#effects"))
    browser.one("#effects a[data-whole]").click()
    browser.until(lambda: browser.all("tr.detail form.act"))
    evidence = browser.text("tr.detail")
    assert "effect intended, attempt 1" in evidence
    assert "epoch 1, offset" in evidence
    assert "at_most_once" in evidence
    Select(browser.one("tr.detail [name=outcome]")).select_by_value(outcome)
    if outcome == "succeeded":
        browser.one("tr.detail [name=output]").send_keys('"receipt 7"')
    browser.one("tr.detail [name=reason]").send_keys("the bank says so" + Keys.ENTER)
    browser.until(lambda: browser.all(".plan button.primary"))[0].click()
    browser.until(lambda: f"pay:1: {outcome}, as ann says" in browser.text(".plan"))
    if outcome == "succeeded":
        assert work_on(journal, lambda node: node.run(payments, "pay-1")) == "receipt 7"
    else:
        with pytest.raises(Exception, match="the bank says so"):
            work_on(journal, lambda node: node.run(payments, "pay-1"))


async def _in_doubt(node: Node, process_id: str) -> None:
    with pytest.raises(Exception, match="pay"):
        await node.run(payments, process_id, 12)


def test_a_settled_effect_is_not_settled_again(caller: Caller, journal: Settings) -> None:
    """Nor is one that does not exist, nor does a failure have a result."""
    work_on(journal, lambda node: _in_doubt(node, "pay-1"))
    asked = {"id": "pay-1", "key": "pay:1", "reason": "why"}
    assert caller.refused("settle-effect", **asked, outcome="failed", output="1") == (400, "BadBody")
    assert caller.refused("settle-effect", **asked, outcome="succeeded", output="{") == (400, "BadBody")
    assert caller.refused("settle-effect", **{**asked, "key": "pay:9"}, outcome="failed")[0] == 409
    planned = caller.plan("settle-effect", **asked, outcome="succeeded")
    caller.act("settle-effect", **asked, outcome="failed")
    assert caller.refused("settle-effect", **asked, outcome="succeeded", plan_id=planned["plan_id"])[0] == 409


def test_the_page_is_accessible(browser: Browser, acting: Served, axe: str) -> None:
    """axe-core finds nothing, in light and dark."""
    for dark in (False, True):
        browser.resize(1280, 800, dark=dark)
        for page in ("waiting", "gate?id=case-1&key=approve"):
            browser.open(f"{acting.url}/{page}")
            assert browser.violations(axe) == []
