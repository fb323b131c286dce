"""Options that mean the same in every command."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from splitbrain.harness.campaigns.idle import HOST_OPTIONS
from splitbrain.harness.cli import completing, parsing
from splitbrain.results import places, stores
from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    from splitbrain.checkers.isolation.limits import Limits

F = TypeVar("F", bound=Callable[..., Any])


def _apply(options: list[Callable[[Any], Any]]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


MASTER = "local[*]"
"""The default of Spark's master."""


def written(name: str) -> str:
    """An option as it is written on the command line, from the name of its parameter."""
    return f"--{name.replace('_', '-')}"


def given(ctx: click.Context, name: str) -> bool:
    """Whether the user gave a parameter of the command with this command line."""
    source = ctx.get_parameter_source(name)
    return source not in (click.core.ParameterSource.DEFAULT, click.core.ParameterSource.DEFAULT_MAP)


def chosen(ctx: click.Context, name: str) -> bool:
    """Whether the user chose a parameter of the command: with this command line, or in a file with defaults."""
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def _store(check: Callable[[Path, bool], None], instead: str = "") -> Callable[[F], F]:
    """The option `--store`.

    Args:
        check: gets the folder, and whether the user gave it.
        instead: what to do instead of naming the address of a pushed store, with {address} for it, and {run} for that
            of a run in it; "" if a command takes one.
    """

    def checked(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
        if ctx.resilient_parsing:
            return value
        asked = given(ctx, str(parameter.name))
        if not chosen(ctx, str(parameter.name)) or not places.is_address(value):
            stores.check_path(str(places.folder_of(value)) if value.strip() else value)
            folder = places.folder_of(value)
            check(folder, asked)
            return value if value == str(folder) or "://" not in value else str(folder)
        if instead:
            place = places.place_of(value)
            advice = instead.format(address=shlex.quote(value), run=place and place.below("test=.../run=..."))
            raise UsageError(f"--store {place}: this command needs a folder of this machine: {advice}")
        return value

    return click.option(
        "--store",
        default=stores.STORE,
        show_default=True,
        metavar="DIR" if instead else "DIR|URL",
        help="The folder of stored runs." if instead else "The folder of stored runs, or the address of pushed ones.",
        callback=checked,
        shell_complete=completing.folder,
    )


def _refuse_missing(folder: Path, asked: bool) -> None:
    if asked:
        stores.check_there(folder)


def _take(folder: Path, asked: bool) -> None:
    """Accept any folder."""


store = _store(
    lambda folder, _: stores.check_writable(folder),
    "record runs in one, then splitbrain push --to {address}",
)
"""For a command that writes runs: the folder is created if it is missing."""

_PULL = "splitbrain pull --from {address} brings runs into one"

stored = _store(_refuse_missing, _PULL)
"""For a command that reads runs of this machine: a folder that is given must exist."""

stored_anywhere = _store(_refuse_missing)
"""For a command that reads runs, also pushed ones."""

store_or_none = _store(_take, "name the run by its address, {run}, and leave --store out")
"""For a command that may read or write runs."""
as_json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
history_format = click.option(
    "--format",
    "format_name",
    default=None,
    metavar="NAME",
    help="edn, jsonl, parquet, porcupine or compact (splitbrain list formats).  [default: detected]",
    shell_complete=completing.one(completing.parts("formats")),
)
source_format = click.option(
    "--from",
    "format_name",
    default=None,
    metavar="NAME",
    help="The format of FILE.  [default: detected]",
    shell_complete=completing.one(completing.parts("formats")),
)
independent = click.option(
    "--independent",
    type=click.Choice(["auto", "yes", "no"]),
    default="auto",
    show_default=True,
    help="In EDN and JSON: whether values are [key value], as jepsen.independent writes them. auto: yes if all of "
    "them are pairs, reads included.",
)
_master = click.option("--master", default=MASTER, show_default=True, metavar="URL", help="Spark's master.")


def _properties(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Spark's properties, from `KEY=VALUE` each."""
    found: dict[str, str] = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise UsageError(f"--conf {text!r} is no property of Spark: give spark.NAME=VALUE.")
        if key in found:
            raise UsageError(f"--conf {key} is given twice: give it once.")
        if key == "spark.master":
            raise UsageError(f"--conf {text}: give it as --master {value}.")
        found[key] = value
    return found


conf = click.option(
    "--conf",
    multiple=True,
    callback=_properties,
    metavar="KEY=VALUE",
    help="A property of Spark, such as spark.executor.memory=4g or spark.archives=packed.tar.gz#splitbrain; any number "
    "of times.",
)
engine = _apply(
    [
        click.option(
            "--engine",
            type=click.Choice(["inline", "spark"]),
            default=None,
            help="inline: judge in a process of this command; spark: in the Spark pipeline.  [default: inline]",
        ),
        _master,
    ]
)
engine_of_runs = _apply(
    [
        click.option(
            "--engine",
            type=click.Choice(["auto", "inline", "spark"]),
            default="auto",
            show_default=True,
            help="inline: judge in a process of this command; spark: in the Spark pipeline; auto: spark from 300 runs "
            "on, or with --master.",
        ),
        _master,
        conf,
    ]
)
"""The same for a command that judges any number of runs."""

SPARK_RUNS = 300
"""From this number of runs on Spark on two cores is done before one process, its start included, by what was measured
(340, without the confined process and with rows instead of paths); with more cores earlier."""


limits = _apply(
    [
        click.option(
            "--checker-time",
            type=float,
            default=None,
            metavar="SECONDS",
            help="The CPU seconds that each checker may take; then it is stopped, and the others go on.  "
            "[default: 1800]",
        ),
        click.option(
            "--checker-memory",
            type=int,
            default=None,
            metavar="MB",
            help="The memory that judging a run may need.  [default: half of the machine's, shared by what judges at "
            "once]",
        ),
    ]
)


def limits_of(checker_time: float | None, checker_memory: int | None, at_once: int = 1) -> Limits:
    """The limits of checkers that were given; `at_once`: how many processes judge, 0 for one per core.

    Raises:
        UsageError: nothing could be judged with them.
    """
    from splitbrain.checkers.isolation.limits import DEFAULT, Limits

    cpu_s = DEFAULT.cpu_s if checker_time is None else checker_time
    stuck_s = min(DEFAULT.stuck_s, max(_STUCK_S, cpu_s))
    return Limits(cpu_s, checker_memory, stuck_s=stuck_s, at_once=at_once)


_STUCK_S = 10.0
"""A checker that only waits is given up after its time limit in real time, but not before."""


def engine_for(engine: str, runs: int) -> str:
    """The engine for so many runs: "auto" is Spark from `SPARK_RUNS` on, if it is installed."""
    if engine != "auto":
        return engine
    from splitbrain.checkers.spark.session import is_installed

    return "spark" if runs >= SPARK_RUNS and is_installed() else "inline"


def check_master(ctx: click.Context, engine: str, master: str) -> None:
    """Refuse Spark if it is not installed, an invalid master, and a master for another engine.

    Raises:
        UsageError: one of these was given.
    """
    if engine == "spark":
        from splitbrain.checkers.spark.session import check_installed, check_master

        check_master(master)
        check_installed()
    elif given(ctx, "master"):
        raise UsageError(f"--master is for Spark, and the engine is {engine}: add --engine spark, or remove --master.")


def check_conf(engine: str, conf: Mapping[str, str]) -> None:
    """Refuse properties of Spark for another engine.

    Raises:
        UsageError: some were given.
    """
    if conf and engine == "inline":
        raise UsageError("--conf is for Spark, and the engine is inline: add --engine spark, or remove --conf.")


def check_hosts(ctx: click.Context, why: str) -> None:
    """Refuse options on how to reach hosts if no hosts are given.

    Args:
        ctx: of the command.
        why: the reason and what to do, as the end of a sentence.

    Raises:
        UsageError: one was given.
    """
    for name in HOST_OPTIONS:
        if given(ctx, name):
            raise UsageError(f"{written(name)} {ctx.params[name]}: {why}")


def check_user(hosts: str, user: str | None) -> None:
    """Refuse a user if every host names its own.

    Raises:
        UsageError: every host names its own, or the list of hosts is not valid.
    """
    from splitbrain.harness.backends.ssh.inventory import parse_hosts

    if user is not None and all(host.user is not None for host in parse_hosts(hosts)):
        raise UsageError(
            f"--ssh-user {user}: each of --hosts has a user already: remove --ssh-user, or the users in --hosts."
        )


def check_store(ctx: click.Context, references: Iterable[str]) -> None:
    """Refuse a store if no run is read from it, because each run is given as a folder.

    Raises:
        UsageError: the store has no effect.
    """
    references = tuple(references)
    if given(ctx, "store") and references and all(map(stores.is_run, references)):
        raise UsageError(f"--store {ctx.params['store']}: each run is given as a folder: remove --store.")


_HOSTS = [
    click.option(
        "--hosts",
        default=None,
        callback=parsing.named,
        metavar="NODE=[USER@]HOST[:PORT][,...]|@FILE",
        help="The hosts of --backend ssh, one per node; in a FILE one per line.",
    ),
    click.option(
        "--known-hosts",
        default=None,
        callback=parsing.named,
        metavar="FILE",
        help="Known host keys; a host with another key or none is refused.  [default: ~/.ssh/known_hosts]",
        shell_complete=completing.file,
    ),
    click.option(
        "--ssh-key",
        default=None,
        callback=parsing.named,
        metavar="FILE",
        help="The private key for the login.  [default: those of the ssh agent and ~/.ssh]",
        shell_complete=completing.file,
    ),
    click.option(
        "--ssh-user",
        default=None,
        callback=parsing.named,
        metavar="NAME",
        help="The user on hosts for which --hosts names no user.  [default: your own name]",
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
            shell_complete=completing.one(completing.parts("workloads")),
        ),
        click.option(
            "--nemesis",
            default="partition,kill",
            show_default=True,
            metavar="NAME[:WEIGHT][,...]",
            help="The faults to draw from the seed (splitbrain list nemeses); partition:2,kill has two partitions for "
            "each kill; none has no faults.",
            shell_complete=completing.several(completing.parts("nemeses")),
        ),
        click.option(
            "--schedule",
            default="",
            callback=parsing.named,
            metavar="FILE",
            help="Exactly these faults at these times, instead of drawing them for --nemesis: JSON lines such as "
            '[2.5, "kill", {"spec": "leader"}], or the plan.json of a run.',
            shell_complete=completing.file,
        ),
        click.option(
            "--system",
            default="metadata",
            show_default=True,
            metavar="NAME",
            help="The system under test (splitbrain list systems).",
            shell_complete=completing.one(completing.parts("systems")),
        ),
        click.option(
            "--read-mode",
            default="linearizable",
            show_default=True,
            metavar="NAME",
            help="The mode of reads: linearizable, or serializable if the system has that (etcd). Workloads check the "
            "same property in both modes.",
            shell_complete=completing.one(completing.of_system("read modes")),
        ),
        click.option(
            "--isolation",
            default="",
            callback=parsing.named,
            metavar="LEVEL",
            help="The level of isolation of transactions, if the system has several (postgresql): read-committed, "
            "repeatable-read or serializable.  [default: the system's own]",
            shell_complete=completing.one(completing.of_system("isolations")),
        ),
        click.option(
            "--consistency-model",
            default="",
            callback=parsing.named,
            metavar="NAME[,NAME...]",
            help="For workloads list-append, rw-register and predicates: the models that transactions must satisfy, "
            "instead of what the system promises.",
            shell_complete=completing.several(completing.parts("consistency models")),
        ),
        click.option(
            "--backend",
            default="local",
            show_default=True,
            metavar="NAME",
            help="Where nodes run (splitbrain list backends; splitbrain doctor shows what works here).",
            shell_complete=completing.one(completing.parts("backends")),
        ),
        *_HOSTS,
        click.option(
            "--world",
            default="lan",
            show_default=True,
            metavar="NAME",
            help="The properties of the simulated network, disks, clocks and processors: lan, wan, globe, slow-disks, "
            "slow-cpu, late, or swarm (drawn from the seed; swarm:7 from seed 7).",
            shell_complete=completing.one(completing.parts("worlds")),
        ),
        click.option(
            "--bug",
            default="",
            callback=parsing.named,
            metavar="ID[,ID...]",
            help="Switch bugs of the system on (splitbrain list bugs).",
            shell_complete=completing.several(completing.of_system("bugs")),
        ),
        click.option(
            "--settings",
            default="",
            callback=parsing.named,
            metavar="NAME=N[,NAME=N...]",
            help="Numbers that nodes are started with (splitbrain list settings).",
            shell_complete=completing.several(completing.of_system("settings"), "="),
        ),
        click.option(
            "-n",
            "--nodes",
            default=None,
            metavar="N|NAME[,NAME...]",
            help="The number of nodes, or their names.  [default: 5, or those of --hosts]",
        ),
        click.option(
            "-c",
            "--concurrency",
            default="2n",
            show_default=True,
            metavar="N|Nn",
            help="The number of client processes; 2n is two per node.",
        ),
        click.option(
            "--rate",
            type=float,
            default=100.0,
            show_default=True,
            metavar="HZ",
            help="Operations per second, of all clients together.",
        ),
        click.option(
            "--burst",
            type=int,
            default=1,
            show_default=True,
            metavar="N",
            help="The number of operations that are due at once; --rate stays their mean rate.",
        ),
        click.option(
            "--sharing",
            type=int,
            default=0,
            show_default=True,
            metavar="N",
            help="The number of clients of a node that use one connection, which goes on after an operation of unknown "
            "outcome; 0: each client has its own, which ends then.",
        ),
        click.option(
            "--time-limit",
            type=float,
            default=30.0,
            show_default=True,
            metavar="SECONDS",
            help="Duration of faults and load.",
        ),
        click.option(
            "--interval",
            type=float,
            default=None,
            metavar="SECONDS",
            help="Mean time between nemesis operations.  [default: the nemesis's own]",
        ),
        click.option(
            "--overlap",
            type=float,
            default=0.3,
            show_default=True,
            metavar="P",
            help="The probability that a second fault begins before the first is healed.",
        ),
        click.option(
            "--op-timeout",
            type=float,
            default=2.0,
            show_default=True,
            metavar="SECONDS",
            help="Timeout of an operation; after it, the outcome is unknown.",
        ),
        click.option(
            "--recovery",
            type=float,
            default=20.0,
            show_default=True,
            metavar="SECONDS",
            help="Timeout of recovery: after healing, every node must answer within it.",
        ),
        click.option(
            "--progress-bound",
            type=float,
            default=None,
            metavar="SECONDS",
            help="Timeout within which a quorum must answer again after links or nodes changed.  [default: some "
            "election timeouts of the system]",
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
            help="The limit of the nodes' data to keep, packed: 0, 500M, 2G.",
        ),
        click.option(
            "--seed", type=int, default=None, metavar="N", help="Root of all randomness.  [default: drawn, and printed]"
        ),
    ]
)
