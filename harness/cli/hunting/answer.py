"""The answer of a hunt, as text and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import click

from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.compose import command_line
from splitbrain.harness.campaigns.hunting.findings import Finding
from splitbrain.harness.campaigns.hunting.reach import within_reach
from splitbrain.harness.campaigns.hunting.search import Ending, Limits
from splitbrain.harness.campaigns.hunting.smaller import Smaller
from splitbrain.harness.campaigns.hunting.tally import Tally
from splitbrain.harness.campaigns.swarm import Asked
from splitbrain.harness.campaigns.words import COLOURS
from splitbrain.harness.cli.hunting.progress import progress_line
from splitbrain.harness.cli.shrink import sizes
from splitbrain.harness.running.plan import figures
from splitbrain.results.origin import git_revision, versions
from splitbrain.results.quantities import counted

if TYPE_CHECKING:
    from splitbrain.harness.cli.answers.runs import HuntDocument, HuntFinding, HuntSmaller, Revision

FORMAT: Final = 1
"""The version of the document."""

MARKS_SHOWN: Final = 6
"""Of the coverage marks that no run reached, so many are shown to people."""


# --- for machines ---------------------------------------------------------------------------------------------------


class Hunted(NamedTuple):
    """How a hunt went: what was asked for, why it ended, and how many seconds it took."""

    asked: Asked
    limits: Limits
    ending: Ending
    wall_s: float


def document_of(
    how: Hunted,
    first_seed: int,
    tally: Tally,
    findings: Sequence[Finding],
    smaller: Smaller | None,
    store: str,
) -> HuntDocument:
    """A hunt as JSON: its options, what was tried, what was found, and the version of the code."""
    return {
        "format": FORMAT,
        "ended": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "asked": how.asked,
        "limits": how.limits,
        "ended_by": how.ending,
        "first_seed": first_seed,
        **tally.document(how.wall_s),
        "findings": [_finding(finding, store) for finding in findings],
        "smaller": None if smaller is None else _smaller(smaller),
        "versions": versions(),
        "git": cast("Revision | None", git_revision()),
    }


def _finding(finding: Finding, store: str) -> HuntFinding:
    trial, kept = finding.trial, finding.conclusion
    return {
        "seed": trial.options.seed,
        "outcome": trial.outcome.value,
        "kind": trial.kind,
        "signatures": list(map(str, trial.signatures)),
        "sentences": list(trial.sentences),
        "harness_error": trial.harness_error,
        "history_hash": trial.history_hash,
        "fingerprint": trial.fingerprint,
        "command": command_line(trial.options, store),
        "replay": None if kept is None else _replay(kept.run.path),
        "run": None if kept is None else str(kept.run.path),
        "report": None if kept is None else str(kept.report),
        "problem": finding.problem,
    }


def _smaller(smaller: Smaller) -> HuntSmaller:
    found, kept = smaller.smallest, smaller.conclusion
    return {
        "before": None if found is None else figures(found.before),
        "after": None if found is None else figures(found.after),
        "minimal": found is not None and found.minimal,
        "tried": 0 if found is None else found.tried,
        "sentence": "" if found is None else found.sentence,
        "plan": None if kept is None else str(kept.run.plan_path),
        "replay": None if kept is None else _replay(kept.run.plan_path),
        "report": None if kept is None else str(kept.report),
        "problem": smaller.problem,
    }


def _replay(path: Path) -> str:
    return f"splitbrain replay {shlex.quote(str(path))}"


# --- for people -----------------------------------------------------------------------------------------------------


SEEDS_SHOWN: Final = 10
"""So many seeds of inconclusive runs are named; the file of figures has all."""

FEW_RUNS: Final = 20
"""Fewer runs that passed are weak evidence: known bugs are often found by the tenth run or later."""


def show(
    tally: Tally, how: Hunted, findings: Sequence[Finding], smaller: Smaller | None, file: Path, store: str
) -> None:
    """Print what was found, with commands to see it again; then how much was tried, and which marks were never
    reached.
    """
    click.secho(tally.outcome.value.upper(), fg=COLOURS[tally.outcome], bold=True, nl=False)
    click.echo(f"  {progress_line(tally, how.wall_s, tried(tally, how))}")
    if tally.outcome is Outcome.PASS and tally.outcomes[Outcome.PASS] < FEW_RUNS:
        click.echo(f"weak evidence: only {counted(tally.outcomes[Outcome.PASS], 'run')} passed; {_more(how)}")
    for finding in findings:
        _show_finding(finding, tally.kinds[finding.trial.kind], store)
    if smaller is not None:
        _show_smaller(smaller)
    click.echo()
    if tally.reasons:
        reasons = ", ".join(f"{code} {count}" for code, count in tally.reasons.most_common())
        first = ", ".join(map(str, sorted(tally.inconclusive)[:SEEDS_SHOWN]))
        more = ", ..." if len(tally.inconclusive) > SEEDS_SHOWN else ""
        click.echo(f"inconclusive because of: {reasons} (seeds {first}{more})")
    _show_marks(tally, how.asked)
    click.echo(f"figures {file}")


def tried(tally: Tally, how: Hunted) -> str:
    """How many runs there were, of how many that were asked for, and why there are no more."""
    asked = how.limits.runs
    runs = counted(tally.runs, "run") if asked is None else f"{tally.runs} of {counted(asked, 'run')}"
    why = {
        "violation": "until a violation",
        "runs": "",
        "budget": f"in the budget of {how.limits.budget_s:g} CPU s",
        "interrupt": "until the interrupt",
        "harness-errors": "until too many harness errors",
    }[how.ending]
    return f"{runs} {why}".rstrip()


def _more(how: Hunted) -> str:
    """What to do for more runs."""
    if how.ending == "runs":
        return "give it more --runs"
    return "give it a longer --budget" if how.ending == "budget" else "hunt again"


def _show_marks(tally: Tally, asked: Asked) -> None:
    reachable = within_reach(tally.never, asked.nemeses)
    if reachable:
        hidden = len(reachable) - MARKS_SHOWN
        more = f" and {hidden} more (the file of figures has all)" if hidden > 0 else ""
        click.echo(f"never reached: {counted(len(reachable), 'mark')}: {', '.join(reachable[:MARKS_SHOWN])}{more}")
    out_of_reach = len(tally.never) - len(reachable)
    if out_of_reach:
        need = "needs" if out_of_reach == 1 else "need"
        click.echo(f"{counted(out_of_reach, 'mark')} {need} other faults than --nemesis {','.join(asked.nemeses)}")


def _show_finding(finding: Finding, times: int, store: str) -> None:
    trial, kept = finding.trial, finding.conclusion
    often = f", {times} times in this hunt" if times > 1 else ""
    click.echo(f"\nseed {trial.options.seed}: {trial.outcome.value}{often}")
    if trial.outcome is Outcome.VIOLATION:
        for sentence in trial.sentences:
            click.echo(sentence)
    if trial.harness_error is not None:
        click.echo(trial.harness_error)
    if finding.problem is not None:
        click.echo(f"{'Interrupted' if finding.interrupted else 'Harness error'}: {finding.problem}")
    if kept is not None:
        click.echo(f"report  {kept.report}")
    click.echo(f"again   {command_line(trial.options, store)}")
    if kept is not None:
        click.echo(f"replay  {_replay(kept.run.path)}")


def _show_smaller(smaller: Smaller) -> None:
    found, kept = smaller.smallest, smaller.conclusion
    if found is None or kept is None:
        click.echo(f"\nnot shrunk: {smaller.problem}")
        return
    click.echo("\nshrunk")
    if smaller.problem is not None:
        click.echo(f"Harness error: {smaller.problem}")
    click.echo(found.sentence)
    click.echo(f"from    {sizes(found.before)}")
    click.echo(f"to      {sizes(found.after)}{'' if found.minimal else ' (time is up: a smaller plan may exist)'}")
    click.echo(f"report  {kept.report}")
    click.echo(f"replay  {_replay(kept.run.plan_path)}")
