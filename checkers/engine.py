"""Judging a run in this process; and the steps that the Spark pipeline shares with it.

A checker that breaks must not hide what another one found, nor pass for an answer. Its verdict becomes "unknown", says
what happened, and carries the traceback in `evidence["crashes"]`; `crashed` turns that into the run's harness error.
A wrong request (an unknown checker, a wrong option, an op that makes no sense) is not a crash: it is raised, before or
instead of any verdict. If it is one of a single key, what was found in other keys stands: a violation is the verdict
then, and says what could not be judged.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from splitbrain.checkers import left_out
from splitbrain.checkers.long_histories import LongHistory
from splitbrain.checkers.partitions import by_key, client_keys, in_order, without_keys
from splitbrain.checkers.registry import CHECKERS, checker
from splitbrain.checkers.turns import InTurns, Task, judge_in_turns
from splitbrain.checkers.verdict import (
    AnyChecker,
    Checker,
    CheckerSpec,
    Outcome,
    SummaryChecker,
    Verdict,
    WholeChecker,
    outcome,
)
from splitbrain.results.arrow import TELEMETRY_SCHEMA, conform, conform_telemetry
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.once import Kept
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason
from splitbrain.results.summarized import SummarizedHistory

_CRASHES: Final = "crashes"
_MORE_CRASHES: Final = "more_crashes"
_CRASHES_SHOWN: Final = 20
_SET_UP: Final = "being set up"
"""What a checker did that refused the request: its name, its options, or what they name are wrong."""
_IN_PROCESS: Final = "judging the run"
"""What a checker did whose process has ended."""

COVERAGE: Final = "coverage"
"""The checker that decides whether a run tested enough."""


def judge(
    history: pa.Table | SummarizedHistory,
    specs: Sequence[CheckerSpec],
    telemetry: pa.Table | None = None,
    *,
    progress: Callable[[str], None] = lambda _: None,
    weaker: bool = True,
) -> list[Verdict]:
    """One verdict per checker, in the order of `specs`.

    Args:
        history: the ops of a run.
        specs: the checkers that judge it.
        telemetry: of the nodes (`splitbrain.results.arrow.TELEMETRY_SCHEMA`). If there is no row of it, a checker of
            telemetry answers "unknown": the test expects telemetry, and nothing was proven.
        progress: called with the name of each checker before it judges.
        weaker: whether to add to a run that is not linearizable which weaker models it keeps (`with_weaker_models`).

    Raises:
        UsageError: a checker is unknown, or an option of one is wrong.
        HistoryFormatError: a table is not what it should be.
    """
    for spec in specs:
        checker(spec.name)
    recorded = Recorded(history, telemetry)
    verdicts: list[Verdict] = []
    for spec in specs:
        progress(spec.name)
        try:
            verdicts.append(last(recorded.answers(spec, weaker=weaker)))
        except DamagedError as damaged:
            raise damaged.error from None
    return verdicts


def judge_long(history: LongHistory, spec: CheckerSpec, *, weaker: bool = True) -> Verdict:
    """The verdict of a checker that judges keys in turns on a long history of one key.

    Args:
        history: more rows than are looked at for weaker models.
        spec: who judges it.
        weaker: whether to say of a violation that weaker models were not looked at, and why.

    Raises:
        UsageError: the checker is unknown or no such one, or an option of it is wrong.
    """
    each = checker(spec.name)
    if not isinstance(each, InTurns) or each.partition != "key":
        raise UsageError(f"the checker {spec.name!r} does not judge long histories: give it the table of one.")
    wrong: _Wrong = {}
    verdict = merge(each, spec, _in_turns(each, spec, [history], wrong))
    for error in wrong.values():
        raise error
    if not weaker or verdict.valid != "false" or not is_linearizability(each):
        return verdict
    from splitbrain.checkers.weaker import ROWS_MAX, too_large

    if history.file_rows > ROWS_MAX:  # its table would be made for nothing
        return decode(encode(too_large(verdict)))
    return with_weaker_models(verdict, each, spec, history.table())


def judge_each(
    history: pa.Table | SummarizedHistory,
    specs: Sequence[CheckerSpec],
    telemetry: pa.Table | None = None,
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Verdict]:
    """The same, but a wrong request breaks only the verdict of its own checker: for runs, whose tests name checkers.

    Raises:
        HistoryFormatError: a table is not what it should be.
    """
    recorded = Recorded(history, telemetry)
    verdicts: list[Verdict] = []
    for spec in specs:
        progress(spec.name)
        try:
            verdicts.append(last(or_set_up(recorded, spec)))
        except DamagedError as damaged:
            raise damaged.error from None
    return verdicts


class DamagedError(Exception):
    """The file of a history cannot be read: no checker can judge it, and no request was wrong."""

    def __init__(self, error: HistoryFormatError) -> None:
        super().__init__(str(error))
        self.error = error


class Recorded:
    """What a run recorded; its keys one by one for the checkers that judge them so.

    Of a summarized history the whole table is read once a checker needs it.

    Attributes:
        kept: what several checkers, and the figures, need of these tables, made once.

    Raises:
        HistoryFormatError: a table is not what it should be.
    """

    def __init__(self, history: pa.Table | SummarizedHistory, telemetry: pa.Table | None) -> None:
        self._summarized = history if isinstance(history, SummarizedHistory) else None
        self._table = in_order(conform(history)) if isinstance(history, pa.Table) else None
        self._telemetry = None if telemetry is None else conform_telemetry(telemetry)
        frame = None if self._summarized is None else self._summarized.frame
        self.kept = Kept(self._table, frame, self._telemetry)

    @property
    def _history(self) -> pa.Table:
        if self._table is None:
            assert self._summarized is not None
            try:
                self._table = self._summarized.table
            except HistoryFormatError as error:
                raise DamagedError(error) from error
        return self._table

    @cached_property
    def _keys(self) -> list[pa.Table]:
        return list(by_key(self._history))

    def answers(self, spec: CheckerSpec, *, weaker: bool = True) -> Generator[Verdict]:
        """A checker's verdict on the run: the last one. Those before it are violations that are known by then.

        Args:
            spec: who judges.
            weaker: whether to ask for weaker models (`with_weaker_models`).

        Raises:
            UsageError: the checker is unknown, or an option of it is wrong.
            DamagedError: the history is a summarized one, and cannot be read as a whole.
        """
        each = checker(spec.name)
        parts: list[Verdict] = []
        wrong: _Wrong = {}
        for part in self._parts(each, spec, wrong):
            if part.valid == "false" and not any(known.valid == "false" for known in parts):
                yield left_out.plain([part])[0]
            parts.append(part)
        verdict = merge(each, spec, sorted(parts, key=by_key_order) if each.partition == "key" else parts)
        if wrong and verdict.valid != "false":
            raise wrong[min(wrong, key=_key_order)]
        verdict = self._under_strategy(verdict, each)
        yield verdict
        if not weaker or verdict.valid != "false" or not is_linearizability(each):
            return
        more = with_weaker_models(verdict, each, spec, self._history)
        if more is not verdict:
            yield more

    def _under_strategy(self, verdict: Verdict, each: AnyChecker) -> Verdict:
        """A violation of what clients are promised, with the strategy for partitions that nodes follow, if they do."""
        if self._telemetry is None or verdict.valid != "false" or each.partition not in ("key", "run"):
            return verdict
        from splitbrain.checkers.coverage.judged import OF_THE_RUN
        from splitbrain.checkers.strategies.context import under_strategy

        if each.name in OF_THE_RUN:
            return verdict

        history = self._history if self._summarized is None else self._summarized.frame
        try:
            with self.kept.used():
                return under_strategy(verdict, history, self._telemetry)
        except Exception as error:
            broke = broken(verdict.checker, error, "asking for the strategy of nodes")
            return _with_crashes(verdict, broke.evidence[_CRASHES])

    def _parts(self, each: AnyChecker, spec: CheckerSpec, wrong: _Wrong) -> Iterable[Verdict]:
        """A checker's verdicts on all parts that it judges one by one, as they come."""
        if each.partition == "key":
            return _check_keys(each, spec, self._keys, wrong)
        with self.kept.used():
            return self._of_whole(each, spec)

    def _of_whole(self, each: AnyChecker, spec: CheckerSpec) -> Iterable[Verdict]:
        """The one verdict of a checker that takes no keys, made by now."""
        if each.partition == "telemetry":
            return [check_telemetry(each, spec, self._telemetry)]
        if self._summarized is not None and isinstance(each, SummaryChecker):
            found = _check_summarized(each, spec, self._summarized)
            if found is not None:
                return [found]
        if self._summarized is not None and getattr(each, "counts_ops", False):
            history = self._summarized.frame
        else:
            history = self._history
        if each.partition == "whole run":
            return [check_whole(each, spec, history, self._telemetry)]
        return [check_partition(each, spec, history)]


def or_set_up(recorded: Recorded, spec: CheckerSpec) -> Generator[Verdict]:
    """As `Recorded.answers`, but a wrong request is a verdict too.

    Raises:
        DamagedError: the history is a summarized one, and cannot be read as a whole.
    """
    try:
        yield from recorded.answers(spec)
    except UsageError as error:
        yield refused(spec.name, error)


def last(answers: Iterable[Verdict]) -> Verdict:
    """The last of some answers: the verdict."""
    *_, verdict = answers
    return verdict


def judged_outcome(verdicts: Sequence[Verdict], harness_error: str | None = None) -> tuple[Outcome, str | None]:
    """The outcome of a run and its harness error, a broken checker included."""
    error = harness_error or crashed(verdicts)
    return outcome(verdicts, error), error


def specs_of(test_document: Mapping[str, Any], source: str) -> tuple[CheckerSpec, ...]:
    """The checkers that a test.json names.

    Raises:
        HistoryFormatError: it names none, or not as {"name", "options"}.
    """
    try:
        specs = msgspec.convert(test_document.get("checkers"), tuple[CheckerSpec, ...])
    except msgspec.ValidationError as error:
        raise HistoryFormatError(source, f"test.json does not say which checkers judge the run: {error}") from error
    if not specs:
        raise HistoryFormatError(source, "test.json names no checker: nothing would judge the run, and it would pass")
    return specs


def cut_short(specs: Sequence[CheckerSpec], note: str | None) -> tuple[CheckerSpec, ...]:
    """The checkers of a run whose controller was killed: coverage, which is then always among them, knows of it.

    Args:
        specs: the checkers that its test names.
        note: how its history was recovered (`splitbrain.results.arrow.recovered_note`); None where the run came to its
            end.
    """
    if note is None:
        return tuple(specs)
    if not any(spec.name == COVERAGE for spec in specs):
        specs = (*specs, CheckerSpec(COVERAGE))
    return tuple(
        CheckerSpec(spec.name, {**spec.options, "cut_short": note}) if spec.name == COVERAGE else spec for spec in specs
    )


# --- partitions -----------------------------------------------------------------------------------------------------


def any_by_summary(specs: Sequence[CheckerSpec]) -> bool:
    """Whether a checker of this package judges histories by the summaries of their lists.

    No other one is loaded here: it may break while it is loaded, and that must be its own verdict.
    """
    return any(spec.name in CHECKERS and isinstance(checker(spec.name), SummaryChecker) for spec in specs)


def by_key_order(verdict: Verdict) -> tuple[bool, str]:
    """The order of partitions before they are merged: by key, ops without a key first."""
    return _key_order(verdict.key)


def _key_order(key: str | None) -> tuple[bool, str]:
    return key is not None, key or ""


# --- one partition, one checker -------------------------------------------------------------------------------------


def check_partition(each: Checker, spec: CheckerSpec, part: pa.Table) -> Verdict:
    """A checker's verdict on one partition, as JSON carries it; "unknown" if the checker breaks.

    Raises:
        UsageError: an option is wrong, or an op makes no sense; and no other key is violated, where keys stand apart.
    """
    key = part.column("key")[0].as_py() if each.partition == "key" else None
    rows = f"{counted(part.num_rows, 'row')} of {'telemetry' if each.partition == 'telemetry' else 'the history'}"
    what = f"judging {rows}" if key is None else f"judging {rows} of key {key!r}"
    try:
        return _answer(lambda: _checked(each, spec, part, each.check(part, spec.options)), spec, what, key)
    except UsageError:
        found = _violated_beside(each, spec, part) if getattr(each, "keys_apart", False) else None
        if found is None:
            raise
        return found


def _violated_beside(each: Checker, spec: CheckerSpec, history: pa.Table) -> Verdict | None:
    """The violation in those keys of a history that can be judged, beside others; None if there is none."""
    wrong = [refused(spec.name, error, key=key) for key, error in _wrong_keys(each, spec, history).items()]
    rest = without_keys(history, {part.key for part in wrong})
    if not wrong or rest.num_rows == history.num_rows:
        return None
    try:
        verdict = check_partition(each, spec, rest)
    except UsageError:
        return None
    if verdict.valid != "false":
        return None
    verdict = _with_crashes(verdict, [crash for part in wrong for crash in part.evidence[_CRASHES]])
    return msgspec.structs.replace(verdict, sentence=f"{verdict.sentence}{_beside(wrong)}")


_WRONG_KEYS: Final = 100
"""Beside more keys that cannot be judged no violation is looked for."""


def _wrong_keys(each: Checker, spec: CheckerSpec, history: pa.Table) -> _Wrong:
    """The keys that cannot be judged by themselves, in order; none if there is one key, or an option is wrong."""
    wrong: _Wrong = {}
    keys = sorted(client_keys(history), key=_key_order)
    try:
        each.check(history.slice(0, 0), spec.options)
    except Exception:  # it is not the ops of a key that are wrong
        return wrong
    groups = [(history, keys)] if len(keys) > 1 else []
    while groups:
        table, some = groups.pop()
        try:
            _answer(partial(each.check, table, spec.options), spec, "looking for keys that cannot be judged", None)
        except UsageError as error:
            if len(some) == 1:
                wrong[some[0]] = error
                if len(wrong) > _WRONG_KEYS:  # it is rather the checker that is wrong: looking on costs too much
                    return {}
                continue
            one, other = some[: len(some) // 2], some[len(some) // 2 :]
            groups += [(without_keys(table, set(other)), one), (without_keys(table, set(one)), other)]
    return {key: wrong[key] for key in sorted(wrong, key=_key_order)}


def _check_summarized(each: SummaryChecker, spec: CheckerSpec, history: SummarizedHistory) -> Verdict | None:
    """A checker's verdict by summaries; None if the table has to decide.

    Raises:
        UsageError: an option is wrong.
    """
    what = f"judging {counted(history.frame.num_rows, 'row')} of the history"
    try:
        found = each.check_summarized(history, spec.options)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        return broken(spec.name, error, what)
    return None if found is None else _answer(lambda: found, spec, what, None)


_Wrong: TypeAlias = dict[str | None, UsageError]
"""By key, why its ops cannot be judged."""


def _check_keys(each: Checker, spec: CheckerSpec, parts: Sequence[pa.Table], wrong: _Wrong) -> Iterable[Verdict]:
    """A checker's verdicts on keys, in turns where it can do that, else one after the other.

    Args:
        each: the checker.
        spec: its name and options.
        parts: the ops of each key.
        wrong: gets what is wrong with keys that cannot be judged; the verdict on such a key is as `refused`.
    """
    if isinstance(each, InTurns):
        return _in_turns(each, spec, parts, wrong)
    return (_check_key(each, spec, part, wrong) for part in parts)


def _check_key(each: Checker, spec: CheckerSpec, part: pa.Table, wrong: _Wrong) -> Verdict:
    try:
        return check_partition(each, spec, part)
    except UsageError as error:
        key = part.column("key")[0].as_py()
        wrong[key] = error
        return refused(spec.name, error, key=key)


def _in_turns(
    each: InTurns, spec: CheckerSpec, parts: Sequence[pa.Table | LongHistory], wrong: _Wrong
) -> list[Verdict]:
    tasks = [each.begin(part, spec.options) for part in parts]
    rows = {task.key: part.num_rows for task, part in zip(tasks, parts, strict=True)}

    def doing(key: str | None) -> str:
        return f"judging {counted(rows[key], 'row')} of the history" + ("" if key is None else f" of key {key!r}")

    def broke(task: Task, error: Exception) -> Verdict:
        if not isinstance(error, UsageError):
            return broken(spec.name, error, doing(task.key), key=task.key)
        wrong[task.key] = error
        return refused(spec.name, error, key=task.key)

    verdicts = judge_in_turns(tasks, broke)
    return [_answer(lambda verdict=verdict: verdict, spec, doing(verdict.key), verdict.key) for verdict in verdicts]


def check_whole(each: WholeChecker, spec: CheckerSpec, history: pa.Table, telemetry: pa.Table | None) -> Verdict:
    """A checker's verdict on all that a run recorded, as JSON carries it; "unknown" if the checker breaks.

    Raises:
        UsageError: an option is wrong.
    """
    telemetry_rows = TELEMETRY_SCHEMA.empty_table() if telemetry is None else telemetry
    if not telemetry_rows.num_rows and getattr(each, "needs_telemetry", False):
        return _without_telemetry(spec)
    what = f"judging {counted(history.num_rows, 'row')} of the history and {telemetry_rows.num_rows} of telemetry"
    return _answer(
        lambda: _checked(each, spec, history, each.check(history, telemetry_rows, spec.options)), spec, what, None
    )


def _answer(check: Callable[[], Verdict], spec: CheckerSpec, what: str, key: str | None) -> Verdict:
    """The verdict of a checker, with the time that it took if the checker did not set that itself."""
    began_s = time.thread_time()
    try:
        verdict = _returned(spec, check())
        if not verdict.seconds:
            verdict = msgspec.structs.replace(verdict, seconds=round(time.thread_time() - began_s, 6))
        verdict = decode(encode(verdict))
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        return broken(spec.name, error, what, key=key)
    return msgspec.structs.replace(verdict, key=key) if verdict.key != key else verdict


def _checked(each: AnyChecker, spec: CheckerSpec, history: pa.Table, verdict: Any) -> Verdict:
    """What a checker returned, with what it left out."""
    return left_out.of_part(each, spec.options, _returned(spec, verdict), history)


def _returned(spec: CheckerSpec, verdict: Any, method: str = "") -> Verdict:
    """What a checker returned, if it is a verdict.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(verdict, Verdict):
        raise TypeError(f"{method}checker {spec.name!r} returned {verdict!r:.80}; it must return a Verdict")
    return verdict


def check_telemetry(each: Checker, spec: CheckerSpec, telemetry: pa.Table | None) -> Verdict:
    """A checker's verdict on a run's telemetry; "unknown" where there is none.

    Raises:
        UsageError: an option is wrong.
    """
    if telemetry is None or not telemetry.num_rows:
        return _without_telemetry(spec)
    return check_partition(each, spec, telemetry)


def _without_telemetry(spec: CheckerSpec) -> Verdict:
    sentence = f"Unknown: the nodes of this run left no telemetry, so there is nothing for {spec.name} to judge."
    return Verdict(
        checker=spec.name,
        valid="unknown",
        sentence=sentence,
        inconclusive=(Reason(Code.NO_TELEMETRY, sentence),),
    )


def merge(each: AnyChecker, spec: CheckerSpec, parts: Sequence[Verdict]) -> Verdict:
    """A checker's verdict on a run from those on its partitions.

    A crash stays visible in it, and keeps it from being "true"; a violation in another partition stays one. So does
    one beside partitions that cannot be judged; without a violation, that is the verdict (`refused`).

    Raises:
        UsageError: an option is wrong.
    """
    wrong = [part for part in parts if is_refused(part)]
    if wrong and not any(part.valid == "false" for part in parts):
        return _of_run(wrong[0])
    crashes = [crash for part in parts for crash in part.evidence.get(_CRASHES, ())]
    given, parts = parts, left_out.plain(parts)
    try:
        merged = decode(encode(_returned(spec, each.merge(parts, spec.options), "merge of ")))
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        broke = broken(spec.name, error, f"merging the verdicts on {counted(len(parts), 'partition')}")
        crashes += broke.evidence[_CRASHES]
        merged = next((part for part in parts if part.valid == "false"), broke)
    merged = left_out.merged(merged, given)
    if not crashes:
        return merged
    merged = msgspec.structs.replace(merged, evidence={**merged.evidence, **_shown(crashes)})
    if merged.valid == "false":
        return msgspec.structs.replace(merged, sentence=f"{merged.sentence}{_beside(wrong)}")
    reasons = (_broke(crashes), *merged.inconclusive)
    return msgspec.structs.replace(merged, valid="unknown", sentence=_sentence(crashes), inconclusive=reasons)


def _beside(wrong: Sequence[Verdict]) -> str:
    """What could not be judged beside a violation, in words that follow it; "" if nothing was wrong."""
    if not wrong:
        return ""
    first = wrong[0].evidence[_CRASHES][0]
    which = "The ops without a key" if first["key"] is None else f"Key {first['key']!r}"
    more = f" (And {counted(len(wrong) - 1, 'more key')}.)" if len(wrong) > 1 else ""
    return f" {which} could not be judged: {str(first['error']).rstrip('.')}.{more}"


def _of_run(wrong: Verdict) -> Verdict:
    """The verdict on a run of which a key cannot be judged, from that on the key: as `refused` without one."""
    return _unknown({**wrong.evidence[_CRASHES][0], "key": None})


def _shown(crashes: Sequence[Mapping[str, Any]], beside: int = 0) -> dict[str, Any]:
    """Crashes as evidence, and how many more there are, `beside` included: not all of thousands of keys."""
    more = max(0, len(crashes) - _CRASHES_SHOWN) + beside
    return {_CRASHES: list(crashes[:_CRASHES_SHOWN]), **({_MORE_CRASHES: more} if more > 0 else {})}


def with_weaker_models(verdict: Verdict, each: AnyChecker, spec: CheckerSpec, history: pa.Table) -> Verdict:
    """The verdict that a run is not linearizable, with what is known of weaker models; any other one as it is.

    The verdict stays what it is, also where this breaks: then the crash is in its evidence.
    """
    if verdict.valid != "false" or not is_linearizability(each):
        return verdict
    from splitbrain.checkers.weaker import with_models

    try:
        return decode(encode(with_models(verdict, history, spec.options)))
    except Exception as error:
        return _with_crashes(verdict, broken(spec.name, error, "asking for weaker models").evidence[_CRASHES])


def is_linearizability(each: AnyChecker) -> bool:
    """Whether a checker is that of linearizability, or derives from it."""
    if each.partition != "key":
        return False
    from splitbrain.checkers.linearizable import Linearizable

    return isinstance(each, Linearizable)


def crashed(verdicts: Iterable[Verdict]) -> str | None:
    """The harness error for checkers that broke, None if none broke."""
    for verdict in verdicts:
        crashes = verdict.evidence.get(_CRASHES, ())
        if crashes:
            return _sentence(crashes, verdict.evidence.get(_MORE_CRASHES, 0)).removeprefix("Unknown: ")
    return None


def broken(name: str, error: BaseException, doing: str, *, key: str | None = None) -> Verdict:
    """The verdict of a checker that broke: "unknown", with the traceback in its evidence."""
    what = "".join(traceback.format_exception_only(error)).strip().partition("\n")[0]
    if doing == _SET_UP:
        what = str(error)
    if isinstance(error, MemoryError):
        what = f"{what} (memory ran out: judge it where there is more, or raise --checker-memory)"
    crash = {
        "checker": name,
        "key": key,
        "doing": doing,
        "error": what,
        "traceback": "".join(traceback.format_exception(error)),
    }
    return _unknown(crash)


def refused(name: str, error: UsageError, *, key: str | None = None) -> Verdict:
    """The verdict of a checker that was asked for what is wrong: it is a crash that the test's author mends."""
    return broken(name, error, _SET_UP, key=key)


def is_refused(verdict: Verdict) -> bool:
    """Whether it is one."""
    crashes = verdict.evidence.get(_CRASHES, ())
    return verdict.valid == "unknown" and any(crash["doing"] == _SET_UP for crash in crashes)


def stopped(name: str, why: str, details: str, known: Verdict | None) -> Verdict:
    """The verdict of a checker that its process did not survive, or that was stopped there.

    Args:
        name: of the checker.
        why: what ended the process, in words that follow its name.
        details: the traceback, if there is one.
        known: what it had found until then: a violation stays one.
    """
    crash = {"checker": name, "key": None, "doing": _IN_PROCESS, "error": f"it {why}", "traceback": details}
    return _unknown(crash) if known is None or known.valid != "false" else _with_crashes(known, [crash])


def _unknown(crash: Mapping[str, Any]) -> Verdict:
    return Verdict(
        checker=crash["checker"],
        valid="unknown",
        key=crash["key"],
        sentence=_sentence([crash]),
        inconclusive=(_broke([crash]),),
        evidence={_CRASHES: [crash]},
    )


def _with_crashes(verdict: Verdict, crashes: Sequence[Mapping[str, Any]]) -> Verdict:
    every = [*verdict.evidence.get(_CRASHES, ()), *crashes]
    return msgspec.structs.replace(
        verdict, evidence={**verdict.evidence, **_shown(every, verdict.evidence.get(_MORE_CRASHES, 0))}
    )


def encode(verdict: Verdict) -> bytes:
    """A verdict as JSON; NumPy's scalars become plain numbers.

    Raises:
        TypeError: evidence or figures hold what JSON cannot carry.
    """
    return msgspec.json.encode(verdict, enc_hook=_plain)


decode = msgspec.json.Decoder(Verdict).decode
"""A verdict from its JSON."""


def _plain(value: Any) -> Any:
    if type(value).__module__ == "numpy":
        return value.tolist()
    raise TypeError(f"a verdict cannot hold a {type(value).__name__}: {value!r:.80}")


def _broke(crashes: Sequence[Mapping[str, Any]]) -> Reason:
    advice = "This is a defect of the checker: verdict.json has the traceback."
    if crashes[0]["doing"] == _SET_UP:
        advice = "Correct the checkers of the workload."
    if crashes[0]["doing"] == _IN_PROCESS:
        advice = (
            "If the run is as large as that, raise --checker-time or --checker-memory; else this is a defect of the "
            "checker, or of a library that it uses."
        )
    return Reason(Code.CHECKER_BROKE, _sentence(crashes), advice)


def _sentence(crashes: Sequence[Mapping[str, Any]], beside: int = 0) -> str:
    """What the first of some crashes was, and how many more there are, `beside` included."""
    first, others = crashes[0], len(crashes) - 1 + beside
    more = f" (and {others} more such)" if others else ""
    what = "this run" if first["key"] is None else f"key {first['key']!r}"
    what = f"cannot judge {what}" if first["doing"] == _SET_UP else f"broke while {first['doing']}"
    return f"Unknown: checker {first['checker']!r} {what}: {first['error']}{more}"
