"""`splitbrain prepare`: compile once at set-up, so that tests and demos do not wait for a compiler."""

from __future__ import annotations

import importlib
import logging
import signal
import time
from multiprocessing import get_context
from typing import Final

import click

from splitbrain.harness.campaigns.interrupts import terminated_as_interrupted
from splitbrain.harness.cli import parsing
from splitbrain.results.errors import EngineError

_SPAWNED: Final = get_context("spawn")

KERNELS: Final = (
    "splitbrain.checkers.linearizable",
    "splitbrain.checkers.linearizable.deciders",
    "splitbrain.checkers.transactions.warm",
)
"""Modules whose `warm_up` compiles kernels."""


@click.command("prepare", cls=parsing.Command)
def command() -> None:
    """Compile the checking kernels, and create the archive that halves the start-up time of Spark.

    Set-up runs this once; run it again after Java or Python changed. Without it the first use waits for the compiler.
    """
    from splitbrain.checkers.spark import session

    click.echo("compiling the kernels of the checkers, and making Spark's class archive: one or two minutes")
    started = time.monotonic()
    # The compiler holds the interpreter's lock: it has processes of its own, beside which Spark starts.
    compiling = [_SPAWNED.Process(target=compile_kernels, args=(name,), daemon=True) for name in KERNELS]
    for each in compiling:
        each.start()
    try:
        with terminated_as_interrupted():  # or its processes would go on without it
            archive, archived_s = session.prepare(), time.monotonic() - started
            for each in compiling:
                each.join()
    finally:
        for each in compiling:
            each.terminate()
    for name, each in zip(KERNELS, compiling, strict=True):
        if each.exitcode != 0:
            raise EngineError(f"the kernels of {name} were not compiled: their process ended with {each.exitcode}.")
    click.echo(f"kernels compiled in {time.monotonic() - started:.0f} s")
    click.echo(f"{archive} ({archived_s:.0f} s)")


def compile_kernels(module: str) -> None:
    """Compile what this module warms up, in a process of its own; Numba keeps it on disk."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits for this one ends it
    logging.getLogger("splitbrain.checkers.kernel_cache").setLevel(logging.ERROR)  # it advises to do what is done here
    importlib.import_module(module).warm_up()
