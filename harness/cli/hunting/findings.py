"""What a hunt leaves: a stored run of each kind of what it found, its figures in a file, an answer to people."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from checkers.verdict import Outcome
from harness.cli.compose import command_line, compose
from harness.cli.hunting.progress import progress_line
from harness.cli.hunting.search import Limits
from harness.cli.hunting.tally import Tally
from harness.cli.hunting.trial import Trial
from harness.cli.judging import Conclusion
from harness.cli.run import run_and_judge
from harness.cli.swarm import Asked
from harness.cli.words import COLOURS
from results import arrow
from results.atomic import replace_file
from results.errors import SplitbrainError, UsageError
from results.store import git_revision, versions

KEPT_MAX: Final = 10
"""Kinds of violations, and of errors, of which one run each is kept: a hunt in broken code must not fill the disk."""

FORMAT: Final = 1
"""The version of the file that a hunt leaves."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and where it was kept.

    Attributes:
        trial: the first trial of its kind.
        conclusion: of the same test, run again into the store; None if that was not possible.
        problem: why that is so, or in what the two differ; None if they are the same.
    """

    trial: Trial
    conclusion: Conclusion | None = None
    problem: str | None = None


def keep(tally: Tally, store: Path) -> list[Finding]:
    """Run the first trial of each kind again, into the store, and see that the history is the same to the byte."""
    worst = [*tally.found(Outcome.VIOLATION)[:KEPT_MAX], *tally.found(Outcome.HARNESS_ERROR)[:KEPT_MAX]]
    return [_kept(trial, store) for trial in worst]


def _kept(trial: Trial, store: Path) -> Finding:
    if not trial.repeatable:
        return Finding(trial=trial)
    try:
        conclusion = run_and_judge(compose(trial.options), trial.options, store, "inline", "")
        return Finding(trial=trial, conclusion=conclusion, problem=_difference(trial, conclusion))
    except SplitbrainError as error:
        same = str(error) == trial.harness_error
        return Finding(trial=trial, problem=None if same else f"it could not be run again: {error}")


def _difference(trial: Trial, conclusion: Conclusion) -> str | None:
    """In what the run that was kept differs from the one that was found, None if in nothing."""
    history = conclusion.run.history()
    if "interrupted" in history.column("f").unique().to_pylist():
        return "it was interrupted when it was run again: the run that was kept is a part of it."
    figures = conclusion.run.read_test().get("simulation", {})
    found = {"history": trial.history_hash, "randomness": trial.fingerprint, "outcome": trial.outcome.value}
    again = {
        "history": arrow.history_hash(history),
        "randomness": figures.get("fingerprint"),
        "outcome": conclusion.outcome.value,
    }
    different = [name for name in found if found[name] != again[name]]
    if not different:
        return None
    return (
        f"the simulation is not deterministic: run again, the same seed gave another {' and another '.join(different)}."
    )


# --- for machines ---------------------------------------------------------------------------------------------------


def record(
    store: Path,
    *,
    asked: Asked,
    limits: Limits,
    first_seed: int,
    tally: Tally,
    wall_s: float,
    findings: Sequence[Finding],
) -> tuple[Path, dict[str, Any]]:
    """Leave the figures of a hunt in `STORE/hunts/<UTC time>-<first seed>.json`; the file, and what it says.

    Raises:
        UsageError: the store cannot be written.
    """
    now = datetime.now(UTC)
    document = {
        "format": FORMAT,
        "ended": now.isoformat(timespec="milliseconds"),
        "asked": msgspec.to_builtins(asked),
        "limits": msgspec.to_builtins(limits),
        "first_seed": first_seed,
        **tally.document(wall_s),
        "findings": [_finding_document(finding) for finding in findings],
        "versions": versions(),
        "git": git_revision(),
    }
    path = store / "hunts" / f"{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03d}Z-{first_seed}.json"
    text = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, lambda aside: aside.write_bytes(text))
    except OSError as error:
        raise UsageError(
            f"cannot write to the store {store}: {error.strerror}. Choose another with --store."
        ) from error
    return path, document


def _finding_document(finding: Finding) -> dict[str, Any]:
    trial, kept = finding.trial, finding.conclusion
    return {
        "seed": trial.options.seed,
        "outcome": trial.outcome.value,
        "kind": trial.kind,
        "sentences": list(trial.sentences),
        "harness_error": trial.harness_error,
        "history_hash": trial.history_hash,
        "fingerprint": trial.fingerprint,
        "command": command_line(trial.options),
        "replay": replay_command(finding),
        "run": None if kept is None else str(kept.run.path),
        "report": None if kept is None else str(kept.report),
        "problem": finding.problem,
    }


def replay_command(finding: Finding) -> str | None:
    """The command that runs what was kept again, exactly; None if nothing was kept."""
    return None if finding.conclusion is None else f"splitbrain replay {shlex.quote(str(finding.conclusion.run.path))}"


# --- for people -----------------------------------------------------------------------------------------------------


def show(tally: Tally, wall_s: float, findings: Sequence[Finding], figures: Path) -> None:
    """What was found, with the commands to see it again; then how much was tried, and what was never reached."""
    click.secho(tally.outcome.value.upper(), fg=COLOURS[tally.outcome], bold=True, nl=False)
    click.echo(f"  {progress_line(tally, wall_s)}")
    for finding in findings:
        _show_finding(finding, tally.kinds[finding.trial.kind])
    if tally.never:
        click.echo(f"never reached: {', '.join(tally.never)}")
    click.echo(f"figures {figures}")


def _show_finding(finding: Finding, times: int) -> None:
    trial = finding.trial
    often = f", {times} times" if times > 1 else ""
    click.echo(f"\nseed {trial.options.seed}: {trial.outcome.value}{often}")
    for sentence in (*([trial.harness_error] if trial.harness_error else []), *trial.sentences):
        click.echo(sentence)
    if finding.problem is not None:
        click.echo(f"Harness error: {finding.problem}")
    if finding.conclusion is not None:
        click.echo(f"report  {finding.conclusion.report}")
    click.echo(f"again   {command_line(trial.options)}")
    if (replay := replay_command(finding)) is not None:
        click.echo(f"replay  {replay}")
