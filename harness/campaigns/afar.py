"""From pushed runs to their verdicts: each is copied to where it is judged, and its verdict put beside it from there.

One function does that with one run (`judge_there`): in this process for run after run, or in the workers of Spark,
which get the names of runs and bring their own copies. What a run was judged to be comes back, and nothing else of it.

A passing run gets no page: `splitbrain report` makes it when somebody wants it. The pages of the others are made here
at the end, since they tell what other runs of the test showed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from splitbrain.checkers import stored
from splitbrain.checkers.isolation.judging import Judge, called, judge, lasting
from splitbrain.checkers.isolation.limits import DEFAULT, Limits
from splitbrain.checkers.spark.hot_keys import Sizes
from splitbrain.checkers.stored import Unjudged, or_unjudged
from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.many import (
    Judged,
    Warn,
    alone_with,
    damaged,
    judge_in_batches,
    judge_one,
    judged_before,
    with_pages,
)
from splitbrain.results.arrow import read_parquet_head
from splitbrain.results.errors import (
    EngineError,
    RemoteConnectionError,
    RunNotFoundError,
    SplitbrainError,
)
from splitbrain.results.madefrom import MadeFrom
from splitbrain.results.remote.copies import VERDICT, Copies, copies_of
from splitbrain.results.remote.pages import fetch_for_page
from splitbrain.results.remote.runs import RemoteRun, RemoteStore, of_all
from splitbrain.results.store import RunDir

if TYPE_CHECKING:
    from splitbrain.checkers.spark.session import Spark

_AHEAD: Final = 8
"""How many runs are copied before they are judged."""


def _silent(_: str) -> None:
    """Say nothing: what is wrong with a run is in the answer."""


def judge_there(
    copies: Copies,
    run: RemoteRun,
    by: Judge,
    limits: Limits,
    engine_name: str,
    *,
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
        sizes: up to which it is judged in one piece; None: in any case.
        fetch: what gives the copy, if somebody has begun to make it.

    Returns:
        What is remembered of it; None if it is too large: nothing was done then but the copy.

    Raises:
        RemoteConnectionError: the service does not answer.
    """
    try:
        copy = copies.fetch(run) if fetch is None else fetch()
        if sizes is not None and _is_large(copy, sizes):
            return None
        found = judge_one(by, copy, _silent, limits, engine_name)
        if not found.damaged:
            copies.publish(run, (VERDICT,))
    except RemoteConnectionError:
        raise
    except SplitbrainError as error:
        found = damaged(copies.of(run), Unjudged(str(error)))
    return msgspec.structs.replace(found, said=copies.said(found.said))


def _is_large(copy: RunDir, sizes: Sizes) -> bool:
    def rows() -> tuple[int, int]:
        telemetry = read_parquet_head(copy.telemetry_path).rows if copy.telemetry_path.exists() else 0
        return read_parquet_head(copy.history_path).rows, telemetry

    found = or_unjudged(copy.path, rows)
    if isinstance(found, Unjudged):  # the one that judges it says so
        return False
    return found[0] >= sizes.hot_rows or sum(found) > sizes.run_rows


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
    *,
    keep: bool = False,
) -> tuple[list[RemoteRun], dict[RemoteRun, Judged]]:
    """The runs that are still there, and what those of them were judged to be of which nothing has changed.

    No file of a run is read: its manifest has the digests, and the service says whether a file was written later.

    Args:
        copies: for copies of verdicts.
        runs: all runs.
        limits: of each checker.
        show: called after each.
        left_out: called with a line on a run that was removed.
        keep: whether the copies of verdicts are still wanted.

    Raises:
        RemoteConnectionError: the service does not answer.
    """

    def one(run: RemoteRun) -> Judged | None:
        try:
            return _unchanged(copies, run, limits)
        finally:
            _dropped(copies, run, keep)
            show()

    def there(run: RemoteRun) -> tuple[bool, Judged | None]:
        try:
            return True, one(run)
        except RemoteConnectionError:
            raise
        except RunNotFoundError as error:
            left_out(f"left out: {error}")
            return False, None
        except Exception:  # the one that judges it says what is wrong
            return True, None

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

    return judged_before(copies.of(run), is_same)


# --- one by one -------------------------------------------------------------------------------------------------------


def judge_there_one_by_one(
    copies: Copies,
    runs: Sequence[RemoteRun],
    show: Callable[[int], None],
    warn: Warn,
    limits: Limits = DEFAULT,
    *,
    keep: bool = False,
) -> list[Judged]:
    """Judge runs one by one in a process that is forked from this one; the next are copied meanwhile.

    Args:
        copies: for a copy of each.
        runs: what to judge.
        show: called after each with how many runs are judged.
        warn: called with the reason why a run has no verdict or no page.
        limits: of reading a run, of each of its checkers, and of its page.
        keep: whether the copies of verdicts are still wanted.

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
                found = judge_there(copies, run, by, limits, "inline", fetch=coming.popleft().result)
                assert found is not None
                done.append(found)
                _dropped(copies, run, keep)
                if found.damaged:
                    warn(found.said)
                show(len(done))
        finally:
            threads.shutdown(wait=True, cancel_futures=True)
        return pages_there(copies, runs, done, by, warn)


def _dropped(copies: Copies, run: RemoteRun, keep: bool) -> None:
    """Remove a copy, but for the verdict if that is wanted."""
    verdict = copies.of(run).path / VERDICT
    content = verdict.read_bytes() if keep and verdict.exists() else None
    copies.drop(run)
    if content is not None:
        verdict.parent.mkdir(parents=True, exist_ok=True)
        verdict.write_bytes(content)


# --- with Spark -------------------------------------------------------------------------------------------------------

_ROWS: Final = "place int, told string"
_SCHEMA: Final = pa.schema({"place": pa.int32(), "told": pa.string()})


class _Told(msgspec.Struct, frozen=True):
    """What a worker says of a run: as `Judged`; or that it is too large; or that the service did not answer."""

    outcome: Outcome = Outcome.HARNESS_ERROR
    said: str = ""
    hot_keys: tuple[str, ...] = ()
    damaged: bool = False
    seal: str = ""
    large: bool = False


def judge_there_with_spark(
    copies: Copies,
    runs: Sequence[RemoteRun],
    spark: Spark,
    show: Callable[[int], None],
    warn: Warn,
    limits: Limits,
    sizes: Sizes | None,
    *,
    keep: bool = False,
) -> list[Judged]:
    """Judge runs with Spark's workers, which open them themselves, and put the verdicts where the runs are.

    Args:
        copies: for copies of what is judged or drawn on this machine.
        runs: what to judge.
        spark: the session.
        show: called with how many runs are judged.
        warn: called with the reason why a run has no verdict or no page.
        limits: of reading a run and of each of its checkers.
        sizes: a larger run goes through Spark's tables, which read a copy on this machine: None where workers are on
            others, which cannot read it; then one worker judges it, of any size.
        keep: whether copies of verdicts are wanted.

    Raises:
        EngineError: Spark failed.
    """
    from splitbrain.checkers.spark.by_path import apart

    with ready(judge(alone_with(limits))) as by:
        told = apart(
            spark.session, runs, partial(_told, spark, copies.store, limits, sizes), lambda _, error: _lost(error)
        )
        show(sum(not each.large for each in told))
        done: list[Judged] = []
        for run, each in zip(runs, told, strict=True):
            found = _large(copies, run, spark, warn, limits) if each.large else _judged(copies, run, each)
            if found.damaged:
                warn(found.said)
            if keep and not found.damaged:
                copies.fetch_made(run, (VERDICT,))
            done.append(found)
        show(len(done))
        return pages_there(copies, runs, done, by, warn)


def _told(
    spark: Spark, store: RemoteStore, limits: Limits, sizes: Sizes | None, runs: Sequence[RemoteRun]
) -> list[_Told]:
    """What workers say of runs.

    Raises:
        EngineError: the job failed.
    """
    from splitbrain.checkers.spark.by_path import dealt_by_size, tasks_of
    from splitbrain.checkers.spark.jobs import collect

    tasks = tasks_of(spark.session, len(runs))
    dealt = dealt_by_size(of_all(partial(_bytes, store), runs), tasks)
    answer = partial(_answer, store.address, [runs[place] for place in dealt], limits, sizes)
    rows: list[Any] = collect(spark.session.range(0, len(runs), 1, tasks).mapInArrow(answer, _ROWS), len(runs))
    told = {dealt[int(row["place"])]: msgspec.json.decode(row["told"], type=_Told) for row in rows}
    if len(told) < len(runs):
        raise EngineError(f"Spark lost {len(runs) - len(told)} of {len(runs)} runs.")
    return [told[place] for place in range(len(runs))]


def _bytes(store: RemoteStore, run: RemoteRun) -> int:
    try:
        kept = store.manifest(run).files.get("history.parquet")
    except RemoteConnectionError:
        raise
    except SplitbrainError:
        return 0
    return 0 if kept is None else kept.bytes


def _lost(error: EngineError) -> _Told:
    return _Told(said=f"this run cannot be judged: {error}", damaged=True)


def _judged(copies: Copies, run: RemoteRun, told: _Told) -> Judged:
    return Judged(copies.of(run), told.outcome, told.said, told.hot_keys, told.damaged, seal=told.seal)


def _large(copies: Copies, run: RemoteRun, spark: Spark, warn: Warn, limits: Limits) -> Judged:
    """A large run, judged in a copy on this machine by Spark's tables."""
    try:
        copy = copies.fetch(run)
        (found,) = judge_in_batches(
            [copy], spark, None, lambda _: None, lambda said: warn(copies.said(said)), limits=limits
        )
        if not found.damaged:
            copies.publish(run, (VERDICT,))
    except SplitbrainError as error:
        found = damaged(copies.of(run), Unjudged(str(error)))
    copies.drop(run)
    return msgspec.structs.replace(found, said=copies.said(found.said))


# --- on the workers ---------------------------------------------------------------------------------------------------


_store: Final = cache(RemoteStore)


def _answer(
    address: str, runs: list[RemoteRun], limits: Limits, sizes: Sizes | None, batches: Iterator[Any]
) -> Iterator[Any]:
    """Batches of `_ROWS` on the runs whose numbers arrive."""
    by = ready(lasting(limits))
    for batch in batches:
        places: list[int] = batch.column(0).to_pylist()
        for place in places:
            told = msgspec.json.encode(_of_one(address, runs[place], by, limits, sizes)).decode()
            yield from pa.table({"place": [place], "told": [told]}, _SCHEMA).to_batches()


def _of_one(address: str, run: RemoteRun, by: Judge, limits: Limits, sizes: Sizes | None) -> _Told:
    try:
        with copies_of(_store(address)) as copies:
            found = judge_there(copies, run, by, limits, "spark", sizes=sizes)
    except SplitbrainError as error:
        return _Told(said=f"this run cannot be judged: {error}", damaged=True)
    if found is None:
        return _Told(large=True)
    return _Told(found.outcome, found.said, found.hot_keys, found.damaged, found.seal)


# --- pages ------------------------------------------------------------------------------------------------------------


def pages_there(
    copies: Copies, runs: Sequence[RemoteRun], done: Sequence[Judged], by: Judge, warn: Warn
) -> list[Judged]:
    """Write the pages of runs that did not pass, beside them; what is remembered of all runs then.

    Raises:
        RemoteConnectionError: the service does not answer.
    """
    wanted = [place for place, each in enumerate(done) if not each.damaged and each.outcome is not Outcome.PASS]
    if not wanted:
        return list(done)
    everyone = copies.store.runs()
    found = list(done)
    for place in wanted:
        run = runs[place]
        try:
            fetch_for_page(copies, run, everyone)
            (found[place],) = with_pages([done[place]], None, by, lambda said: warn(copies.said(said)))
            copies.publish(run, [name for name in copies.made(run) if name != VERDICT])
        except RemoteConnectionError:
            raise
        except SplitbrainError as error:
            warn(f"the page of {copies.store.place.below(run.folder)} could not be written: {copies.said(str(error))}")
        found[place] = msgspec.structs.replace(found[place], said=copies.said(found[place].said))
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
