"""Options that mean the same in every command."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from splitbrain.harness.campaigns.idle import HOST_OPTIONS
from splitbrain.harness.cli import parsing
from splitbrain.results import stores
from splitbrain.results.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def _apply(options: list[Callable[[Any], Any]]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


MASTER = "local[*]"
"""Spark's master, unless another is asked for."""


def written(name: str) -> str:
    """An option as people write it, by the name of its parameter."""
    return f"--{name.replace('_', '-')}"


def given(ctx: click.Context, name: str) -> bool:
    """Whether a parameter of the command was given, and is not its default."""
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def _store(check: Callable[[Path, bool], None]) -> Callable[[F], F]:
    """The option `--store`; `check` is called with the folder, and with whether it was given."""

    def checked(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
        folder = Path(value)
        stores.check_path(value)
        check(folder, given(ctx, str(parameter.name)))
        return value

    return click.option(
        "--store",
        default=stores.STORE,
        show_default=True,
        metavar="DIR",
        help="Where runs are kept.",
        callback=checked,
    )


def _refuse_missing(folder: Path, asked: bool) -> None:
    if asked:
        stores.check_there(folder)


def _take(folder: Path, asked: bool) -> None:
    """Take any."""


store = _store(lambda folder, _: stores.check_writable(folder))
"""Of a command that puts runs into it: made if it is not there."""

stored = _store(_refuse_missing)
"""Of a command that reads runs: one that is named must be there."""

store_or_none = _store(_take)
"""Of a command that reads runs from it, or none, and may put some into it."""
as_json = click.option("--json", "as_json", is_flag=True, help="Answer in JSON, for a machine.")
history_format = click.option(
    "--format",
    "format_name",
    default=None,
    metavar="NAME",
    help="edn, jsonl, parquet, porcupine or compact (splitbrain list formats).  [default: recognised]",
)
source_format = click.option(
    "--from", "format_name", default=None, metavar="NAME", help="The format of FILE.  [default: recognised]"
)
independent = click.option(
    "--independent",
    type=click.Choice(["auto", "yes", "no"]),
    default="auto",
    show_default=True,
    help="In EDN and JSON: whether values are [key value], as jepsen.independent makes them. auto: if all of them are "
    "pairs, reads included.",
)
engine = _apply(
    [
        click.option(
            "--engine",
            type=click.Choice(["inline", "spark"]),
            default=None,
            help="Who judges: this process at once, or the Spark pipeline.  [default: inline for one run or "
            "file; for a store spark, where it is installed]",
        ),
        click.option("--master", default=MASTER, show_default=True, metavar="URL", help="Spark's master."),
    ]
)


def engine_of_a_store(engine: str | None) -> str:
    """The engine that judges a whole store if none is asked for: Spark where it is installed."""
    from splitbrain.checkers.spark.session import is_installed

    return engine or ("spark" if is_installed() else "inline")


def check_master(ctx: click.Context, engine: str, master: str) -> None:
    """Refuse Spark where it is not installed, a master that is none, and a master where Spark does not judge.

    Raises:
        UsageError: it is such a one.
    """
    if engine == "spark":
        from splitbrain.checkers.spark.session import check_installed, check_master

        check_master(master)
        check_installed()
    elif given(ctx, "master"):
        raise UsageError(f"--master is for Spark, and the {engine} engine judges: add --engine spark, or leave it out.")


def check_hosts(ctx: click.Context, why: str) -> None:
    """Refuse options on how to reach hosts where there are none.

    Args:
        ctx: of the command.
        why: there are none, and what to do, as the end of a sentence.

    Raises:
        UsageError: one was given.
    """
    for name in HOST_OPTIONS:
        if given(ctx, name):
            raise UsageError(f"{written(name)} {ctx.params[name]}: {why}")


def check_user(hosts: str, user: str | None) -> None:
    """Refuse a user with whom no host is left to log in: each names its own.

    Raises:
        UsageError: so it is, or the hosts are none.
    """
    from splitbrain.harness.backends.ssh.inventory import parse_hosts

    if user is not None and all(host.user is not None for host in parse_hosts(hosts)):
        raise UsageError(f"--ssh-user {user}: each of --hosts names who logs in there: leave one of them out.")


def check_store(ctx: click.Context, references: Iterable[str]) -> None:
    """Refuse a store that was given, and from which no run is read: each is named by the path of its folder.

    Raises:
        UsageError: so it is.
    """
    references = tuple(references)
    if given(ctx, "store") and references and all(map(stores.is_run, references)):
        raise UsageError(f"--store {ctx.params['store']}: each run is named by its folder: leave --store out.")


_HOSTS = [
    click.option(
        "--hosts",
        default=None,
        callback=parsing.named,
        metavar="NODE=[USER@]HOST[:PORT][,...]|@FILE",
        help="The hosts of --backend ssh, one per node; in a FILE one a line.",
    ),
    click.option(
        "--known-hosts",
        default=None,
        callback=parsing.named,
        metavar="FILE",
        help="Keys of hosts; one with another key, or none there, is refused.  [default: ~/.ssh/known_hosts]",
    ),
    click.option(
        "--ssh-key",
        default=None,
        callback=parsing.named,
        metavar="FILE",
        help="The private key to log in with.  [default: those of the ssh agent and ~/.ssh]",
    ),
    click.option(
        "--ssh-user",
        default=None,
        callback=parsing.named,
        metavar="NAME",
        help="Who logs in to hosts that name nobody.  [default: you]",
    ),
]
hosts = _apply(_HOSTS)

test = _apply(
    [
        click.option(
            "-w",
            "--workload",
            default="register",
            show_default=True,
            metavar="NAME",
            help="What clients do (splitbrain list workloads).",
        ),
        click.option(
            "--nemesis",
            default="partition,kill",
            show_default=True,
            metavar="NAME[:WEIGHT][,...]",
            help="What breaks (splitbrain list nemeses), drawn from the seed; partition:2,kill has two partitions for "
            "each kill; none for nothing.",
        ),
        click.option(
            "--schedule",
            default="",
            callback=parsing.named,
            metavar="FILE",
            help="Just these faults at these times, instead of those drawn for --nemesis: JSON lines such as "
            '[2.5, "kill", {"spec": "leader"}], or the plan.json of a run.',
        ),
        click.option(
            "--system",
            default="metadata",
            show_default=True,
            metavar="NAME",
            help="What is tested (splitbrain list systems).",
        ),
        click.option(
            "--read-mode",
            default="linearizable",
            show_default=True,
            metavar="NAME",
            help="What the system promises of reads: linearizable, or serializable where it has that (etcd); workloads "
            "demand the same of either.",
        ),
        click.option(
            "--backend",
            default="local",
            show_default=True,
            metavar="NAME",
            help="Where nodes live (splitbrain list backends; splitbrain doctor tells what works here).",
        ),
        *_HOSTS,
        click.option(
            "--world",
            default="lan",
            show_default=True,
            metavar="NAME",
            help="What a simulated network, disk and clock are like: lan, wan, or swarm (drawn from the seed).",
        ),
        click.option(
            "--bug",
            default="",
            callback=parsing.named,
            metavar="ID[,ID...]",
            help="Switch bugs of the system on (splitbrain list bugs).",
        ),
        click.option(
            "-n",
            "--nodes",
            default=None,
            metavar="N|NAME[,NAME...]",
            help="How many nodes, or their names.  [default: 5, or those of --hosts]",
        ),
        click.option(
            "-c",
            "--concurrency",
            default="2n",
            show_default=True,
            metavar="N|Nn",
            help="Client processes; 2n is two a node.",
        ),
        click.option(
            "--rate",
            type=float,
            default=100.0,
            show_default=True,
            metavar="HZ",
            help="Operations a second, of all clients together.",
        ),
        click.option(
            "--time-limit",
            type=float,
            default=30.0,
            show_default=True,
            metavar="SECONDS",
            help="How long faults and load last.",
        ),
        click.option(
            "--interval",
            type=float,
            default=None,
            metavar="SECONDS",
            help="Mean time between nemesis operations.  [default: the nemesis's own]",
        ),
        click.option(
            "--op-timeout",
            type=float,
            default=2.0,
            show_default=True,
            metavar="SECONDS",
            help="After that nobody knows how an operation ended.",
        ),
        click.option(
            "--recovery",
            type=float,
            default=20.0,
            show_default=True,
            metavar="SECONDS",
            help="How long the healed system may take until every node answers.",
        ),
        click.option(
            "--progress-bound",
            type=float,
            default=None,
            metavar="SECONDS",
            help="How long a quorum may take to answer again after links or nodes changed.  [default: some election "
            "timeouts of the system]",
        ),
        click.option(
            "--availability",
            type=float,
            default=0.0,
            metavar="SHARE",
            help="The share of seconds in which the cluster must answer, such as 0.95.  [default: figures only]",
        ),
        click.option(
            "--keep-data",
            default="256M",
            show_default=True,
            metavar="SIZE",
            help="How much of the nodes' data is kept, packed: 0, 500M, 2G.",
        ),
        click.option(
            "--seed", type=int, default=None, metavar="N", help="Root of all randomness.  [default: drawn, and printed]"
        ),
    ]
)
