"""A night in Markdown, as CI services show it beside a job (GitHub's job summary, GitLab's comments)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from splitbrain.results.baseline import Class
from splitbrain.results.changes import Change
from splitbrain.results.nights import EndedBy, Night, Violation
from splitbrain.results.quantities import counted, shown
from splitbrain.results.text import visible

SHOWN_MAX: Final = 30
"""Violations, cells and marks of each kind that are listed: services show up to a megabyte."""

_ENDED: Final[Mapping[EndedBy, str]] = {
    "runs": "all runs done",
    "budget": "no other run fits in the budget",
    "interrupt": "interrupted",
    "disk": "the store is as large as it may be, and only runs on real nodes were left",
}

_HEADINGS: Final[tuple[tuple[Class, str], ...]] = (("new", "New"), ("flaky", "Flaky"), ("known", "Known"))


def document(night: Night) -> str:
    """The summary."""
    parts = [f"## Night {night.name}: {night.outcome}", "", first_line(night), "", *_violations(night)]
    parts += [*_errors(night), *_fixed(night), *_changes(night), *_matrix(night), *_not_reached(night)]
    return "\n".join(parts).rstrip() + "\n"


def headline(night: Night) -> str:
    """The night in a line: how many groups of each class there are, and how much was run."""
    classes = [f"{len(grouped(night.of_class(name)))} {name}" for name, _ in _HEADINGS]
    if night.fixed:
        classes.append(f"{len(night.fixed)} fixed")
    ran = sum(1 for cell in night.cells if cell.runs)
    runs = sum(night.outcomes.values())
    return f"{', '.join(classes)}; {counted(runs, 'run')} in {ran} of {counted(len(night.cells), 'cell')}"


def first_line(night: Night) -> str:
    """What was found, what was run, and how long it took."""
    outcomes = ", ".join(f"{count} {name}" for name, count in night.outcomes.items() if count)
    how = _ENDED[night.ended_by]
    return (
        f"{headline(night)} ({outcomes or 'nothing was run'}). {night.elapsed_s:.0f} of {night.budget_s:.0f} s: {how}. "
        f"The store has {shown(night.stored_bytes)}."
    )


def grouped(violations: Sequence[Violation]) -> list[list[Violation]]:
    """Violations by leading signature, known ones by issue: what is likely to be one bug.

    The run that was looked at closest, replayed or else stored, is the first of its group.
    """
    groups: dict[tuple[str, str], list[Violation]] = {}
    for each in violations:
        place = each.issue if each.classification == "known" else each.signatures[0]
        groups.setdefault((each.classification, place), []).append(each)
    return [sorted(group, key=lambda each: (not each.replays, each.run is None)) for group in groups.values()]


def by_cell(group: Sequence[Violation]) -> list[list[Violation]]:
    """A group by its cells, in their order."""
    cells: dict[str, list[Violation]] = {}
    for each in group:
        cells.setdefault(each.cell, []).append(each)
    return list(cells.values())


def _violations(night: Night) -> Iterable[str]:
    for name, heading in _HEADINGS:
        groups = grouped(night.of_class(name))
        if not groups:
            continue
        yield from (f"### {heading}", "")
        for group in groups[:SHOWN_MAX]:
            yield from _violation(group)
        if len(groups) > SHOWN_MAX:
            yield from (f"and {len(groups) - SHOWN_MAX} more", "")


def _violation(group: Sequence[Violation]) -> Iterable[str]:
    first = group[0]
    yield f"- **{cell(first.sentence)}**  "
    yield f"  `{_code(first.signatures[0])}`, {counted(len(group), 'run')}  "
    if first.replays:
        yield f"  reproduced {first.seen} of {first.replays} times  "
    elif first.classification == "new":
        yield "  not replayed: the budget was spent, or replays are off  "
    if first.issue:
        owner = f", {cell(first.owner)}" if first.owner else ""
        until = f"expired on {first.expires}: it is new again" if first.expired else f"until {first.expires}"
        yield f"  {cell(first.issue)}{owner}, {until}  "
    if first.classification != "known" and first.issue and not first.expired:
        yield f"  known, and besides: {', '.join(f'`{_code(each)}`' for each in first.uncovered)}  "
    for runs in by_cell(group)[:SHOWN_MAX]:
        yield f"  - `{_code(runs[0].cell)}`, {counted(len(runs), 'run')}: `{_code(runs[0].replay)}`"
        smaller = runs[0].smaller
        if smaller is not None and smaller.replay is not None:
            size = f"{counted(smaller.ops or 0, 'op')}, {counted(smaller.faults or 0, 'fault')}"
            yield f"    - smallest ({size}): `{_code(smaller.replay)}`"
        if runs[0].report:
            yield f"    - report: {cell(runs[0].report)}"
    yield ""


def _errors(night: Night) -> Iterable[str]:
    if not night.errors:
        return
    yield from ("### Errors", "", "| cell | kind | what |", "| --- | --- | --- |")
    for run in night.errors[:SHOWN_MAX]:
        yield f"| {cell(run.cell)} | {run.error_kind} | {cell(run.error or '')} |"
    yield ""


def _fixed(night: Night) -> Iterable[str]:
    if not night.fixed and not night.expired:
        return
    yield from ("### Baseline", "")
    for each in night.fixed:
        issue = f", {cell(each.issue)}" if each.issue else ""
        gone = f"gone for {counted(each.nights, 'night')}, last seen in {each.last_seen}"
        yield f"- fixed: `{_code(each.signature)}`{issue}: {gone}"
    for signature in night.expired:
        yield f"- expired: `{_code(signature)}`"
    yield ""


def change_line(change: Change) -> str:
    """A change point in words: which figure, by how much, since when, and by which runs that is known."""
    where = f"{change.workload}/{change.nemesis} on " if change.workload else ""
    before, after = (_amount(value) for value in (change.before, change.after))
    by = "" if change.ratio is None else f" ({change.ratio - 1.0:+.0%})"
    against = f"{counted(change.runs_before, 'run')} of {counted(change.nights_before, 'night')} before"
    return (
        f"{change.label}, {where}{'/'.join(change.place.group)}: {before} -> {after}{by} since {change.since}; "
        f"{counted(change.runs_after, 'run')} against {against}, p < {change.p:.1g}"
    )


def _amount(value: float | None) -> str:
    return "no answer" if value is None else f"{value:,.4g}"


def _changes(night: Night) -> Iterable[str]:
    found = night.trends
    if not found.nights:
        return
    yield from ("### Figures", "")
    for each in found.changes[:SHOWN_MAX]:
        yield f"- changed: {cell(change_line(each))}"
    if len(found.changes) > SHOWN_MAX:
        yield f"- and {len(found.changes) - SHOWN_MAX} more"
    yield from (f"- {line}" for line in trends_lines(night))
    yield ""


def trends_lines(night: Night) -> list[str]:
    """How much the figures of a night were compared, and of what there is too little to say anything."""
    found = night.trends
    none = "" if found.changes else "no figure changed: "
    lines = [f"{none}{counted(found.compared, 'comparison')} with {counted(found.nights, 'night')} before"]
    if found.too_few:
        more = f" and {found.too_few_more} more" if found.too_few_more else ""
        lines.append(f"too few runs or nights to say of: {'; '.join(map(cell, found.too_few))}{more}")
    return [*lines, *map(cell, found.problems)]


def _matrix(night: Night) -> Iterable[str]:
    yield from ("### Cells", "", "| cell | runs | violation | error | inconclusive | pass | seconds |")
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for each in night.cells[: 10 * SHOWN_MAX]:
        counts = [each.outcomes.get(name, 0) for name in ("violation", "harness error", "inconclusive", "pass")]
        shown_counts = " | ".join(str(count or "") for count in counts)
        yield f"| {cell(each.name)} | {each.runs} | {shown_counts} | {each.seconds:.0f} |"
    yield ""


def _not_reached(night: Night) -> Iterable[str]:
    found = night.not_reached
    yield from ("### Not reached", "")
    if found.cells:
        yield f"- cells without a run, first in the next night: {_listed(found.cells)}"
    for each in found.impossible[:SHOWN_MAX]:
        yield f"- cannot be run: `{_code(each.cell)}`: {cell(each.why)}"
    if found.marks:
        yield f"- coverage marks never seen: {_listed(found.marks)}"
    for code, count in found.reasons.items():
        yield f"- inconclusive because of {code}: {counted(count, 'run')}"
    if not (found.cells or found.impossible or found.marks or found.reasons):
        yield "- nothing: every cell was run, and every mark was seen"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
    return f"{', '.join(f'`{_code(name)}`' for name in names[:SHOWN_MAX])}{more}"


def cell(value: str) -> str:
    """Text of a run, in which nothing is Markdown, HTML or the end of a table's cell."""
    line = " ".join(visible(value).split())
    for mark in ("\\", "`", "*", "_", "[", "]", "|", "#"):
        line = line.replace(mark, f"\\{mark}")
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(value: str) -> str:
    """Text as code in a line."""
    return " ".join(visible(value).split()).replace("`", "'").replace("|", "\\|")
