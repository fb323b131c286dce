"""`splitbrain compact`: make a store smaller."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from splitbrain.harness.cli import options, parsing
from splitbrain.results.quantities import counted
from splitbrain.results.text import encoded

if TYPE_CHECKING:
    from splitbrain.harness.cli.answers.stores import CompactAnswer
    from splitbrain.results.compacting import Compacted


@click.command("compact", cls=parsing.Command)
@options.stored
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@options.as_json
def command(store: str, dry_run: bool, as_json: bool) -> None:
    """Make a store smaller. No run, no operation and no verdict is lost, and nothing has to be judged again.

    Tables of older versions are encoded again, and the pages and plots of runs that passed are removed: splitbrain
    report and splitbrain serve make them when they are asked for. Runs in progress and runs without a verdict stay as
    they are. It may be interrupted at any moment, and run again.
    """
    from splitbrain.results.compacting import compact
    from splitbrain.results.errors import HarnessError, SplitbrainError
    from splitbrain.results.store import Store
    from splitbrain.results.stores import check_there

    where = Store(Path(store))
    check_there(where.root)
    done: list[Compacted] = []
    problems: list[str] = []
    runs = [run for run in where.runs() if not run.path.is_symlink()]
    for run in runs:
        try:
            found = compact(run, dry_run=dry_run)
        except SplitbrainError as error:
            problems.append(str(error))
        else:
            done += [] if found is None else [found]
    _report(len(runs), done, problems, dry_run, as_json)
    if problems:
        raise HarnessError(f"{counted(len(problems), 'run')} could not be made smaller: {problems[0]}")


def _report(runs: int, done: list[Compacted], problems: list[str], dry_run: bool, as_json: bool) -> None:
    from splitbrain.results.quantities import shown

    freed = sum(each.before_bytes - each.after_bytes for each in done)
    if as_json:
        answer: CompactAnswer = {"dry_run": dry_run, "compacted": done, "problems": problems, "freed_bytes": freed}
        click.echo(msgspec.json.format(encoded(answer)).decode())
        return
    would = "would compact" if dry_run else "compacted"
    for problem in problems:
        click.echo(f"stays: {problem}", err=True)
    said = f"{would} {len(done)} of {counted(runs, 'run')}"
    click.echo(said if dry_run else f"{said}, {shown(freed)} freed")
