"""`splitbrain prepare`: what set-up does once, so that no test and no demo waits for a compiler."""

from __future__ import annotations

import time

import click

from splitbrain.harness.cli import parsing


@click.command("prepare", cls=parsing.Command)
def command() -> None:
    """Compile the checking kernels and make the archive that halves Spark's start.

    Run once by set-up; run it again after Java or Python changed. Without it everything works, only the first use
    waits for the compiler.
    """
    from splitbrain.checkers import linearizable
    from splitbrain.checkers.linearizable import deciders
    from splitbrain.checkers.spark import session

    started = time.monotonic()
    linearizable.warm_up()
    deciders.warm_up()
    click.echo(f"kernels compiled in {time.monotonic() - started:.0f} s")
    started = time.monotonic()
    click.echo(f"{session.prepare()} ({time.monotonic() - started:.0f} s)")
