"""New, known, flaky or fixed: the violations of a night, by the baseline, their replays, and earlier nights."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta

from splitbrain.checkers.verdict import Outcome
from splitbrain.results.baseline import Baseline, Class, entry_text
from splitbrain.results.nights import Fixed, Kept, Night, Ran, Replayed, Shrunk, Violation
from splitbrain.results.signatures import Signature

ENTRY_DAYS = 30
"""How long an entry that is offered for the baseline counts."""

_ORDER: Mapping[Class, int] = {"new": 0, "flaky": 1, "known": 2}

Place = tuple[str, str]
"""The name of a cell, and a leading signature."""


def failed(runs: Iterable[Ran]) -> list[Ran]:
    """The runs that ended in a violation."""
    return [run for run in runs if run.outcome == Outcome.VIOLATION.value]


def place_of(run: Ran) -> Place:
    """What a violation is one of: those of a cell with its leading signature."""
    return run.cell, run.signatures[0] if run.signatures else ""


def first_of_each(runs: Iterable[Ran]) -> list[Ran]:
    """The first violation of each place: it is kept, replayed and shrunk, and stands for the others."""
    firsts: dict[Place, Ran] = {}
    for run in failed(runs):
        firsts.setdefault(place_of(run), run)
    return list(firsts.values())


def violations(
    runs: Sequence[Ran],
    kept: Sequence[Kept],
    replayed: Sequence[Replayed],
    shrunk: Sequence[Shrunk],
    baseline: Baseline,
    today: date,
) -> tuple[Violation, ...]:
    """The violations of a night: new ones first, then flaky ones, then known ones."""
    firsts = {place_of(run): run for run in first_of_each(runs)}
    keeps = {(each.cell, each.seed): each for each in kept}
    smaller = {(each.cell, each.seed): each for each in shrunk}
    again: dict[tuple[str, int], list[bool]] = {}
    for each in replayed:
        again.setdefault((each.cell, each.seed), []).append(each.seen)
    found: list[Violation] = []
    for run in failed(runs):
        own = (run.cell, run.seed)
        first = firsts[place_of(run)]
        stands = (first.cell, first.seed)
        signatures = tuple(map(Signature.parse, run.signatures))
        at = baseline.look_up(signatures, today)
        seen = again.get(stands, [])
        word: Class = "known" if at.known else "flaky" if seen and not all(seen) else "new"
        copy = keeps.get(own)
        path = run.run if copy is None else copy.run
        found.append(
            Violation(
                cell=run.cell,
                seed=run.seed,
                classification=word,
                signatures=run.signatures,
                sentence=run.sentences[0] if run.sentences else "",
                command=run.command,
                replay=run.command if path is None else f"splitbrain replay {shlex.quote(path)}",
                uncovered=tuple(map(str, at.uncovered)),
                issue="" if at.entry is None else at.entry.issue,
                owner="" if at.entry is None else at.entry.owner,
                expires="" if at.entry is None else at.entry.expires.isoformat(),
                expired=at.expired,
                replays=len(seen),
                seen=sum(seen),
                run=path,
                report=run.report if copy is None else copy.report,
                smaller=smaller.get(own),
                problem=None if copy is None else copy.problem,
                baseline_entry="" if at.known else entry_text(signatures, today + timedelta(days=ENTRY_DAYS)),
            )
        )
    return tuple(sorted(found, key=lambda each: _ORDER[each.classification]))


def fixed(tonight: Night, before: Sequence[Night], baseline: Baseline, nights: int) -> tuple[Fixed, ...]:
    """What was seen in an earlier night, or has an entry, and is gone for at least so many nights.

    A night counts for a signature only if it ran a cell in which that was seen before.

    Args:
        tonight: the night.
        before: earlier ones, the oldest first.
        baseline: the entries.
        nights: how many.
    """
    issues = {Signature.parse(each.signature): each.issue for each in baseline.entries}
    earlier = dict.fromkeys(
        Signature.parse(each.signatures[0]) for night in before for each in night.violations if each.signatures
    )
    patterns = [*issues, *(each for each in earlier if not any(entry.matches(each) for entry in issues))]
    found: list[Fixed] = []
    for pattern in patterns:
        places = {each.cell for night in before for each in night.violations if _shows(each, pattern)}
        gone, last = 0, ""
        for night in reversed([*before, tonight]):
            if any(_shows(each, pattern) for each in night.violations):
                last = night.name
                break
            gone += any(cell.runs for cell in night.cells if cell.name in places)
        if last and gone >= nights:
            found.append(Fixed(signature=str(pattern), nights=gone, last_seen=last, issue=issues.get(pattern, "")))
    return tuple(found)


def _shows(violation: Violation, pattern: Signature) -> bool:
    return any(pattern.matches(Signature.parse(each)) for each in violation.signatures)


def expired(baseline: Baseline, today: date) -> tuple[str, ...]:
    """The signatures of entries that count no more."""
    return tuple(each.signature for each in baseline.entries if each.expires < today)
