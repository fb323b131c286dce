"""`splitbrain push`: bring finished runs and nights into a store behind an address."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
import msgspec

from splitbrain.harness.cli import afar, completing, options, parsing
from splitbrain.results.errors import RemoteConnectionError, RunNotFoundError, SplitbrainError, UsageError
from splitbrain.results.quantities import counted
from splitbrain.results.text import encoded

if TYPE_CHECKING:
    from splitbrain.harness.cli.answers.stores import PushedRun
    from splitbrain.results.remote.nights import Pushed as PushedNight
    from splitbrain.results.remote.pushing import Pushed
    from splitbrain.results.remote.runs import RemoteStore
    from splitbrain.results.rundir import RunDir

_AT_ONCE = 8


@click.command("push", cls=parsing.Command)
@click.argument(
    "runs",
    nargs=-1,
    metavar="[RUN]...",
    shell_complete=completing.run_or_night,
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
    """Bring finished runs and nights into a store that other machines read: those named, or all of the store.

    A run that is there already is left alone, so the same command can be given again at any time: after every night,
    by many machines at once, or after one was interrupted. A run is listed there when all of it is; runs of different
    machines never replace each other. Runs in progress are left out. A run whose controller was killed is recovered
    first, as splitbrain analyze does.

    A verdict goes along with its run; one that is there already stays. Nothing is removed here.

    A night that has come to its end goes with its records and the table of its figures: night:NAME or night:latest
    names one.

    \b
    Examples:
      splitbrain push --to s3://nightly/splitbrain
      splitbrain push night:latest --to s3://nightly/splitbrain
      splitbrain push latest --to 's3://runs?endpoint_override=http://minio:9000'
    """
    from splitbrain.results.remote.runs import RemoteStore, of_all

    parsing.refuse_twice("RUN", runs)
    options.check_store(ctx, runs)
    afar.check_address("--to", address)
    there = RemoteStore(address)
    chosen, nights = _chosen(Path(store), runs), _nights(Path(store), runs)
    if not (chosen or nights or runs):
        raise RunNotFoundError(f"there is no run and no night to push in the store {store}.")
    pushed: list[tuple[RunDir, Pushed]] = []
    problems: list[SplitbrainError] = []

    def one(run: RunDir) -> None:
        try:
            pushed.append((run, _push(run, unfinished.get(run.path), there)))
        except RemoteConnectionError:
            raise
        except SplitbrainError as error:
            if not runs and run.is_gone:
                click.echo(run.left_out, err=True)
                return
            problems.append(error)
            click.echo(f"splitbrain: {error}", err=True)

    unfinished = _finished(chosen)
    of_all(one, chosen, _AT_ONCE)
    pushed_nights = _push_nights(nights, there, problems)
    order = {run.path: place for place, run in enumerate(chosen)}
    pushed.sort(key=lambda each: order[each[0].path])
    _report(there, pushed, pushed_nights, as_json)
    ctx.exit(max((problem.exit_code for problem in problems), default=0))


def _chosen(store: Path, references: Sequence[str]) -> list[RunDir]:
    """The selected runs: each named one, or all that are over and recorded something.

    Raises:
        RunNotFoundError: there is no such run.
        UsageError: a run is given twice.
    """
    from splitbrain.harness.cli.analyze import is_over
    from splitbrain.results.nights import PREFIX
    from splitbrain.results.store import Store

    if not references:
        return [run for run in Store(store).folders() if is_over(run)]
    named = [Store(store).find(each) for each in references if not each.startswith(PREFIX)]
    for place, run in enumerate(named):
        if run.path.resolve() in [each.path.resolve() for each in named[:place]]:
            raise UsageError(f"RUN {references[place]} is run {run.name}, which is given twice: give it once.")
    return named


def _nights(store: Path, references: Sequence[str]) -> list[Path]:
    """The folders of the selected nights: each named one, or all that came to their end.

    Raises:
        RunNotFoundError: there is no such night.
    """
    from splitbrain.results import nights
    from splitbrain.results.nightcomparison import find

    if not references:
        return [folder for folder in nights.folders(store) if (folder / nights.FILE).exists()]
    found = [find(each, store) for each in references if each.startswith(nights.PREFIX)]
    return list(dict.fromkeys(folder for folder in found if folder is not None))


def _push_nights(
    folders: Sequence[Path], there: RemoteStore, problems: list[SplitbrainError]
) -> list[tuple[Path, PushedNight]]:
    """Push each; what could not be pushed is printed, and noted among the problems."""
    from splitbrain.results.remote import nights

    found: list[tuple[Path, PushedNight]] = []
    for folder in folders:
        try:
            found.append((folder, nights.push(folder, there)))
        except RemoteConnectionError:
            raise
        except SplitbrainError as error:
            problems.append(error)
            click.echo(f"splitbrain: {error}", err=True)
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


def _report(
    there: RemoteStore,
    pushed: Sequence[tuple[RunDir, Pushed]],
    nights: Sequence[tuple[Path, PushedNight]],
    as_json: bool,
) -> None:
    from splitbrain.results.quantities import shown
    from splitbrain.results.remote.nights import folder_of

    rows = [_row("run", run.path, there.place.below(each.run.folder), each) for run, each in pushed]
    rows += [_row("night", folder, there.place.below(folder_of(each.name)), each) for folder, each in nights]
    if as_json:
        click.echo(msgspec.json.format(encoded(rows)).decode())
        return
    new = [row for row in rows if row["became"] != "there"]
    for row in new:
        click.echo(f"{row['became']:7} {row['to']}  {shown(row['bytes'])}")
    counts = [counted(sum(row["kind"] == "run" for row in new), "run")]
    if nights:
        counts.append(counted(sum(row["kind"] == "night" for row in new), "night"))
    sent = shown(sum(row["bytes"] for row in rows))
    click.echo(f"{' and '.join(counts)} pushed to {there.place}, {sent}; {len(rows) - len(new)} there already")


def _row(kind: Literal["run", "night"], folder: Path, to: str, each: Pushed | PushedNight) -> PushedRun:
    return {"kind": kind, "run": str(folder), "to": to, "became": each.became, "bytes": each.bytes}
