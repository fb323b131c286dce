"""From pushed runs to their verdicts: each is copied to where it is judged, and its verdict put beside it from there.

One function does that with one run (`judge_there`): in this process for run after run, or in the workers of Spark,
which get the names of runs and bring their own copies. What a run was judged to be comes back, and nothing else of it.

Runs that pass get their figures and no page, unless pages of all runs are asked for: `splitbrain report` makes a page
when somebody wants it. Pages are made on this machine after the last verdict, since they show what other runs of the
test came to.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from splitbrain.checkers import stored
from splitbrain.checkers.isolation.judging import Judge, called, judge, lasting
from splitbrain.checkers.isolation.limits import DEFAULT, Limits
from splitbrain.checkers.spark.hot_keys import Sizes
from splitbrain.checkers.spark.jobs import LackingPackagesError
from splitbrain.checkers.stored import Unjudged, or_unjudged
from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.many import (
    Judged,
    Paged,
    Warn,
    alone_with,
    damaged,
    has_page,
    in_batches,
    judge_in_batches,
    judge_one,
    judged_before,
    with_pages,
    with_problem,
)
from splitbrain.results.arrow import read_parquet_head
from splitbrain.results.damage import DAMAGE, note_damage, noted_damage
from splitbrain.results.errors import (
    EngineError,
    HistoryFormatError,
    RemoteConnectionError,
    RunNotFoundError,
    SplitbrainError,
)
from splitbrain.results.figures import FIGURES
from splitbrain.results.madefrom import MadeFrom
from splitbrain.results.quantities import counted
from splitbrain.results.remote.copies import VERDICT, Copies, copies_of
from splitbrain.results.remote.pages import fetch_for_page
from splitbrain.results.remote.runs import RemoteRun, RemoteStore, of_all
from splitbrain.results.rundir import RunDir

if TYPE_CHECKING:
    from splitbrain.checkers.spark.session import Spark

_AHEAD: Final = 8
"""How many runs are copied before they are judged."""


OnJudgedThere: TypeAlias = Callable[[RemoteRun, Judged], None]
"""Takes each run with what it was judged to be."""


def nothing_more(_: RemoteRun, __: Judged) -> None:
    """Do nothing with a judged run but to store its verdict."""


def _silent(_: str) -> None:
    """Say nothing: what is wrong with a run is in the answer."""


def judge_there(
    copies: Copies,
    run: RemoteRun,
    by: Judge,
    limits: Limits,
    engine_name: str,
    *,
    paged: Paged,
    sizes: Sizes | None = None,
    fetch: Callable[[], RunDir] | None = None,
) -> Judged | None:
    """Judge a run in a copy, and put its verdict beside it.

    Args:
        copies: where the copy is, or comes to be.
        run: the run.
        by: the process that judges.
        limits: of reading it and of each of its checkers.
        engine_name: who judges, as the verdict says.
        paged: which runs get pages; these are not written here. Pages of a verdict that is made again go.
        sizes: up to which it is judged in one piece; None: in any case.
        fetch: what gives the copy, if somebody has begun to make it.

    Returns:
        What is remembered of it; None if it is too large: nothing was done then but the copy.

    Raises:
        RemoteConnectionError: the service does not answer.
    """
    try:
        copy = copies.fetch(run) if fetch is None else fetch()
        if sizes is not None and _is_large(copy, sizes, limits):
            return None
        again = (copy.path / VERDICT).exists()
        found = judge_one(by, copy, _silent, limits, engine_name, paged=paged)
        if not found.damaged:
            _published(copies, run, found, paged, again=again)
    except RemoteConnectionError:
        raise
    except SplitbrainError as error:
        found = _damaged_there(copies, run, error)
    return _with_addresses(copies, _noted_there(copies, run, found))


def _noted_there(copies: Copies, run: RemoteRun, found: Judged) -> Judged:
    """What is remembered of a run, beside which a note says what its copy says of damage."""
    try:
        _publish_damage(copies, run, found)
    except (SplitbrainError, OSError) as error:
        where = copies.store.place.below(f"{run.folder}/{DAMAGE}")
        return with_problem(found, f"the note {where} could not be written or removed: {error}")
    return found


def _damaged_there(copies: Copies, run: RemoteRun, error: SplitbrainError) -> Judged:
    """What is remembered of a run that cannot be copied, or whose verdict cannot be put beside it."""
    copy = copies.of(run)
    if isinstance(error, HistoryFormatError):
        with contextlib.suppress(OSError):  # no room for copies: the error says so
            copy.path.mkdir(parents=True, exist_ok=True)
            note_damage(copy.path, str(error))
    return damaged(copy, Unjudged(str(error)))


def _publish_damage(copies: Copies, run: RemoteRun, found: Judged) -> None:
    """Put beside a run what its copy says of damage, with addresses in place of the copy; or remove what was said."""
    copy = copies.of(run).path
    noted = noted_damage(copy)
    if noted is not None:
        why = copies.said(noted.why)
        copies.fetch_made(run, (DAMAGE,))
        before = noted_damage(copy)
        if before is None or before.why != why:
            note_damage(copy, why)
            copies.publish(run, (DAMAGE,))
    elif not found.damaged:
        _forget_damage_there(copies, run)


def _forget_damage_there(copies: Copies, run: RemoteRun) -> None:
    """Remove the note beside a run that is sound again."""
    where = f"{run.folder}/{DAMAGE}"
    if copies.store.objects.found(where) is not None:
        copies.store.objects.remove(where)


def _published(copies: Copies, run: RemoteRun, found: Judged, paged: Paged, *, again: bool) -> None:
    """Put a verdict beside its run, and the figures where no page is to come with which they are.

    The verdict is written last: a reader that finds it finds the figures that belong to it.
    """
    if has_page(found.outcome.value, paged):
        copies.publish(run, (VERDICT,))
        return
    if again:
        copies.remove_pages(run)
    copies.publish(run, (FIGURES, VERDICT))


def _with_addresses(copies: Copies, found: Judged) -> Judged:
    """What is remembered of a run, with addresses where it names copies."""
    problem = None if found.problem is None else copies.said(found.problem)
    return msgspec.structs.replace(found, said=copies.said(found.said), problem=problem)


def _is_large(copy: RunDir, sizes: Sizes, limits: Limits) -> bool:
    def rows() -> tuple[int, int]:
        telemetry = read_parquet_head(copy.telemetry_path).rows if copy.telemetry_path.exists() else 0
        return read_parquet_head(copy.history_path).rows, telemetry

    found = or_unjudged(copy.path, rows)
    if isinstance(found, Unjudged):  # the one that judges it says so
        return False
    return not sizes.is_whole(*found, limits)


def _nothing() -> None:
    """Nothing: it makes a process begin."""


def ready(by: Judge) -> Judge:
    """A judge whose process is there before this one has threads that talk to a service: it was forked without them."""
    called(by, "beginning", _nothing)
    return by


# --- what is unchanged ------------------------------------------------------------------------------------------------


def unchanged_there(
    copies: Copies,
    runs: Sequence[RemoteRun],
    limits: Limits,
    show: Callable[[], None],
    left_out: Warn,
    on_judged: OnJudgedThere = nothing_more,
) -> tuple[list[RemoteRun], dict[RemoteRun, Judged]]:
    """The runs that are still there, and what those of them were judged to be of which nothing has changed.

    No file of a run is read: its manifest has the digests, and the service says whether a file was written later.

    Args:
        copies: for copies of verdicts.
        runs: all runs.
        limits: of each checker.
        show: called after each.
        left_out: called with a line on a run that was removed.
        on_judged: called with each run of which nothing has changed, one at a time, while there is a copy of its
            verdict.

    Raises:
        RemoteConnectionError: the service does not answer.
    """
    one_at_a_time = threading.Lock()

    def known_of(run: RemoteRun) -> tuple[bool, Judged | None]:
        try:
            return True, _unchanged(copies, run, limits)
        except RemoteConnectionError:
            raise
        except RunNotFoundError as error:
            left_out(f"left out: {error}")
            return False, None
        except Exception:  # the one that judges it says what is wrong
            return True, None

    def there(run: RemoteRun) -> tuple[bool, Judged | None]:
        try:
            found = known_of(run)
            if found[1] is not None:
                with one_at_a_time:
                    on_judged(run, found[1])
            return found
        finally:
            copies.drop(run)
            show()

    found = dict(zip(runs, of_all(there, runs), strict=True))
    still = [run for run, (is_there, _) in found.items() if is_there]
    return still, {run: known for run, (_, known) in found.items() if known is not None}


def _unchanged(copies: Copies, run: RemoteRun, limits: Limits) -> Judged | None:
    document = copies.store.manifest(run).document
    copies.fetch_made(run, (VERDICT,))

    def is_same(made: MadeFrom) -> bool:
        where = copies.store.place.below(run.folder)
        inputs = partial(copies.store.digests, run, tuple(made.inputs))
        return stored.is_basis_of(where, document, made, limits, inputs)

    found = judged_before(copies.of(run), is_same)
    if found is not None and copies.store.objects.found(f"{run.folder}/{DAMAGE}") is not None:
        return None  # listings do not show every damage: the run is copied, and compared, before the note goes
    return found


# --- one by one -------------------------------------------------------------------------------------------------------


def judge_there_one_by_one(
    copies: Copies,
    runs: Sequence[RemoteRun],
    show: Callable[[int], None],
    warn: Warn,
    limits: Limits = DEFAULT,
    on_judged: OnJudgedThere = nothing_more,
    *,
    paged: Paged = "failing",
) -> list[Judged]:
    """Judge runs one by one in a process that is forked from this one; the next are copied meanwhile.

    Args:
        copies: for a copy of each.
        runs: what to judge.
        show: called after each with how many runs are judged.
        warn: called with the reason why a run has no verdict or no page.
        limits: of reading a run, of each of its checkers, and of its page.
        on_judged: called with each run as soon as it is judged, while there is a copy of its verdict.
        paged: which runs get pages.

    Raises:
        RemoteConnectionError: the service does not answer; what was judged is kept there.
    """
    done: list[Judged] = []
    with ready(judge(limits)) as by, ThreadPoolExecutor(_AHEAD) as threads:
        coming = deque[Future[RunDir]]()
        try:
            for number, run in enumerate(runs):
                while len(coming) < _AHEAD and number + len(coming) < len(runs):
                    coming.append(threads.submit(copies.fetch, runs[number + len(coming)]))
                found = judge_there(copies, run, by, limits, "inline", paged=paged, fetch=coming.popleft().result)
                assert found is not None
                done.append(found)
                _warn_of(found, warn)
                on_judged(run, found)
                copies.drop(run)
                show(len(done))
        finally:
            threads.shutdown(wait=True, cancel_futures=True)
        return pages_there(copies, runs, done, by, warn, paged)


def _warn_of(found: Judged, warn: Warn) -> None:
    """Say why a run has no verdict, and what could not be written of it."""
    for said in dict.fromkeys([found.said if found.damaged else None, found.problem]):
        if said is not None:
            warn(said)


# --- with Spark -------------------------------------------------------------------------------------------------------

_ROWS: Final = "place int, answer string"
_SCHEMA: Final = pa.schema({"place": pa.int32(), "answer": pa.string()})


class _Answer(msgspec.Struct, frozen=True):
    """What a worker answers on a run: as `Judged`; or that it is too large; or that the service did not answer."""

    outcome: Outcome = Outcome.HARNESS_ERROR
    said: str = ""
    hot_keys: tuple[str, ...] = ()
    damaged: bool = False
    seal: str = ""
    problem: str | None = None
    large: bool = False


def judge_there_with_spark(
    copies: Copies,
    runs: Sequence[RemoteRun],
    spark: Spark,
    show: Callable[[int], None],
    warn: Warn,
    limits: Limits,
    sizes: Sizes | None,
    on_judged: OnJudgedThere | None = None,
    *,
    paged: Paged = "failing",
) -> list[Judged]:
    """Judge runs with Spark's workers, which open them themselves, and put the verdicts where the runs are.

    If Spark fails as a whole, a warning says why, and the runs that are left are judged one by one by this machine.

    Args:
        copies: for copies of what is judged or drawn on this machine.
        runs: what to judge.
        spark: the session.
        show: called after each job with how many runs are judged.
        warn: called with the reason why a run has no verdict or no page.
        limits: of reading a run and of each of its checkers.
        sizes: a larger run goes through Spark's tables, which read a copy on this machine: None where workers are on
            others, which cannot read it; then one worker judges it, of any size.
        on_judged: called with each run after its job, while there is a copy of its verdict; None: no copy is wanted.
        paged: which runs get pages.

    Raises:
        LackingPackagesError: the executors of the cluster lack packages.
        RemoteConnectionError: the service does not answer; what was judged is kept there.
    """
    from splitbrain.checkers.spark.jobs import lacks_packages

    done: list[Judged] = []
    more: list[Judged] = []
    work = partial(_judge_batch, spark, copies.store, limits, sizes, paged)
    with ready(judge(alone_with(limits))) as by:
        try:
            for batch, answers in in_batches(runs, spark, work):
                for run, each in zip(batch, answers, strict=True):
                    large = each.large
                    found = _large(copies, run, spark, warn, limits, paged) if large else _judged(copies, run, each)
                    _warn_of(found, warn)
                    if on_judged is not None:
                        if not found.damaged:
                            copies.fetch_made(run, (VERDICT,))
                        on_judged(run, found)
                        copies.drop(run)
                    done.append(found)
                show(len(done))
        except EngineError as error:
            if lacks_packages(error):
                raise
            rest, alone = runs[len(done) :], alone_with(limits)
            left = counted(len(rest), "run")
            warn(f"{error} What is left is judged one by one, without Spark ({left}).")
            show_more = partial(_show_more, show, len(done))
            more = judge_there_one_by_one(copies, rest, show_more, warn, alone, on_judged or nothing_more, paged=paged)
        return [*pages_there(copies, runs[: len(done)], done, by, warn, paged), *more]


def _show_more(show: Callable[[int], None], before: int, more: int) -> None:
    show(before + more)


def _judge_batch(
    spark: Spark,
    store: RemoteStore,
    limits: Limits,
    sizes: Sizes | None,
    paged: Paged,
    runs: Sequence[RemoteRun],
    given_up: Callable[[], bool],
) -> list[_Answer]:
    from splitbrain.checkers.spark.by_path import apart

    work = partial(_answers, spark, store, limits, sizes, paged)
    return apart(spark.session, runs, work, lambda _, error: _lost(error), given_up)


def _answers(
    spark: Spark, store: RemoteStore, limits: Limits, sizes: Sizes | None, paged: Paged, runs: Sequence[RemoteRun]
) -> list[_Answer]:
    """What workers answer on runs.

    Raises:
        EngineError: the job failed.
    """
    from splitbrain.checkers.spark.by_path import dealt_by_size, tasks_of
    from splitbrain.checkers.spark.jobs import collect

    tasks = tasks_of(spark.session, len(runs))
    dealt = dealt_by_size(of_all(partial(_bytes, store), runs), tasks)
    answer = partial(_answer, store.address, [runs[place] for place in dealt], limits, sizes, paged)
    rows: list[Any] = collect(spark.session.range(0, len(runs), 1, tasks).mapInArrow(answer, _ROWS), len(runs))
    found = {dealt[int(row["place"])]: msgspec.json.decode(row["answer"], type=_Answer) for row in rows}
    if len(found) < len(runs):
        raise EngineError(f"Spark lost {len(runs) - len(found)} of {len(runs)} runs.")
    return [found[place] for place in range(len(runs))]


def _bytes(store: RemoteStore, run: RemoteRun) -> int:
    try:
        kept = store.manifest(run).files.get("history.parquet")
    except RemoteConnectionError:
        raise
    except SplitbrainError:
        return 0
    return 0 if kept is None else kept.bytes


def _lost(error: EngineError) -> _Answer:
    return _Answer(said=f"this run cannot be judged: {error}", damaged=True)


def _judged(copies: Copies, run: RemoteRun, answer: _Answer) -> Judged:
    return Judged(
        copies.of(run),
        answer.outcome,
        answer.said,
        answer.hot_keys,
        answer.damaged,
        seal=answer.seal,
        problem=answer.problem,
    )


def _large(copies: Copies, run: RemoteRun, spark: Spark, warn: Warn, limits: Limits, paged: Paged) -> Judged:
    """A large run, judged in a copy on this machine by Spark's tables."""
    try:
        copy = copies.fetch(run)
        again = (copy.path / VERDICT).exists()
        (found,) = judge_in_batches(
            [copy], spark, 1, lambda _: None, lambda said: warn(copies.said(said)), limits=limits, paged="none"
        )
        if not found.damaged:
            _published(copies, run, found, paged, again=again)
    except (RemoteConnectionError, LackingPackagesError):
        raise
    except SplitbrainError as error:
        found = _damaged_there(copies, run, error)
    found = _noted_there(copies, run, found)
    copies.drop(run)
    return _with_addresses(copies, found)


# --- on the workers ---------------------------------------------------------------------------------------------------


_store: Final = cache(RemoteStore)


def _answer(
    address: str, runs: list[RemoteRun], limits: Limits, sizes: Sizes | None, paged: Paged, batches: Iterator[Any]
) -> Iterator[Any]:
    """Batches of `_ROWS` on the runs whose numbers arrive."""
    by = ready(lasting(limits))
    for batch in batches:
        places: list[int] = batch.column(0).to_pylist()
        for place in places:
            answer = msgspec.json.encode(_of_one(address, runs[place], by, limits, sizes, paged)).decode()
            yield from pa.table({"place": [place], "answer": [answer]}, _SCHEMA).to_batches()


def _of_one(address: str, run: RemoteRun, by: Judge, limits: Limits, sizes: Sizes | None, paged: Paged) -> _Answer:
    try:
        with copies_of(_store(address)) as copies:
            found = judge_there(copies, run, by, limits, "spark", paged=paged, sizes=sizes)
    except SplitbrainError as error:
        return _Answer(said=f"this run cannot be judged: {error}", damaged=True)
    if found is None:
        return _Answer(large=True)
    return _Answer(found.outcome, found.said, found.hot_keys, found.damaged, found.seal, found.problem)


# --- pages ------------------------------------------------------------------------------------------------------------


def pages_there(
    copies: Copies, runs: Sequence[RemoteRun], done: Sequence[Judged], by: Judge, warn: Warn, paged: Paged
) -> list[Judged]:
    """Write the pages of the runs that get one, beside them; what is remembered of all runs then.

    Raises:
        RemoteConnectionError: the service does not answer.
    """
    wanted = [place for place, each in enumerate(done) if not each.damaged and has_page(each.outcome.value, paged)]
    if not wanted:
        return list(done)
    everyone = copies.store.runs()
    found = list(done)
    for place in wanted:
        run = runs[place]
        try:
            fetch_for_page(copies, run, everyone)
            (found[place],) = with_pages([done[place]], 1, by, lambda said: warn(copies.said(said)), paged)
            copies.publish(run, [name for name in copies.made(run) if name not in (VERDICT, DAMAGE)])
        except RemoteConnectionError:
            raise
        except SplitbrainError as error:
            warn(f"the page of {copies.store.place.below(run.folder)} could not be written: {copies.said(str(error))}")
        found[place] = _with_addresses(copies, found[place])
        _slimmed(copies, run)
    return found


def _slimmed(copies: Copies, run: RemoteRun) -> None:
    """Leave of a copy what the pages of other runs look at."""
    copy = copies.of(run).path
    kept = {name: (copy / name).read_bytes() for name in ("test.json", VERDICT) if (copy / name).is_file()}
    copies.drop(run)
    for name, content in kept.items():
        copy.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes(content)
