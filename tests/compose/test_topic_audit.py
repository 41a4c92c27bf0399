"""The audit's decisions, on plain facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seekpoint.compose.topic_audit import TopicFacts, compare, compare_manifest, first_error, make_manifest
from seekpoint.compose.topic_plan import PINNED, RECORD_OVERHEAD_BYTES, TopicPlan, plan_topics
from seekpoint.schemas.config.limits import DEFAULT_LIMITS
from seekpoint.schemas.config.settings import TOPICS, Settings
from seekpoint.schemas.log.manifest import FORMAT, Manifest

SETTINGS = Settings(journal="fleet", partitions=4)
PLANS = {plan.kind: plan for plan in plan_topics(SETTINGS, 3, DEFAULT_LIMITS)}


def as_planned(plan: TopicPlan, replication: int = 3) -> TopicFacts:
    return TopicFacts(
        name=plan.name,
        topic_id=f"id-of-{plan.kind}",
        partitions=plan.partitions,
        replication=replication,
        config=plan.config,
    )


FACTS = {plan.name: as_planned(plan) for plan in PLANS.values()}
LIKE = Manifest(journal="fleet", format=FORMAT, partitions=4, topic_ids={}, limits=DEFAULT_LIMITS)


def test_every_topic_of_a_journal_is_planned() -> None:
    """Partitioned as the journal where a process's records meet, one partition where a reader wants all of it."""
    assert tuple(PLANS) == TOPICS
    assert {kind for kind, plan in PLANS.items() if plan.partitions == 4} == {
        "journal",
        "checkpoints",
        "inbox",
        "recover",
        "recovered",
    }


@pytest.mark.parametrize("kind", TOPICS)
def test_what_is_planned_passes_the_audit(kind: str) -> None:
    """The values a topic is created with are values the audit accepts."""
    assert compare([PLANS[kind]], FACTS, 3) == []


def test_topics_accept_the_largest_allowed_records() -> None:
    """The largest entry, or a state in the checkpoints, or either as a dead letter, and what Kafka puts around it."""
    sizes = {kind: int(plan.config["max.message.bytes"]) for kind, plan in PLANS.items()}
    assert sizes["journal"] == DEFAULT_LIMITS.restoring_bytes + RECORD_OVERHEAD_BYTES
    assert sizes["inbox"] == DEFAULT_LIMITS.record_bytes + RECORD_OVERHEAD_BYTES
    assert sizes["checkpoints"] == DEFAULT_LIMITS.checkpoint_bytes + RECORD_OVERHEAD_BYTES
    assert sizes["deadletters"] >= sizes["journal"] * 4 / 3 + 1_000


@pytest.mark.parametrize(("replication", "in_sync"), [(1, "1"), (2, "1"), (3, "2"), (5, "2")])
def test_two_replicas_are_in_sync_where_there_are_three(replication: int, in_sync: str) -> None:
    """Of fewer, one broker's fall must not stop the journal for good."""
    assert plan_topics(SETTINGS, replication, DEFAULT_LIMITS)[0].config["min.insync.replicas"] == in_sync


@pytest.mark.parametrize("kind", TOPICS)
def test_each_rule_is_checked(kind: str) -> None:
    """Whatever setting of whatever topic is gone: there is a finding for it, and only for it."""
    plan = PLANS[kind]
    assert compare([plan], {plan.name: replace(FACTS[plan.name], config=plan.config)}, 3) == []
    for rule in plan.rules:
        if not rule.is_given:  # brokers before 3.6 have no such setting
            tight = {**plan.config, rule.setting: "1000"}
            [finding] = compare([plan], {plan.name: replace(FACTS[plan.name], config=tight)}, 3)
            assert (finding.setting, finding.found, finding.severity) == (rule.setting, "1000", rule.severity)
            continue
        rest = {name: value for name, value in plan.config.items() if name != rule.setting}
        findings = compare([plan], {plan.name: replace(FACTS[plan.name], config=rest)}, 3)
        assert [(f.setting, f.found, f.severity) for f in findings] == [(rule.setting, "none", rule.severity)]
        assert rule.why in findings[0].advice


@pytest.mark.parametrize(
    ("setting", "fine", "wrong"),
    [
        ("min.cleanable.dirty.ratio", ["0.1", "0.3"], ["0.09", "0.31", "0", "1", "1.0", "much"]),
        ("max.compaction.lag.ms", ["3600000", "21600000"], ["3599999", "21600001", "9223372036854775807"]),
        ("segment.ms", ["3600000", "21600000"], ["3599999", "604800000"]),
        ("delete.retention.ms", ["604800000", "9223372036854775807"], ["604799999", "-1"]),
    ],
)
def test_bounds_are_inclusive(setting: str, fine: list[str], wrong: list[str]) -> None:
    """Values within the bounds pass whatever they are; one step outside does not, nor what is no number."""
    plan = PLANS["checkpoints"]

    def found(value: str) -> list[str]:
        facts = replace(FACTS[plan.name], config={**plan.config, setting: value})
        return [finding.setting for finding in compare([plan], {plan.name: facts}, 3)]

    assert [found(value) for value in fine] == [[]] * len(fine)
    assert [found(value) for value in wrong] == [[setting]] * len(wrong)


def test_findings_show_expected_bounds() -> None:
    """A bound is shown as a bound."""
    expected = {rule.setting: rule.expected for rule in PLANS["checkpoints"].rules}
    assert expected["min.cleanable.dirty.ratio"] == "0.1 to 0.3"
    assert expected["segment.ms"] == "3600000 to 21600000"
    assert expected["delete.retention.ms"] == "at least 604800000"
    assert expected["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("found", "wanted", "severities"),
    [(1, None, ["warning"]), (2, None, ["warning"]), (3, None, []), (1, 1, ["warning"]), (1, 3, ["error"]), (3, 2, [])],
)
def test_fewer_than_three_copies_are_a_warning_and_fewer_than_asked_an_error(
    found: int, wanted: int | None, severities: list[str]
) -> None:
    """Nobody who asked for three copies goes on with one; who asked for one is reminded."""
    plan = plan_topics(SETTINGS, found, DEFAULT_LIMITS)[0]
    findings = compare([plan], {plan.name: as_planned(plan, found)}, wanted)
    assert [finding.severity for finding in findings] == severities


def test_an_error_shows_setting_expected_and_found_value() -> None:
    """The first error is what creation raises; warnings before it do not count."""
    facts = {**FACTS, "fleet.journal": replace(FACTS["fleet.journal"], partitions=8, replication=1)}
    error = first_error(compare(list(PLANS.values()), facts, None))
    assert error is not None
    raised = error.mismatch()
    assert (raised.topic, raised.setting, raised.expected, raised.found) == ("fleet.journal", "partitions", "4", "8")


def test_the_manifest_pins_the_topics_that_hold_something() -> None:
    """Their ids, the partition count, the limits."""
    manifest = make_manifest(SETTINGS, FACTS, LIKE)
    assert manifest.topic_ids == {f"fleet.{kind}": f"id-of-{kind}" for kind in PINNED}
    assert (manifest.partitions, manifest.limits) == (4, DEFAULT_LIMITS)
    assert compare_manifest(SETTINGS, manifest, True, FACTS) == []


def test_the_audit_compares_the_manifest_with_the_topics() -> None:
    """No manifest, another journal's, another count, another id, no topic, no schema: each is named."""
    manifest = make_manifest(SETTINGS, FACTS, LIKE)

    def found(manifest: Manifest | None, known: bool = True, **changed: TopicFacts) -> list[tuple[str, str, str]]:
        facts = {**FACTS, **{f"fleet.{kind}": facts for kind, facts in changed.items()}}
        return [(f.setting, f.expected, f.found) for f in compare_manifest(SETTINGS, manifest, known, facts)]

    journal = FACTS["fleet.journal"]
    assert found(None) == [("manifest", "a manifest", "none")]
    assert found(replace(manifest, journal="other")) == [("manifest journal", "fleet", "other")]
    assert found(manifest, journal=replace(journal, partitions=5)) == [("partitions in the manifest", "4", "5")]
    assert found(manifest, journal=replace(journal, topic_id="new")) == [("topic id", "id-of-journal", "new")]
    assert found(replace(manifest, topic_ids={"fleet.gone": "x"})) == [("topic id", "x", "none")]
    assert found(manifest, known=False) == [("writer schema", "registered", "missing")]


@pytest.mark.parametrize("kind", ["schemas", "nodes", "deadletters"])
def test_a_topic_that_always_has_one_partition_is_made_again(kind: str) -> None:
    """No setting fits it: the advice is to delete and create it, and not to change the settings."""
    name = PLANS[kind].name
    [found] = compare([PLANS[kind]], {name: replace(FACTS[name], partitions=4)}, 3)
    assert "always has one partition" in found.advice
    assert "delete it" in found.advice
    assert "set partitions" not in found.advice
