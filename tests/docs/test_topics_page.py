"""docs/kafka.md and what ``create_topics`` writes are the same."""

from __future__ import annotations

from pages import ROOT, table
from seekpoint.compose.topic_plan import PINNED, Rule, TopicPlan, plan_topics, replicas_in_sync
from seekpoint.schemas import DEFAULT_LIMITS, Settings
from seekpoint.schemas.config.settings import TOPICS

PAGE = ROOT / "docs" / "kafka.md"
SETTINGS = Settings(journal="NAME")
PLANS = plan_topics(SETTINGS, 3, DEFAULT_LIMITS)


def rows_of_settings() -> list[list[str]]:
    """A row a rule: the topics it is for, the value at creation, what the audit accepts, what it calls the rest."""
    found: dict[Rule, list[str]] = {}
    for plan in PLANS:
        for rule in plan.rules:
            found.setdefault(rule, []).append(f"`{plan.kind}`")
    every = len(TOPICS)
    return [
        [
            f"`{rule.setting}`",
            "all" if len(kinds) == every else ", ".join(kinds),
            f"`{rule.value}`" if rule.is_given else "the default",
            "the same" if rule.expected == rule.value else rule.expected,
            rule.severity,
            rule.why,
        ]
        for rule, kinds in sorted(found.items(), key=lambda item: (len(item[1]) < every, item[0].setting))
    ]


def test_the_settings_are_those_of_the_plan() -> None:
    """Every rule of every topic, and no other."""
    shown = table(PAGE, "setting", "topics", "created with", "accepted", "otherwise", "why")
    assert shown == rows_of_settings()


def test_the_topics_are_those_of_the_plan() -> None:
    """Each with its partitions, and whether the manifest keeps its id."""
    shown = {
        name: (partitions, pinned)
        for name, _, partitions, pinned in table(PAGE, "topic", "holds", "partitions", "id kept")
    }
    assert shown == {f"`{plan.kind}`": (partitions_of(plan), "yes" if plan.kind in PINNED else "no") for plan in PLANS}


def partitions_of(plan: TopicPlan) -> str:
    """As the page says it."""
    if plan.kind == "journal":
        return "`partitions`"
    return "as many as the journal" if plan.partitions == SETTINGS.partitions else str(plan.partitions)


def test_the_page_states_min_insync_replicas_for_each_replication_factor() -> None:
    """2 in sync of 3, 1 of fewer."""
    assert (replicas_in_sync(3), replicas_in_sync(1)) == (2, 1)
    assert "two of three" in PAGE.read_text()


if __name__ == "__main__":
    for row in rows_of_settings():
        print(f"| {' | '.join(row)} |")
