"""The report of many reruns: one HTML page without scripts and without anything from elsewhere. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from seekpoint.console.render.output import clean
from seekpoint.console.render.process_diffs import diff_rows

if TYPE_CHECKING:
    from seekpoint.producers import Rerun, ScoredRerun

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
body { max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: .5rem 0 1rem; width: 100% }
th, td { border-bottom: 1px solid #8884; padding: .25rem .6rem; text-align: left; vertical-align: top }
td.n { text-align: right; font-variant-numeric: tabular-nums }
details > summary { cursor: pointer }
code { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere }
"""


def report_page(summary: Mapping[str, Any], found: Sequence[ScoredRerun]) -> str:
    """Return the page: the summary, a row for each process, and the comparison of each, call by call."""
    title = f"Reruns of {summary['agent']}" + (f" on {summary['model']}" if summary["model"] else "")
    facts = "".join(
        f"<tr><th>{_safe(name.replace('_', ' '))}<td>{_safe(_shown(value))}" for name, value in summary.items()
    )
    return "\n".join(
        [
            f"<!doctype html><html lang=en><meta charset=utf-8><title>{_safe(title)}</title><style>{_STYLE}</style>",
            f"<h1>{_safe(title)}</h1><table>{facts}</table><h2>Processes</h2>",
            *_table(found),
            "<h2>Call by call</h2>",
            *map(_comparison, (one for one in found if one.rerun is not None)),
            "</html>\n",
        ]
    )


def _table(found: Iterable[ScoredRerun]) -> Iterator[str]:
    yield "<table><tr><th>process<th>first run<th>rerun<th>calls changed<th>cost in USD<th>was<th>score<th>why"
    for one in found:
        rerun = one.rerun
        if rerun is None:
            yield f"<tr><td>{_code(one.process_id)}<td><td>skipped<td><td><td><td><td>{_safe(one.skipped or '')}"
            continue
        calls = rerun.difference
        numbers = (
            *(len(calls.changed) + len(calls.only_left) + len(calls.only_right), calls.right.cost_usd),
            *(calls.left.cost_usd, None if one.score is None else f"{one.score:g}"),
        )
        cells = "".join(f"<td class=n>{_safe(_shown(value))}" for value in numbers)
        statuses = f"<td>{_safe(rerun.first_status)}<td>{_safe(rerun.status)}"
        yield f"<tr><td>{_code(one.process_id)}{statuses}{cells}<td>{_safe(rerun.error or one.score_error or '')}"
    yield "</table>"


def _comparison(one: ScoredRerun) -> str:
    rerun = one.rerun
    assert rerun is not None
    same = "the same outcome" if rerun.is_same_outcome else "another outcome"
    head = f"<tr><th><th>{_code(rerun.process_id)}<th>{_code(rerun.rerun_id)}<th>first difference"
    rows = "".join("<tr>" + "".join(f"<td>{_code(cell)}" for cell in row) for row in _rows(rerun))
    told = f"{_code(rerun.process_id)}: {same}, {rerun.difference.same_calls} calls are the same"
    return f"<details><summary>{told}</summary><table>{head}{rows}</table></details>"


def _rows(rerun: Rerun) -> Iterator[tuple[object, ...]]:
    yield "result", _shown(rerun.first_result), _shown(rerun.result), ""
    if rerun.error or rerun.first_error:
        yield "error", rerun.first_error or "-", rerun.error or "-", ""
    yield from diff_rows(rerun.difference)


def _shown(value: Any) -> str:
    from seekpoint.schemas.values.json_values import dump

    return "-" if value is None else value if isinstance(value, str) else dump(value, with_models=True)


def _code(value: object) -> str:
    return f"<code>{_safe(value)}</code>"


def _safe(value: object) -> str:
    return escape(clean(value))
