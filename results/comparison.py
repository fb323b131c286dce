"""Two runs, or two sets of runs, side by side: outcomes, verdicts, figures, and what was not the same in the test.

A figure of a set is its median and its range over the runs; recovery times are pooled over the operations of the
nemesis in all runs of the set. Nothing here decides what is better: a ratio is of medians, B to A. A difference is
flagged where it is larger than what runs of one and the same side differ by.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from splitbrain.results.damage import standing_damage
from splitbrain.results.errors import DamagedRunError, HistoryFormatError, RunNotFoundError
from splitbrain.results.figures import Figures, figures_of
from splitbrain.results.rundir import RunDir
from splitbrain.results.values import canonical_json

SPREAD_MIN: Final = 4
"""Values that each side needs before a difference is flagged. If both sides were the same, all values of the one would
lie beyond all of the other in 3 of 100 cases with four each, and in 10 of 100 with three."""

WHOLE_MAX: Final = 11
"""Up to this number of values a side's spread is their range. With more it is the one between quartiles: by chance
these are apart as rarely, and one stray value hides nothing."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is compared.

    Attributes:
        name: test and run, with a slash between them.
        state: its outcome, else where it stands ("running", "crashed", ...).
        document: test.json.
        verdicts: as in verdict.json; empty if it was not judged.
        figures: None if there are none.
        problem: why there are none, empty if there are.
    """

    name: str
    state: str
    document: dict[str, Any]
    verdicts: list[dict[str, Any]]
    figures: Figures | None
    problem: str = ""


class Side(msgspec.Struct, frozen=True):
    """What stands on one side: runs, and what to call them."""

    label: str
    runs: list[Subject]


class Spread(msgspec.Struct, frozen=True):
    """A figure on one side.

    Attributes:
        count: how many values there are.
        median, low, high: of these.
        p95: the least of them that at least 95 % of them do not exceed.
        missing: how often there was no value: for a recovery time, how often the system did not answer before the next
            operation of the nemesis.
    """

    count: int
    median: float
    low: float
    high: float
    p95: float
    missing: int = 0


class FigureRow(msgspec.Struct, frozen=True):
    """A figure on both sides.

    Attributes:
        name, unit: what it is.
        a, b: None for a side that has no value.
        ratio: B's median to A's, None where it says nothing.
        differs: the spreads of the sides do not touch; false where there are too few values.
        missing_a, missing_b: how often there was no value.
        pooled: a value for each operation of the nemesis in all runs, instead of one for each run.
    """

    name: str
    unit: str
    a: Spread | None
    b: Spread | None
    ratio: float | None
    differs: bool = False
    missing_a: int = 0
    missing_b: int = 0
    pooled: bool = False


class CountRow(msgspec.Struct, frozen=True):
    """How many runs of each side came out so; `name` is an outcome, or a checker with its answer."""

    name: str
    a: int
    b: int


class Difference(msgspec.Struct, frozen=True):
    """Something in the test that is not the same: its distinct values on each side, as JSON or "none"."""

    what: str
    a: list[str]
    b: list[str]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two sides held against each other.

    Attributes:
        a, b: labels.
        runs_a, runs_b: names of the runs.
        outcomes: of runs, all that occur.
        verdicts: by checker and answer, all that occur.
        figures: those that at least one side has.
        tested: what differs in what was tested: options, nodes, checkers, versions; seeds are left out.
        seeds: a note if the seeds differ.
        marks_only_a, marks_only_b: coverage marks that only this side reached, where both counted.
        sentences_a, sentences_b: what was found wrong, each sentence once.
        notes: what could not be compared.
        flagged: why differences are or are not flagged, in words.
    """

    a: str
    b: str
    runs_a: list[str]
    runs_b: list[str]
    outcomes: list[CountRow]
    verdicts: list[CountRow]
    figures: list[FigureRow]
    tested: list[Difference]
    seeds: str
    marks_only_a: list[str]
    marks_only_b: list[str]
    sentences_a: list[str]
    sentences_b: list[str]
    notes: list[str]
    flagged: str


def subject_of(run: RunDir) -> Subject:
    """A stored run, which may be damaged or unfinished.

    Raises:
        RunNotFoundError: this is not the folder of a run.
        HistoryFormatError: test.json or verdict.json is damaged.
        DamagedRunError: it was found that it cannot be judged as it is.
        StoreVersionError: a newer splitbrain wrote it.
    """
    document, judgement, status = run.read_test(), run.read_verdicts(), run.status()
    noted = standing_damage(run.path, None if judgement is None else judgement.made_from)
    if noted is not None:
        raise DamagedRunError(f"run {run.name} of test {run.test_name} {noted}")
    try:
        figures = figures_of(run)
        problem = ""
    except (RunNotFoundError, HistoryFormatError) as error:
        figures, problem = None, str(error)
    return Subject(
        name=f"{run.test_name}/{run.name}",
        state=judgement.outcome if judgement is not None and status != "running" else status,
        document=document,
        verdicts=judgement.verdicts if judgement is not None else [],
        figures=figures,
        problem=problem,
    )


def compare(a: Side, b: Side) -> Comparison:
    """Hold two sides against each other; each has at least one run."""
    marks_a, marks_b = _marks(a.runs), _marks(b.runs)
    both = marks_a is not None and marks_b is not None
    return Comparison(
        a=a.label,
        b=b.label,
        runs_a=[run.name for run in a.runs],
        runs_b=[run.name for run in b.runs],
        outcomes=_counts(a.runs, b.runs, lambda run: [run.state]),
        verdicts=_counts(a.runs, b.runs, _answers),
        figures=_figure_rows(a.runs, b.runs),
        tested=_differences(a.runs, b.runs),
        seeds=_seeds(a.runs, b.runs),
        marks_only_a=sorted((marks_a or set()) - (marks_b or set())) if both else [],
        marks_only_b=sorted((marks_b or set()) - (marks_a or set())) if both else [],
        sentences_a=_wrong(a.runs),
        sentences_b=_wrong(b.runs),
        notes=[*_notes(a), *_notes(b)],
        flagged=_flagged(a.runs, b.runs),
    )


# --- outcomes and verdicts ----------------------------------------------------------------------------------------


def _counts(a: Sequence[Subject], b: Sequence[Subject], names: Callable[[Subject], Iterable[str]]) -> list[CountRow]:
    on_a, on_b = (Counter(name for run in runs for name in names(run)) for runs in (a, b))
    return [CountRow(name, on_a[name], on_b[name]) for name in sorted({*on_a, *on_b})]


def _answers(run: Subject) -> list[str]:
    return [f"{each.get('checker')}: {_answer(each)}" for each in run.verdicts]


def _answer(verdict: Mapping[str, Any]) -> str:
    match verdict.get("valid"):
        case False:
            return "violated"
        case True:
            return "proves too little" if verdict.get("inconclusive") else "holds"
        case _:
            return "unknown"


def _wrong(runs: Sequence[Subject]) -> list[str]:
    said = [str(each.get("sentence", "")) for run in runs for each in run.verdicts if each.get("valid") is False]
    return list(dict.fromkeys(said))[:10]


def _notes(side: Side) -> list[str]:
    bare = list(dict.fromkeys(run.problem for run in side.runs if run.problem))
    unjudged = [run.name for run in side.runs if not run.verdicts]
    return [
        *(f"{side.label}: no figures: {problem}" for problem in bare),
        *([f"{side.label}: not judged yet: {', '.join(unjudged)} (splitbrain analyze)."] if unjudged else []),
    ]


# --- figures ------------------------------------------------------------------------------------------------------

_PLAIN: Final[tuple[tuple[str, str, Callable[[Figures], float | None]], ...]] = (
    ("duration", "s", lambda found: found.duration_s),
    ("ops", "", lambda found: found.ops),
    ("ok", "1/s", lambda found: found.ok_per_s),
    ("unknown (info)", "%", lambda found: 100 * found.info / found.ops if found.ops else None),
    ("latency p50", "ms", lambda found: found.latency_ms.get("p50")),
    ("latency p95", "ms", lambda found: found.latency_ms.get("p95")),
    ("latency p99", "ms", lambda found: found.latency_ms.get("p99")),
    ("latency max", "ms", lambda found: found.latency_ms.get("max")),
    ("latency p99 from due", "ms", lambda found: found.due_latency_ms.get("p99")),
    ("offered rate", "ops/s", lambda found: found.offered_per_s),
    ("achieved rate", "ops/s", lambda found: found.achieved_per_s),
    ("availability in time", "%", lambda found: _percent(found.available_time)),
    ("availability in ops", "%", lambda found: _percent(found.available_ops)),
    ("usable after all was healed", "s", lambda found: found.healed_s),
    ("leader changes", "", lambda found: found.leader_changes),
    (
        "coverage marks reached",
        "",
        lambda found: None if found.marks is None else sum(count > 0 for count in found.marks.values()),
    ),
)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _figure_rows(a: Sequence[Subject], b: Sequence[Subject]) -> list[FigureRow]:
    on_a, on_b = ([run.figures for run in runs if run.figures is not None] for runs in (a, b))
    rows = [
        _figure_row(name, unit, [of(each) for each in on_a], [of(each) for each in on_b]) for name, unit, of in _PLAIN
    ]
    kinds = sorted({(each.fault, each.action) for found in (*on_a, *on_b) for each in found.recoveries})
    for fault, action in kinds:
        what = f"{fault} {'healed' if action == 'stop' else 'injected'}"
        for until, name in (("first_s", "first answer"), ("majority_s", "a majority answers"), ("all_s", "all answer")):
            pooled = [[getattr(each, until) for each in _of_kind(found, fault, action)] for found in (on_a, on_b)]
            rows.append(_figure_row(f"{what}: {name}", "s", *pooled, pooled=True))
    return [row for row in rows if row.a is not None or row.b is not None]


def _of_kind(found: Sequence[Figures], fault: str, action: str) -> list[Any]:
    return [each for one in found for each in one.recoveries if (each.fault, each.action) == (fault, action)]


def _figure_row(
    name: str, unit: str, a: Sequence[float | None], b: Sequence[float | None], *, pooled: bool = False
) -> FigureRow:
    of_a, of_b = _spread(a), _spread(b)
    ratio = round(of_b.median / of_a.median, 4) if of_a is not None and of_b is not None and of_a.median else None
    missing_a, missing_b = (sum(value is None for value in values) for values in (a, b))
    return FigureRow(name, unit, of_a, of_b, ratio, _differs(a, b), missing_a, missing_b, pooled)


def _known(values: Sequence[float | None]) -> list[float]:
    return sorted(float(value) for value in values if value is not None)


def _spread(values: Sequence[float | None]) -> Spread | None:
    known = _known(values)
    if not known:
        return None
    p95 = known[math.ceil(0.95 * len(known)) - 1]
    median, low, high, p95 = (round(value, 6) for value in (statistics.median(known), known[0], known[-1], p95))
    return Spread(len(known), median, low, high, p95, len(values) - len(known))


def _differs(a: Sequence[float | None], b: Sequence[float | None]) -> bool:
    """Whether the sides differ by more than the values of one side do."""
    of_a, of_b = _known(a), _known(b)
    if min(len(of_a), len(of_b)) < SPREAD_MIN:
        return False
    (low_a, high_a), (low_b, high_b) = _middle(of_a), _middle(of_b)
    return low_a > high_b or low_b > high_a


def _middle(known: Sequence[float]) -> tuple[float, float]:
    """Between which two numbers the values of a side are taken to lie."""
    if len(known) <= WHOLE_MAX:
        return known[0], known[-1]
    first, _, third = statistics.quantiles(known, n=4, method="inclusive")
    return first, third


def _flagged(a: Sequence[Subject], b: Sequence[Subject]) -> str:
    fewest = min(len(a), len(b))
    if fewest >= SPREAD_MIN:
        return "Flagged: figures whose spreads (the range; the quartiles of twelve values or more) do not touch."
    many = "one run" if fewest == 1 else f"{fewest} runs"
    return (
        f"With {many} on a side a difference may be chance: figures of whole runs are flagged from "
        f"{SPREAD_MIN} runs a side, recovery times from {SPREAD_MIN} operations of the nemesis a side."
    )


def _marks(runs: Sequence[Subject]) -> set[str] | None:
    """Marks that some run reached; None if no run counted."""
    counted = [run.figures.marks for run in runs if run.figures is not None and run.figures.marks is not None]
    return {mark for marks in counted for mark, count in marks.items() if count} if counted else None


# --- what was tested ----------------------------------------------------------------------------------------------

_TESTED: Final = ("nodes", "bugs", "left_out", "checkers", "versions", "git")
_NOT_COMPARED: Final = ("options.seed",)
_EMPTY: Final = ("null", '""', "[]", "{}")


def _differences(a: Sequence[Subject], b: Sequence[Subject]) -> list[Difference]:
    on_a, on_b = ([_tested(run.document) for run in runs] for runs in (a, b))
    names = dict.fromkeys(name for each in (*on_a, *on_b) for name in each)
    found: list[Difference] = []
    for name in names:
        of_a, of_b = (sorted({each.get(name, "none") for each in side}) for side in (on_a, on_b))
        if name.startswith("checkers.") and ["none"] in (of_a, of_b):
            continue  # that one side has the checker is said by their names
        if of_a != of_b:
            found.append(Difference(name, of_a, of_b))
    return found


def _tested(document: Mapping[str, Any]) -> dict[str, str]:
    """What belongs to the test, flat: a dotted name and JSON."""
    flat: dict[str, str] = {}
    for part in ("options", *_TESTED):
        value: Any = document.get(part)
        if part == "checkers" and isinstance(value, list):
            flat |= _checkers(cast("list[Any]", value))
        elif isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            flat |= {f"{part}.{name}": canonical_json(each) for name, each in named.items()}
        elif value is not None:
            flat[part] = canonical_json(value)
    # An option that is empty, and one that an older version did not know yet, are the same to a test.
    return {name: text for name, text in flat.items() if name not in _NOT_COMPARED and text not in _EMPTY}


def _checkers(listed: Sequence[Any]) -> dict[str, str]:
    """The names of the checkers in one line, and one for each option."""
    known = [cast("dict[str, Any]", each) for each in listed if isinstance(each, dict)]
    flat = {"checkers": canonical_json(sorted(str(each.get("name")) for each in known))}
    for each in known:
        options: Any = each.get("options")
        if isinstance(options, dict):
            named = cast("dict[str, Any]", options)
            flat |= {f"checkers.{each.get('name')}.{name}": canonical_json(value) for name, value in named.items()}
    return flat


def _seeds(a: Sequence[Subject], b: Sequence[Subject]) -> str:
    of_a, of_b = ({run.document.get("seed") for run in runs} for runs in (a, b))
    return "" if of_a == of_b else "The seeds differ: so do ops, and the times of faults."
