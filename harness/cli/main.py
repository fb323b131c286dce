"""The `splitbrain` command: its subcommands, loaded when they are needed, and how errors become exit codes.

Only click is imported here. A command's own module, with everything behind it, is imported when that command runs: that
keeps `splitbrain --help` fast.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from splitbrain.harness.campaigns import interrupts
from splitbrain.harness.cli.defaults import LEFT_OUT
from splitbrain.results.errors import EXIT_HARNESS_ERROR, EXIT_USAGE, SignalledError, SplitbrainError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_IMPOSSIBLE = (errno.ENAMETOOLONG, errno.ELOOP)
"""Errors of the operating system for an invalid file name: the user gave that name."""

_DISK = {
    errno.ENOSPC: "make room, with splitbrain prune or splitbrain compact for example",
    errno.EDQUOT: "make room, with splitbrain prune or splitbrain compact for example",
    errno.EROFS: "give a store that can be written",
    errno.EACCES: "give this user the right to it, or run the command as another user",
    errno.EPERM: "give this user the right to it, or run the command as another user",
    errno.EIO: "see what is wrong with the disk",
}
"""What a disk refuses for reasons of its own, or to this user, and what to do then. Each file is whole or absent all
the same."""

GARBAGE_AFTER = 20_000
"""Allocations between two garbage collections. Python's default of 700 is too small for a program this large."""

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("splitbrain.harness.cli.run", "Run one test: break a cluster and judge what its clients saw."),
    "replay": ("splitbrain.harness.cli.replay", "Run a stored run or a plan again; in simulation exactly."),
    "shrink": (
        "splitbrain.harness.cli.shrink",
        "Shrink a failing run: the smallest schedule and op set that still fails.",
    ),
    "hunt": ("splitbrain.harness.cli.hunt", "Simulate seed after seed on all cores until a checker finds a violation."),
    "nightly": (
        "splitbrain.harness.cli.nightly",
        "Run a matrix of tests within a budget: what is new, known, flaky, fixed; JUnit XML.",
    ),
    "check": ("splitbrain.harness.cli.check", "Judge history files: is what clients saw allowed by a model?"),
    "export": ("splitbrain.harness.cli.export", "Write a history as EDN (Jepsen, Knossos, Elle) or JSON lines."),
    "analyze": ("splitbrain.harness.cli.analyze", "Judge stored runs, all in one pass, with the Spark pipeline."),
    "report": ("splitbrain.harness.cli.report", "Build the report page of a run again."),
    "serve": ("splitbrain.harness.cli.serve", "Serve the store as a web site: runs, verdicts, figures, files; live."),
    "compare": ("splitbrain.harness.cli.compare", "Compare two runs, or two sets of runs."),
    "push": ("splitbrain.harness.cli.push", "Bring runs into a store that other machines read: S3, GCS, HDFS."),
    "pull": ("splitbrain.harness.cli.pull", "Bring runs from such a store to this machine."),
    "prune": ("splitbrain.harness.cli.prune", "Remove runs from a store, by age, number and size."),
    "compact": ("splitbrain.harness.cli.compact", "Make a store smaller; no run and no verdict is lost."),
    "manifest": ("splitbrain.harness.cli.manifest", "Write the table of a store: a row for each run, as Parquet."),
    "pack": ("splitbrain.harness.cli.pack", "Pack what the executors of a Spark cluster need."),
    "clean": ("splitbrain.harness.cli.clean", "Remove what killed controllers left behind, here or on hosts."),
    "list": (
        "splitbrain.harness.cli.listing",
        "List workloads, nemeses, checkers, models, systems, backends, bugs and settings.",
    ),
    "new": (
        "splitbrain.harness.cli.new",
        "Write a package with a part of your own that works, and its test.",
    ),
    "doctor": (
        "splitbrain.harness.cli.doctor",
        "Show which backends and faults work here, and what is missing for the others.",
    ),
    "cluster": ("splitbrain.harness.cli.cluster", "Start, stop and use the metadata cluster by hand."),
    "images": ("splitbrain.harness.cli.images", "Build the container images of nodes and of systems under test."),
    "demo": ("splitbrain.harness.cli.demo", "Run two short tests, one with a bug switched on, judged by Spark."),
    "completion": (
        "splitbrain.harness.cli.completion",
        "Print the script with which a shell completes commands and values.",
    ),
    "prepare": ("splitbrain.harness.cli.prepare", "Compile the kernels and prepare Spark's start (set-up does this)."),
}


class LazyGroup(click.Group):
    """A group that imports a subcommand's module when the subcommand is used, not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the subcommands, in the order of first use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand, imported."""
        if cmd_name not in COMMANDS:
            return None
        return importlib.import_module(COMMANDS[cmd_name][0]).command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """What a shell offers: options of the program, or subcommands, without importing them."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=line) for name, (_, line) in COMMANDS.items() if name.startswith(incomplete)]
        return found or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 pass, 1 violation, 2 inconclusive, 254 bad arguments, 255 the harness failed, 130 or 143 "
    "interrupted by Ctrl-C or SIGTERM before there was an outcome.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option(
    "--no-config",
    is_flag=True,
    envvar=LEFT_OUT,
    help=f"Leave out splitbrain.toml and pyproject.toml, which have defaults of options; {LEFT_OUT}=1 does so too.",
)
@click.version_option(package_name="splitbrain", prog_name="splitbrain")
def splitbrain(debug: bool, no_config: bool) -> None:
    """Inject faults into a clustered system, and check whether what its clients saw is allowed.

    A first run:  splitbrain run --workload register --nemesis partition,kill --time-limit 30
    """


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    arguments = list(sys.argv[1:] if args is None else args)
    if os.environ.get("_SPLITBRAIN_COMPLETE"):
        from splitbrain.harness.cli.shells import answer

        sys.exit(answer(splitbrain, os.environ["_SPLITBRAIN_COMPLETE"]))
    # NumPy's BLAS starts a thread per core, which spins at first. That costs a tenth of a CPU second, and no code here
    # uses BLAS.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Imports create many thousands of objects that stay; collecting garbage among them again and again finds nothing.
    gc.set_threshold(GARBAGE_AFTER, *gc.get_threshold()[1:])
    try:
        here = os.getcwd()
    except OSError:  # it was removed, by another shell for example
        click.echo("splitbrain: the current folder is not there any more: change to another one.", err=True)
        sys.exit(EXIT_USAGE)
    # A user's own model or checker may be a module in the current folder.
    if here not in sys.path:
        sys.path.append(here)
    with interrupts.ends_the_command():
        try:
            code = _code_of(arguments)
        except KeyboardInterrupt:
            with interrupts.ignored():
                interrupts.write_line(f"splitbrain: interrupted{interrupts.by_signal()}")
            code = interrupts.exit_code()
    sys.exit(code)


def _code_of(arguments: Sequence[str]) -> int:
    """Run the command line; its exit code.

    Raises:
        KeyboardInterrupt: it was asked to end, and has no outcome.
    """
    try:
        code: object = splitbrain.main(arguments, prog_name="splitbrain", standalone_mode=False)
    except click.ClickException as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        hint = f" (see {context.command_path} --help)" if context is not None else ""
        click.echo(f"splitbrain: {' '.join(error.format_message().split())}{hint}", err=True)
        return EXIT_USAGE
    except click.Abort:
        raise KeyboardInterrupt from None
    except SplitbrainError as error:
        if "--debug" in arguments:
            traceback.print_exc()
        click.echo(f"splitbrain: {error}", err=True)
        return interrupts.exit_code() if isinstance(error, SignalledError) else error.exit_code
    except (BrokenPipeError, SystemExit):
        # The reader of the output is gone. click would exit with 1, which means a violation.
        return EXIT_HARNESS_ERROR
    except Exception as error:
        if "--debug" in arguments:
            traceback.print_exc()
        return _unexpected(error)
    return code if isinstance(code, int) else 0


def _unexpected(error: Exception) -> int:
    """Print an error that is not one of ours; the exit code."""
    if isinstance(error, OSError) and error.errno in _IMPOSSIBLE and error.filename is not None:
        click.echo(f"splitbrain: {error.filename!r}: {error.strerror}. Choose another name.", err=True)
        return EXIT_USAGE
    if isinstance(error, OSError) and error.errno in _DISK:
        where = "" if error.filename is None else f" ({error.filename})"
        kept = "What was recorded until then can be judged with splitbrain analyze."
        click.echo(f"splitbrain: {error.strerror}{where}: {_DISK[error.errno]}. {kept}", err=True)
        return EXIT_HARNESS_ERROR
    what = f"unexpected {type(error).__name__}: {error}"
    click.echo(f"splitbrain: {what} (a bug of splitbrain; --debug before the command shows where)", err=True)
    return EXIT_HARNESS_ERROR
