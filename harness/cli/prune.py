"""`splitbrain prune`: remove runs from a store."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from splitbrain.harness.cli import options, parsing
from splitbrain.results.places import is_address
from splitbrain.results.quantities import counted
from splitbrain.results.text import encoded

if TYPE_CHECKING:
    from splitbrain.harness.cli.answers.stores import PruneAnswer
    from splitbrain.results.pruning import Candidate, Limits


FOREVER: Final = "forever"


@click.command("prune", cls=parsing.Command)
@options.stored_anywhere
@click.option("--older-than", default=None, metavar="AGE", help="Remove runs that began longer ago: 90m, 12h, 30d, 8w.")
@click.option(
    "--keep",
    type=click.IntRange(0, 1_000_000_000),
    default=None,
    metavar="N",
    help="Remove all but the newest N runs of each test.",
)
@click.option(
    "--max-size", default=None, metavar="SIZE", help="Remove the oldest runs until the store is no larger: 500M, 20G."
)
@click.option(
    "--outcome",
    default="pass,inconclusive,harness-error",
    show_default=True,
    metavar="NAME[,...]",
    help="Only runs with these outcomes; violation and unjudged (a run without a verdict, or damaged since) only if "
    "named here.",
)
@click.option(
    "--rule",
    "rules",
    multiple=True,
    metavar="OUTCOME=AGE|forever",
    help="How long runs of an outcome stay: pass=7d, inconclusive=30d, violation=forever; any number of times.",
)
@click.option("--test", "tests", default=None, metavar="NAME[,...]", help="Only runs of these tests.")
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@options.as_json
def command(
    store: str,
    older_than: str | None,
    keep: int | None,
    max_size: str | None,
    outcome: str,
    rules: tuple[str, ...],
    tests: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove runs from a store: by age, by number per test, by the size of the store, by rules.

    A run is removed if it exceeds any of the limits. Violations and runs without a verdict stay unless --outcome or a
    rule names them; what a rule keeps forever stays whatever the limits are. A run in progress always stays, and so
    does one that something refers to which stays: a run that was derived from it, a page that links to it, a text file
    in the folder of the store with its name.

    \b
    Examples:
      splitbrain prune --older-than 30d --dry-run
      splitbrain prune --keep 20 --max-size 50G
      splitbrain prune --rule violation=forever --rule pass=7d --max-size 200G
      splitbrain prune --older-than 1w --outcome pass --test metadata-register-partition
    """
    from splitbrain.results import pruning
    from splitbrain.results.errors import HarnessError, UnknownNameError
    from splitbrain.results.references import kept, references
    from splitbrain.results.store import Store
    from splitbrain.results.stores import check_there

    limits = _limits(older_than, keep, max_size, outcome, tests, rules)
    if is_address(store):
        from splitbrain.harness.cli.prune_there import prune

        def report(
            runs: list[Candidate], removed: list[Candidate], problems: list[str], referred: Mapping[str, str]
        ) -> None:
            _report(runs, removed, problems, referred, dry_run, as_json)
            _report_what_stays(runs, removed, limits)

        prune(store, limits, report, dry_run=dry_run)
        return
    where = Store(Path(store))
    check_there(where.root)
    runs = pruning.candidates(where)
    known = {run.test_name for run in where.folders()}
    for name in sorted(limits.tests - known):
        raise UnknownNameError("test", name, known, f"in the store {where.root}")
    chosen = pruning.choose(runs, limits, time.time())
    referred = kept([run.path for run in chosen], references(where.root, [run.path for run in where.folders()]))
    chosen = [run for run in chosen if run.path not in referred]
    problems: list[str] = []
    removed: list[Candidate] = []
    if not dry_run:
        pruning.remove_interrupted(where)
    for run in chosen:
        try:
            if not dry_run:
                pruning.remove(run)
        except HarnessError as error:
            problems.append(str(error))
        else:
            removed.append(run)
    _report(runs, removed, problems, referred, dry_run, as_json)
    _report_what_stays(runs, removed, limits)
    if problems:
        raise HarnessError(f"{len(problems)} of {counted(len(chosen), 'run')} could not be removed: {problems[0]}")


def _limits(
    older_than: str | None,
    keep: int | None,
    max_size: str | None,
    outcome: str,
    tests: str | None,
    rules: Sequence[str],
) -> Limits:
    from splitbrain.results import quantities
    from splitbrain.results.errors import UnknownNameError, UsageError
    from splitbrain.results.pruning import OUTCOMES, Limits

    if older_than is None and keep is None and max_size is None and not rules:
        raise UsageError("no limit is given: give --older-than, --keep, --max-size or --rule.")
    outcomes = _named("--outcome", outcome)
    for name in sorted(outcomes - set(OUTCOMES)):
        raise UnknownNameError("outcome", name, OUTCOMES)
    return Limits(
        outcomes=outcomes,
        tests=frozenset() if tests is None else _named("--test", tests),
        older_than_s=None if older_than is None else quantities.age("--older-than", older_than),
        keep=keep,
        max_bytes=None if max_size is None else quantities.size("--max-size", max_size),
        ages=_ages(rules),
    )


def _ages(rules: Sequence[str]) -> dict[str, float | None]:
    """How long runs of each outcome stay, in seconds; None: forever."""
    from splitbrain.results import quantities
    from splitbrain.results.errors import UnknownNameError, UsageError
    from splitbrain.results.pruning import OUTCOMES

    ages: dict[str, float | None] = {}
    for rule in rules:
        name, equals, age = (part.strip() for part in rule.partition("="))
        if not equals:
            raise UsageError(f"--rule {rule!r} has no age: give OUTCOME=AGE, or OUTCOME={FOREVER}.")
        if name not in OUTCOMES:
            raise UnknownNameError("outcome", name, OUTCOMES)
        if name in ages:
            raise UsageError(f"--rule {rule!r}: there are two rules for {name}: give one.")
        ages[name] = None if age == FOREVER else quantities.age("--rule", age)
    return ages


def _named(option: str, text: str) -> frozenset[str]:
    from splitbrain.harness.contract.listed import names
    from splitbrain.results.errors import UsageError

    found = frozenset(names(option, text))
    if not found:
        raise UsageError(f"{option} {text!r} is empty: remove it.")
    return found


def _report_what_stays(runs: list[Candidate], removed: list[Candidate], limits: Limits) -> None:
    """Print on standard error why the store is still above the limits."""
    from splitbrain.results.quantities import shown

    gone = {run.path for run in removed}
    rest = [run for run in runs if run.path not in gone]
    unknown = [run.path for run in rest if run.outcome is None]
    if unknown:
        many = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        click.echo(f"skipped: {unknown[0]}{many}: in progress, damaged, or of a newer version", err=True)
    left = sum(run.size_bytes for run in rest)
    if limits.max_bytes is not None and left > limits.max_bytes:
        click.echo(
            f"the runs that stay take {shown(left)}, more than --max-size: they have another outcome than "
            f"{','.join(sorted(limits.outcomes))}, or are of another test",
            err=True,
        )


def _refers(by: str) -> str:
    from splitbrain.results.references import is_certain

    return (
        "refers to it"
        if is_certain(by)
        else "may be derived from it, its test.json cannot be read: restore or remove it"
    )


def _report(
    runs: list[Candidate],
    removed: list[Candidate],
    problems: list[str],
    referred: Mapping[str, str],
    dry_run: bool,
    as_json: bool,
) -> None:
    from splitbrain.results.quantities import shown

    freed = sum(run.size_bytes for run in removed)
    if as_json:
        answer: PruneAnswer = {
            "dry_run": dry_run,
            "removed": removed,
            "problems": problems,
            "referred_to": dict(referred),
            "runs_left": len(runs) - len(removed),
            "freed_bytes": freed,
        }
        click.echo(msgspec.json.format(encoded(answer)).decode())
        return
    would = "would remove" if dry_run else "removed"
    for run in removed:
        click.echo(f"{would} {run.path}  {run.outcome}, {shown(run.size_bytes)}")
    for path, by in sorted(referred.items()):
        click.echo(f"stays: {path}: {by} {_refers(by)}", err=True)
    for problem in problems:
        click.echo(f"not removed: {problem}", err=True)
    click.echo(f"{would} {len(removed)} of {counted(len(runs), 'run')}, {shown(freed)}")
