"""Is it new, and how often is it reproduced? What the other runs of the same test in the store ended in and showed."""

from __future__ import annotations

import hashlib
import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgspec

from splitbrain.results.damage import DAMAGE
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.plainfile import refuse_others
from splitbrain.results.quantities import counted
from splitbrain.results.report.run_view import RunView
from splitbrain.results.signatures import Signature, part
from splitbrain.results.values import NOT_JSON
from splitbrain.results.versioned import FORMAT

RUNS_MAX: Final = 200
"""The largest number of other runs of the test that are read: those nearest in time."""

SHOWN_MAX: Final = 10
"""The largest number of runs in the table."""

NOTHING_EARLIER: Final = "no earlier run"
"""A test's first run has no earlier run to compare with."""


class Other(NamedTuple):
    """Another run of the test.

    Attributes:
        name: its name; names begin with the time.
        outcome: in a word; None if it was not judged.
        signatures: of its violations, and of its harness error.
        seed: its root seed, from its test.json.
        options: all that it was run with but the seed, in one form that can be compared; "" without options.
        revision: of splitbrain's sources, shortened, where it is known.
        has_report: whether there is a page to lead to.
    """

    name: str
    outcome: str | None
    signatures: frozenset[Signature]
    seed: Any
    options: str
    revision: str | None
    has_report: bool


class Rate(NamedTuple):
    """In how many of how many judged runs something happened."""

    seen: int
    of: int


class Trace(NamedTuple):
    """A signature of this run among the others.

    Attributes:
        signature: which one.
        word: "new", "known" (every earlier judged run has it), "flaky" (some have it, some do not), or NOTHING_EARLIER.
        earlier: how many of the earlier judged runs have it.
        first: the earliest of them, None if there is none.
        last_without: the last earlier judged run that passed.
        same_options: how often it is reproduced: in runs with all options of this one but the seed, this one included.
        same_seed: the same among those that have its seed as well.
    """

    signature: Signature
    word: str
    earlier: Rate
    first: Other | None
    last_without: Other | None
    same_options: Rate
    same_seed: Rate


class Past(NamedTuple):
    """What the other runs show.

    Attributes:
        traces: one for each signature of this run.
        others: runs of the same test beside this one, the nearest in time, oldest first.
        left_out: runs of the test that were not read, because there are too many.
        unreadable: runs whose verdict cannot be read.
    """

    traces: list[Trace]
    others: list[Other]
    left_out: int
    unreadable: int


NONE: Final = Past([], [], 0, 0)
"""Of a run that has no other runs beside it."""


class _Verdict(msgspec.Struct):
    checker: str = "?"
    valid: bool | str = "unknown"
    anomalies: list[str] = []


class _Brief(msgspec.Struct):
    """As much of verdict.json as is needed: figures and evidence, which are most of it, are skipped."""

    outcome: str
    verdicts: list[_Verdict] = []
    signatures: list[str] = []
    harness_error: str | None = None
    format: int = 1


class _Document(msgspec.Struct):
    seed: Any = None
    options: Any = None
    git: dict[str, Any] | None = None


def past_of(view: RunView, most: int = RUNS_MAX) -> Past:
    """Look at the other runs of a run's test. A run outside of a store has none."""
    run = view.run
    if not is_in_store(run.path):
        return NONE
    return _past(run.path, _shown(view), _runs_in(run.path.parent), _look, most)


class Siblings:
    """All runs of some tests, each read once: for the pages of many of them."""

    def __init__(self, runs: Iterable[Path]) -> None:
        """Read the tests of these runs. Each of the runs that was judged counts as one with a page."""
        paths = set(runs)
        self._runs: dict[Path, list[Path]] = {}
        self._seen: dict[Path, Other | None] = {}
        for test in {path.parent for path in paths if is_in_store(path)}:
            self._runs[test] = _runs_in(test)
            for path in self._runs[test]:
                found = _look(path)
                paged = found is not None and found.outcome is not None and path in paths
                self._seen[path] = found._replace(has_report=True) if found is not None and paged else found

    def past_of(self, run: Path, most: int = RUNS_MAX) -> Past:
        """What the other runs of a run's test show."""
        if run.parent not in self._runs:
            return NONE
        return _past(run, self._seen.get(run), self._runs[run.parent], self._seen.__getitem__, most)


def is_in_store(run: Path) -> bool:
    """Whether a run lies among others of its test."""
    return run.parent.name.startswith("test=")


def _past(
    run: Path, mine: Other | None, paths: Sequence[Path], look: Callable[[Path], Other | None], most: int
) -> Past:
    here = bisect_left(paths, run)
    there = here < len(paths) and paths[here] == run
    after = here + there
    earlier = paths[max(here - most, 0) : here]
    chosen = [*earlier, *paths[after : after + most - len(earlier)]]
    found = list(map(look, chosen))
    others = [other for other in found if other is not None]
    traces = _traces(run.name, mine, others) if mine is not None and mine.signatures else []
    return Past(traces, others, len(paths) - there - len(chosen), len(found) - len(others))


def mark_of(verdict: str | None, past: Past) -> str:
    """What the page of a run carries in its head, to be known by: of which verdict it is, and what it says of others.

    The verdict is given by its seal (`splitbrain.results.madefrom.seal`), None where there is none.
    How many runs were left out is only looked at for whether there are any: it changes with every run of the test.
    """
    said = [
        verdict,
        [_plain_trace(trace) for trace in past.traces],
        [_plain(other) for other in past.others[-SHOWN_MAX:]],
        [len(past.others), past.unreadable, past.left_out > 0],
    ]
    return hashlib.blake2b(msgspec.json.encode(said, enc_hook=str), digest_size=16).hexdigest()


def _plain(other: Other | None) -> list[Any]:
    if other is None:
        return []
    return [other.name, other.outcome, sorted(map(str, other.signatures)), other.seed, other.revision, other.has_report]


def _plain_trace(trace: Trace) -> list[Any]:
    rates = [trace.earlier, trace.same_options, trace.same_seed]
    first, last = trace.first, trace.last_without
    names = [None if each is None else [each.name, each.revision] for each in (first, last)]
    return [str(trace.signature), trace.word, *rates, *names]


def _shown(view: RunView) -> Other | None:
    """The run itself, None if its files are damaged."""
    try:
        document = msgspec.convert(view.document, _Document)
        brief = msgspec.convert(msgspec.structs.asdict(view.judgement), _Brief) if view.judgement is not None else None
    except msgspec.ValidationError:
        return None
    return _other(view.run.path, document, brief)


_listed: Final[dict[Path, tuple[int, list[Path]]]] = {}
_SETTLED_NS: Final = 2_000_000_000
"""A folder that was changed less than this before it is listed may change again without another time of change."""


def _runs_in(test: Path) -> list[Path]:
    """The runs of a test, oldest first: listed once as long as none comes and none goes.

    With every page of a large store its test would be listed again: the time would grow with the square of the runs.
    """
    changed_ns = test.stat().st_mtime_ns
    found = _listed.get(test)
    if found is not None and found[0] == changed_ns:
        return found[1]
    paths = sorted(path.parent for path in test.glob("run=*/test.json"))
    _listed.pop(test, None)
    if time.time_ns() - changed_ns > _SETTLED_NS:
        while len(_listed) >= _TESTS_KEPT:
            del _listed[next(iter(_listed))]
        _listed[test] = (changed_ns, paths)
    return paths


_TESTS_KEPT: Final = 64
_RUNS_KEPT: Final = 4_096


def _look(path: Path) -> Other | None:
    """A run at a glance, None if its files are damaged or of a newer version."""
    test, verdict = _stamp(path / "test.json"), _stamp(path / "verdict.json")
    if test is None or os.path.lexists(path / DAMAGE):
        return None
    found = _glance(path, (test, verdict))
    return None if found is None else found._replace(has_report=(path / "report.html").exists())


_Stamp: TypeAlias = tuple[int, int, int, int]


def _stamp(path: Path) -> _Stamp | None:
    """What changes with a file: every file of a store is written aside and renamed. None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@lru_cache(maxsize=_RUNS_KEPT)
def _glance(path: Path, stamps: tuple[_Stamp, _Stamp | None]) -> Other | None:
    """A run at a glance, read once as long as its files are the same."""
    try:
        for file in (path / "test.json", path / "verdict.json"):
            refuse_others(file)
        document = msgspec.json.decode((path / "test.json").read_bytes(), type=_Document)
        brief = None if stamps[1] is None else msgspec.json.decode((path / "verdict.json").read_bytes(), type=_Brief)
    except (OSError, *NOT_JSON, HistoryFormatError):
        return None
    if brief is not None and brief.format > FORMAT:
        return None
    return _other(path, document, brief)


def _other(path: Path, document: _Document, brief: _Brief | None) -> Other:
    revision = (document.git or {}).get("revision")
    return Other(
        name=path.name.removeprefix("run="),
        outcome=brief.outcome if brief is not None else None,
        signatures=_signatures(brief) if brief is not None else frozenset(),
        seed=document.seed,
        options=_comparable(document.options),
        revision=str(revision)[:10] if revision else None,
        has_report=(path / "report.html").exists(),
    )


def _comparable(options: Any) -> str:
    if not isinstance(options, dict):
        return ""
    kept = {str(name): value for name, value in cast("dict[Any, Any]", options).items() if name != "seed"}
    return msgspec.json.encode(kept, order="deterministic").decode()


def _signatures(brief: _Brief) -> frozenset[Signature]:
    """Those that were kept with the verdict; of an earlier version's run checker and anomaly, with `*` for the rest."""
    try:
        found = set(map(Signature.parse, brief.signatures))
    except UsageError:
        found = set[Signature]()
    found = found or {
        Signature(part(verdict.checker), part(anomaly))
        for verdict in brief.verdicts
        if verdict.valid is False
        for anomaly in verdict.anomalies or ["violation"]
    }
    return frozenset(found | ({Signature.of_error(brief.harness_error)} if brief.harness_error else set[Signature]()))


def _traces(name: str, mine: Other, others: Sequence[Other]) -> list[Trace]:
    judged = [other for other in others if other.outcome is not None]
    earlier = [other for other in judged if other.name < name.removeprefix("run=")]
    passed = [other for other in earlier if other.outcome == "pass"]
    alike = [mine, *(other for other in judged if other.options == mine.options)]
    twins = [other for other in alike if other.seed == mine.seed]
    found: list[Trace] = []
    for signature in sorted(mine.signatures):
        seen = [other for other in earlier if _has(other, signature)]
        found.append(
            Trace(
                signature,
                word=_word(len(seen), len(earlier)),
                earlier=Rate(len(seen), len(earlier)),
                first=seen[0] if seen else None,
                last_without=passed[-1] if passed else None,
                same_options=_rate(signature, alike),
                same_seed=_rate(signature, twins),
            )
        )
    return found


def _word(seen: int, of: int) -> str:
    if not of:
        return NOTHING_EARLIER
    return "new" if not seen else "known" if seen == of else "flaky"


def _rate(signature: Signature, runs: Sequence[Other]) -> Rate:
    return Rate(sum(_has(run, signature) for run in runs), len(runs))


def _has(run: Other, signature: Signature) -> bool:
    return any(signature.matches(other) for other in run.signatures)


def bugs_of(document: dict[str, Any]) -> list[str]:
    """Bugs that were switched on in the run: with one of them a violation is expected."""
    bugs: Any = document.get("bugs")
    return [str(bug) for bug in cast("list[Any]", bugs)] if isinstance(bugs, list) else []


NAMED_MAX: Final = 3
"""Signatures that the banner names of each kind."""


def novelty_of(past: Past, bugs: Sequence[str]) -> str:
    """In a sentence or two whether what this run showed is new, for the banner; "" if it showed nothing."""
    if not past.traces:
        return ""
    expected = f" Expected: {', '.join(bugs[:6])} was switched on." if bugs else ""
    earlier = past.traces[0].earlier.of
    if not earlier:
        return f"Not known: this store has no earlier judged run of this test to compare with.{expected}"
    words: list[str] = []
    for word, said in (("new", "New"), ("flaky", "Seen before, not always"), ("known", "Known")):
        alike = [trace for trace in past.traces if trace.word == word]
        names = [f"{trace.signature.checker} {trace.signature.anomaly} ({_seen(trace)})" for trace in alike[:NAMED_MAX]]
        more = f" and {len(alike) - NAMED_MAX} more" if len(alike) > NAMED_MAX else ""
        words += [f"{said}: {'; '.join(names)}{more}."] if alike else []
    return f"{' '.join(words)}{expected}"


def _seen(trace: Trace) -> str:
    """In how many earlier runs, and since when."""
    if trace.first is None:
        return f"in none of {counted(trace.earlier.of, 'earlier run')}"
    return f"in {trace.earlier.seen} of {counted(trace.earlier.of, 'earlier run')}, first in {trace.first.name}"
