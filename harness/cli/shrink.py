"""`splitbrain shrink`: find the smallest schedule and op set that still fails."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from splitbrain.harness.cli import afar, completing, options, parsing
from splitbrain.results.errors import UsageError
from splitbrain.results.quantities import counted
from splitbrain.results.text import encoded

if TYPE_CHECKING:
    from splitbrain.harness.campaigns.interrupts import Interrupts
    from splitbrain.harness.campaigns.judging import Conclusion
    from splitbrain.harness.campaigns.shrinking import Smallest
    from splitbrain.harness.cli.answers.runs import ShrinkAnswer
    from splitbrain.harness.running.plan import Plan
    from splitbrain.nemesis.shrink import Step

BUDGET_S = 300.0

ENDING = (
    "splitbrain: the search ends with the smallest plan so far, which is run once more and stored. Ctrl-C again "
    "ends at once, and keeps nothing."
)
"""The answer to the first Ctrl-C."""

_REDRAW_S = 0.25
_PLAIN_S = 10.0


@click.command("shrink", cls=parsing.Command)
@click.argument(
    "what",
    metavar="RUN|PLAN",
    shell_complete=completing.run_or_plan,
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Also write the plan to this file, for example as a regression test.",
    shell_complete=completing.file,
)
@click.option(
    "--budget",
    type=float,
    default=BUDGET_S,
    show_default=True,
    metavar="SECONDS",
    help="Limit of CPU time of each worker process; the result is the smallest plan found by then.",
)
@click.option(
    "--jobs", type=int, metavar="N", help="Worker processes; the result does not depend on it.  [default: one per core]"
)
@options.store_or_none
@options.as_json
@click.pass_context
@afar.copied("what")
def command(
    ctx: click.Context, what: str, output: str | None, budget: float, jobs: int | None, store: str, as_json: bool
) -> None:
    """Shrink a failing run: fewer faults, operations, clients and nodes, and less time, while it still fails.

    Smaller plans are run in simulation and judged by the checker that found the violation. The search ends when nothing
    more can be removed. The result is run once more and stored with its report. Its plan is a file that `splitbrain
    replay` runs again, byte for byte.

    A RUN is named as in splitbrain analyze, one of a pushed store by its address; its plan is what
    clients and nemesis did. A run on real nodes is shrunk in simulation, if it fails there too. A PLAN is a file.

    \b
    Examples:
      splitbrain shrink latest
      splitbrain shrink latest -o tests/regressions/stale-read.json
      splitbrain shrink tests/regressions/stale-read.json --budget 60

    \b
    In a test function of your own:
      from splitbrain import play_plan
      assert not play_plan("tests/regressions/stale-read.json").guilt

    Exit code 1 means that the smallest plan ends in the violation, as expected.
    """
    from splitbrain.harness.campaigns.interrupts import Interrupts
    from splitbrain.harness.campaigns.jobs import cores
    from splitbrain.harness.campaigns.shrinking import failure_of, smallest, store_run
    from splitbrain.harness.cli.progress import Progress
    from splitbrain.harness.contract.test import TIME_MAX_S, check_number
    from splitbrain.harness.running.plan import encode
    from splitbrain.results.atomic import replace_file
    from splitbrain.results.stores import check_writable
    from splitbrain.results.targets import check_target

    check_number("budget", budget, TIME_MAX_S)
    workers = cores(jobs)
    if output is not None:
        check_target("--output", output, make_parents=True)
    parsing.refuse_twice("RUN|PLAN", [what])
    failure = failure_of(what, Path(store))
    check_writable(Path(store))
    interrupts = Interrupts()
    with shown_steps(f"shrinking {failure.source}", interrupts) as show:
        found = smallest(failure, jobs=workers, budget_s=budget, go_on=lambda: not interrupts.seen, show=show)
    with Progress("running the smallest plan") as progress:
        conclusion = store_run(found.after, Path(store), progress, failure.source)
    if output is not None:
        try:
            Path(output).parent.mkdir(parents=True, exist_ok=True)
            replace_file(Path(output), lambda aside: aside.write_bytes(encode(found.after)))
        except OSError as error:
            raise UsageError(
                f"{output} cannot be written ({error.strerror}); the plan is at {conclusion.run.plan_path}."
            ) from error
    plan_file = Path(output) if output is not None else conclusion.run.plan_path
    if as_json:
        click.echo(msgspec.json.format(encoded(_document(found, conclusion, plan_file))).decode())
    else:
        _print(found, conclusion, plan_file)
    ctx.exit(conclusion.outcome.exit_code)


@contextlib.contextmanager
def shown_steps(title: str, interrupts: Interrupts) -> Generator[Callable[[Step], None]]:
    """Show a search for a smaller plan. A request to end it is answered at once with a line."""
    with interrupts.heard(ENDING), ShrinkProgress(title) as shown:
        yield shown.show


def sizes(plan: Plan) -> str:
    """The size of a plan, in words."""
    from splitbrain.harness.running.plan import figures

    size = figures(plan)
    parts = (("fault", size.faults), ("op", size.ops), ("client", size.clients), ("node", size.nodes))
    words = ", ".join(counted(count, word) for word, count in parts)
    return f"{words}, {size.seconds:.3g} s"


def replay_command(plan_file: Path) -> str:
    """The command that runs a plan file."""
    return f"splitbrain replay {shlex.quote(str(plan_file))}"


def _print(found: Smallest, conclusion: Conclusion, plan_file: Path) -> None:
    from splitbrain.harness.campaigns.shrinking import difference
    from splitbrain.harness.campaigns.words import COLOURS

    outcome = conclusion.outcome
    click.secho(outcome.value.upper(), fg=COLOURS[outcome], bold=True, nl=False)
    click.echo(f"  {sizes(found.after)}")
    click.echo(found.sentence)
    click.echo(f"before  {sizes(found.before)}")
    then, now = found.before.options["seed"], found.after.options["seed"]
    if then != now:
        click.echo(f"seed    {now}: with the delays of seed {then} the plan did not fail, or less could be removed")
    click.echo(f"tried   {counted(found.tried, 'simulated run')}; {_ended(found)}")
    problem = difference(found.after, conclusion)
    if problem is not None:
        click.echo(f"Harness error: {problem}")
    click.echo(f"plan    {plan_file}")
    click.echo(f"report  {conclusion.report}")
    click.echo(f"replay  {replay_command(plan_file)}")


def _ended(found: Smallest) -> str:
    """The end of the search, in words."""
    if found.smaller:
        return "nothing more can be removed" if found.minimal else "ended early: a smaller plan may exist"
    if found.minimal:
        return "nothing can be removed: the plan is unchanged"
    return "ended early: no smaller plan was found, the plan is unchanged"


def _document(found: Smallest, conclusion: Conclusion, plan_file: Path) -> ShrinkAnswer:
    from splitbrain.harness.campaigns.judging import conclusion_document
    from splitbrain.harness.campaigns.shrinking import difference
    from splitbrain.harness.running.plan import figures

    return {
        **conclusion_document(conclusion),
        "plan": str(plan_file),
        "before": figures(found.before),
        "after": figures(found.after),
        "seed": found.after.options["seed"],
        "minimal": found.minimal,
        "smaller": found.smaller,
        "tried": found.tried,
        "sentence": found.sentence,
        "problem": difference(found.after, conclusion),
        "command": replay_command(plan_file),
    }


class ShrinkProgress:
    """Shows the size of the smallest plan: a status line on a terminal; elsewhere a plain line every ten seconds."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.live import Live

        self.console = Console(stderr=True)
        self.title = title
        self._began = self._shown = time.monotonic()
        self._live = Live(console=self.console, refresh_per_second=4, transient=True) if sys.stderr.isatty() else None

    def __enter__(self) -> ShrinkProgress:
        """Show the line."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Remove the line from a terminal."""
        if self._live is not None:
            self._live.stop()

    def show(self, step: Step) -> None:
        """Redraw the line if it is due."""
        from rich.text import Text

        now = time.monotonic()
        if step.tried and now - self._shown < (_REDRAW_S if self._live is not None else _PLAIN_S):
            return
        self._shown = now
        line = f"{self.title}  {now - self._began:5.1f} s  {step.tried} tried  {sizes(step.plan)}  now: {step.doing}"
        if self._live is not None:
            self._live.update(Text(line))
        else:
            self.console.print(line, highlight=False, soft_wrap=True)
