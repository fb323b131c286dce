"""`splitbrain run`: one test, from options to an exit code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from splitbrain.harness.cli import options, parsing
from splitbrain.results.errors import UsageError
from splitbrain.results.text import encoded

if TYPE_CHECKING:
    from splitbrain.harness.campaigns.judging import Conclusion
    from splitbrain.harness.cli.answers.runs import RunAnswer


@click.command("run", cls=parsing.Command)
@options.test
@options.engine
@options.limits
@options.store
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    engine: str | None,
    master: str,
    checker_time: float | None,
    checker_memory: int | None,
    store: str,
    as_json: bool,
    **given: Any,
) -> None:
    """Run one test: start a cluster, inject faults while clients use it, heal it, and judge what the clients saw.

    Ctrl-C ends the load at once: faults are healed, nodes stopped, and the recorded history is judged. A second Ctrl-C
    skips the final reads. A third ends the command at once and prints how to judge what was recorded. SIGTERM and
    closing the terminal do the same (with nohup the latter is ignored).

    \b
    Examples:
      splitbrain run --workload register --nemesis partition,kill,pause --rate 200 --time-limit 60
      splitbrain run --bug M23 --nemesis partition
      splitbrain run --workload set --nemesis kill --nodes 3 --seed 7
      splitbrain run --nemesis partition:3,kill --interval 2
      splitbrain run --schedule examples/stale-leader.schedule --backend sim
      splitbrain run --backend sim --nemesis partition,power,packet --time-limit 300
      splitbrain run --backend ssh --hosts n1=admin@10.0.0.1,n2=admin@10.0.0.2,n3=admin@10.0.0.3 --ssh-key ~/.ssh/lab
    """
    from splitbrain.harness.campaigns.compose import RunOptions, backend_of, command_line, compose
    from splitbrain.harness.campaigns.record import run_and_judge
    from splitbrain.harness.cli.progress import Progress

    _refuse_idle(ctx, given)
    options.check_master(ctx, engine or "inline", master)
    limits = options.limits_of(checker_time, checker_memory)
    chosen = RunOptions.of(**_without_idle(ctx, given))
    test = compose(chosen)
    backend = backend_of(chosen)
    backend.check(test)
    for line in test.nemesis.left_out:
        click.echo(f"left out: {line}", err=True)
    by_spark = engine == "spark" and options.chosen(ctx, "master")
    again = command_line(chosen, store, engine, master if by_spark else None)
    for name in ("checker_time", "checker_memory"):
        if options.chosen(ctx, name):
            again += f" {options.written(name)} {ctx.params[name]:g}"
    notes = {"command": again}
    conclusion = run_and_judge(
        test,
        backend,
        Path(store),
        engine=engine or "inline",
        master=master,
        notes=notes,
        displays=Progress,
        limits=limits,
    )
    if as_json:
        from splitbrain.harness.campaigns.judging import conclusion_document

        document: RunAnswer = {**conclusion_document(conclusion), "seed": chosen.seed, "command": again}
        click.echo(msgspec.json.format(encoded(document)).decode())
    else:
        show(conclusion, again)
    ctx.exit(conclusion.outcome.exit_code)


def _refuse_idle(ctx: click.Context, given: Mapping[str, Any]) -> None:
    """Refuse options that have no effect beside the others.

    Raises:
        UsageError: there is such an option.
    """
    from splitbrain.harness.campaigns.idle import idle
    from splitbrain.harness.contract.listed import names
    from splitbrain.nemesis.catalogue import weighted

    for name, why in idle(given).items():
        if options.given(ctx, name):
            raise UsageError(f"{options.written(name)} {given[name]}: {why}")
    if given["hosts"] is not None:
        options.check_user(given["hosts"], given["ssh_user"])
    alone = names("--nemesis", given["nemesis"])
    if len(alone) == 1 and weighted(alone[0])[1] is not None and not alone[0].startswith("none"):
        raise UsageError(f"--nemesis {alone[0]}: a weight has no effect on a single nemesis: remove it, or add others.")


def _without_idle(ctx: click.Context, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the test. One from a file that has no effect beside the others is as if it were not there."""
    from splitbrain.harness.campaigns.idle import idle

    plain = {str(each.name): each.default for each in ctx.command.params}
    return {**given, **{name: plain[name] for name in idle(given) if not options.given(ctx, name)}}


def show(conclusion: Conclusion, again: str) -> None:
    """Print the outcome, the sentences, the report and the command to run the test again."""
    from splitbrain.harness.campaigns.words import COLOURS, figures, inexact_clocks

    outcome = conclusion.outcome
    click.secho(outcome.value.upper(), fg=COLOURS[outcome], bold=True, nl=False)
    click.echo(f"  {figures(conclusion.verdicts)}")
    for sentence in conclusion.sentences():
        click.echo(sentence)
    inexact = inexact_clocks(conclusion.clocks)
    if inexact is not None:
        click.echo(inexact)
    click.echo(f"report  {conclusion.report}")
    click.echo(f"again   {again}")
