"""`splitbrain prepare`: compile once at set-up, so that tests and demos do not wait for a compiler."""

from __future__ import annotations

import time

import click

from splitbrain.harness.cli import parsing


@click.command("prepare", cls=parsing.Command)
def command() -> None:
    """Compile the checking kernels, and create the archive that halves the start-up time of Spark.

    Set-up runs this once; run it again after Java or Python changed. Without it the first use waits for the compiler.
    """
    from splitbrain.checkers import linearizable
    from splitbrain.checkers.linearizable import deciders
    from splitbrain.checkers.spark import session
    from splitbrain.checkers.transactions import warm

    started = time.monotonic()
    linearizable.warm_up()
    deciders.warm_up()
    warm.warm_up()
    click.echo(f"kernels compiled in {time.monotonic() - started:.0f} s")
    started = time.monotonic()
    click.echo(f"{session.prepare()} ({time.monotonic() - started:.0f} s)")
