"""`splitbrain push`: bring finished runs into a store behind an address."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from splitbrain.harness.cli import afar, completing, options, parsing
from splitbrain.results.errors import RemoteConnectionError, RunNotFoundError, SplitbrainError, UsageError
from splitbrain.results.quantities import counted

if TYPE_CHECKING:
    from splitbrain.harness.cli.answers.stores import PushedRun
    from splitbrain.results.remote.pushing import Pushed
    from splitbrain.results.remote.runs import RemoteStore
    from splitbrain.results.store import RunDir

_AT_ONCE = 8


@click.command("push", cls=parsing.Command)
@click.argument(
    "runs",
    nargs=-1,
    metavar="[RUN]...",
    shell_complete=completing.run,
)
@click.option(
    "--to",
    "address",
    required=True,
    metavar="URL",
    help="The address of the store: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, hdfs://HOST:PORT/FOLDER, file:///FOLDER.",
)
@options.stored
@options.as_json
@click.pass_context
def command(ctx: click.Context, runs: tuple[str, ...], address: str, store: str, as_json: bool) -> None:
    """Bring finished runs into a store that other machines read: those named, or all of the store.

    A run that is there already is left alone, so the same command can be given again at any time: after every night,
    by many machines at once, or after one was interrupted. A run is listed there when all of it is; runs of different
    machines never replace each other. Runs in progress are left out. A run whose controller was killed is recovered
    first, as splitbrain analyze does.

    A verdict goes along with its run; one that is there already stays. Nothing is removed here.

    \b
    Examples:
      splitbrain push --to s3://nightly/splitbrain
      splitbrain push latest --to 's3://runs?endpoint_override=http://minio:9000'
    """
    from splitbrain.results.remote.runs import RemoteStore, of_all

    parsing.refuse_twice("RUN", runs)
    options.check_store(ctx, runs)
    afar.check_address("--to", address)
    there = RemoteStore(address)
    chosen = _chosen(Path(store), runs)
    pushed: list[tuple[RunDir, Pushed]] = []
    problems: list[SplitbrainError] = []

    def one(run: RunDir) -> None:
        try:
            pushed.append((run, _push(run, unfinished.get(run.path), there)))
        except RemoteConnectionError:
            raise
        except SplitbrainError as error:
            problems.append(error)
            click.echo(f"splitbrain: {error}", err=True)

    unfinished = _finished(chosen)
    of_all(one, chosen, _AT_ONCE)
    order = {run.path: place for place, run in enumerate(chosen)}
    pushed.sort(key=lambda each: order[each[0].path])
    _report(there, pushed, as_json)
    ctx.exit(max((problem.exit_code for problem in problems), default=0))


def _chosen(store: Path, references: Sequence[str]) -> list[RunDir]:
    """The selected runs: each named one, or all that are over and recorded something.

    Raises:
        RunNotFoundError: there is no such run, or none at all.
        UsageError: a run is given twice.
    """
    from splitbrain.harness.cli.analyze import is_over
    from splitbrain.results.store import Store

    if references:
        named = [Store(store).find(each) for each in references]
        for place, run in enumerate(named):
            if run.path.resolve() in [each.path.resolve() for each in named[:place]]:
                raise UsageError(f"RUN {references[place]} is run {run.name}, which is given twice: give it once.")
        return named
    found = [run for run in Store(store).folders() if is_over(run)]
    if not found:
        raise RunNotFoundError(f"there is no run to push in the store {store}.")
    return found


def _finished(runs: Sequence[RunDir]) -> dict[Path, str]:
    """Finish the histories of those that are over, in a process of its own; by its path why one could not be."""
    from splitbrain.checkers.isolation.judging import judge
    from splitbrain.checkers.spark.by_path import finished
    from splitbrain.checkers.stored import Unjudged, or_unjudged

    found: dict[Path, str] = {}
    with judge() as by:
        for run in runs:
            over = or_unjudged(run.path, partial(_is_settled, run))
            problem = over if isinstance(over, Unjudged) else None if over else finished(by, run.path)
            if problem is not None:
                found[run.path] = problem.why
    return found


def _is_settled(run: RunDir) -> bool:
    """Whether nothing is left to be done for its history, or nobody may do it now."""
    from splitbrain.checkers import stored

    return run.is_running() or stored.is_finished(run, run.read_test())


def _push(run: RunDir, unfinished: str | None, there: RemoteStore) -> Pushed:
    from splitbrain.results.errors import DamagedRunError
    from splitbrain.results.remote.pushing import push

    if unfinished is not None:
        raise DamagedRunError(f"this run cannot be pushed: {unfinished}")
    try:
        return push(run, there)
    except OSError as error:
        raise DamagedRunError(f"{run.path} cannot be read: {error.strerror} ({error.filename}).") from error


def _report(there: RemoteStore, pushed: Sequence[tuple[RunDir, Pushed]], as_json: bool) -> None:
    from splitbrain.results.quantities import shown

    if as_json:
        rows: list[PushedRun] = [
            {
                "run": str(run.path),
                "to": there.place.below(each.run.folder),
                "became": each.became,
                "bytes": each.bytes,
            }
            for run, each in pushed
        ]
        click.echo(msgspec.json.format(msgspec.json.encode(rows)).decode())
        return
    for _, each in pushed:
        if each.became != "there":
            click.echo(f"{each.became:7} {there.place.below(each.run.folder)}  {shown(each.bytes)}")
    known = sum(each.became == "there" for _, each in pushed)
    sent = sum(each.bytes for _, each in pushed)
    click.echo(f"{counted(len(pushed) - known, 'run')} pushed to {there.place}, {shown(sent)}; {known} there already")
