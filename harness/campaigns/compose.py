"""From options to a test, and back to the command line that composes the same test again."""

from __future__ import annotations

import dataclasses
import re
import secrets
import shlex
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from splitbrain.harness.backends import catalogue as backends
from splitbrain.harness.backends.sim import SimBackend, check_embeddable
from splitbrain.harness.backends.ssh.inventory import KNOWN_HOSTS, Inventory, parse_hosts
from splitbrain.harness.campaigns.calm import faults_end_s
from splitbrain.harness.campaigns.configured import overridden
from splitbrain.harness.campaigns.followable import check_passed, checked_faults, declared_marks
from splitbrain.harness.campaigns.idle import idle
from splitbrain.harness.campaigns.judges import with_judges
from splitbrain.harness.campaigns.schedules import read as read_schedule
from splitbrain.harness.contract.faultkinds import supported
from splitbrain.harness.contract.listed import names, number
from splitbrain.harness.contract.operations import READ_MODES, TRANSACTIONS
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.settings import chosen
from splitbrain.harness.contract.test import (
    BURST_MAX,
    CONCURRENCY_MAX,
    NODES_MAX,
    RATE_MAX,
    TIME_MAX_S,
    Backend,
    NemesisPackage,
    Test,
    check_number,
)
from splitbrain.harness.generators.script import ScriptedFault, script_faults
from splitbrain.harness.running.plan import NODE_NAME
from splitbrain.harness.simulation import worlds
from splitbrain.harness.systems import catalogue as systems
from splitbrain.nemesis import catalogue as nemeses
from splitbrain.nemesis.compose import INTERVAL_S
from splitbrain.nemesis.requests import needs_of
from splitbrain.nemesis.schedule import OVERLAP
from splitbrain.results import quantities
from splitbrain.results.errors import UnknownNameError, UsageError
from splitbrain.results.nodedata import KEEP_DATA
from splitbrain.results.stores import STORE
from splitbrain.workloads import catalogue as workloads


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `splitbrain run`, as given; stored in `test.json`, and enough to compose the test again."""

    workload: str
    nemesis: str
    system: str
    backend: str
    bug: str
    nodes: str
    concurrency: str
    rate: float
    time_limit: float
    interval: float | None
    op_timeout: float
    recovery: float
    seed: int
    world: str = "lan"
    read_mode: str = "linearizable"
    isolation: str = ""
    consistency_model: str = ""
    schedule: str = ""
    scheduled: tuple[ScriptedFault, ...] = ()
    hosts: str | None = None
    known_hosts: str | None = None
    ssh_key: str | None = None
    ssh_user: str | None = None
    progress_bound: float | None = None
    availability: float = 0.0
    settings: str = ""
    burst: int = 1
    sharing: int = 0
    overlap: float = OVERLAP
    keep_data: str = KEEP_DATA

    @staticmethod
    def of(**options: Any) -> RunOptions:
        """Options from the command line.

        A seed is drawn where none was given, nodes are those that have hosts, and a schedule file is read.

        Raises:
            UsageError: that file cannot be read, or is wrong.
        """
        if options.get("seed") is None:
            options["seed"] = secrets.randbelow(2**31)
        if options.get("nodes") is None:
            hosts = options.get("hosts")
            options["nodes"] = (
                DEFAULTS["nodes"] if hosts is None else ",".join(host.node for host in parse_hosts(hosts))
            )
        given = msgspec.convert(options, RunOptions)
        if not given.schedule or given.scheduled:
            return given
        named = names("--nemesis", given.nemesis)
        found = read_schedule(given.schedule, node_names(given.nodes), given.time_limit, named)
        return msgspec.structs.replace(given, scheduled=found, nemesis=",".join(_bringing(found, named)))


def _bringing(faults: Sequence[ScriptedFault], named: Sequence[str]) -> list[str]:
    """The names of nemeses that bring these ops, in the order in which they are healed."""
    found = {nemeses.name_for(fault.f, named): nemeses.kind_of(fault.f, named).healed for fault in faults}
    return sorted(found, key=lambda name: found[name])


def node_names(nodes: str) -> tuple[str, ...]:
    """n1, n2, ... for a number, else the names as listed.

    Raises:
        UsageError: no node, or a name that is not a plain word, or names a node twice.
    """
    if re.fullmatch(r"[+-]?\d+", nodes.strip()):
        count = number(nodes)
        if not 1 <= count <= NODES_MAX:
            raise UsageError(f"--nodes {nodes.strip()}: a test needs 1 to {NODES_MAX} nodes.")
        return tuple(f"n{i}" for i in range(1, count + 1))
    listed = names("--nodes", nodes)
    if not listed:
        raise UsageError("--nodes: a test needs at least one node: give a number of 1 or more, or names.")
    for name in listed:
        if not NODE_NAME.fullmatch(name):
            raise UsageError(
                f"--nodes: {name!r} is not a valid node name. Use letters and digits, a letter first, at most 12."
            )
    return listed


def client_count(concurrency: str, nodes: int) -> int:
    """A number of clients: plain, or a multiple of the number of nodes (2n).

    Raises:
        UsageError: it is neither.
    """
    match = re.fullmatch(r"(\d+)(n?)", concurrency.strip())
    if match is None or number(match[1]) == 0:
        raise UsageError(
            f"--concurrency {concurrency}: give a positive number of clients, or a multiple of the number "
            "of nodes such as 2n."
        )
    count = number(match[1]) * (nodes if match[2] else 1)
    check_number("concurrency", count, CONCURRENCY_MAX)
    return count


def compose(options: RunOptions) -> Test:
    """The test that the options describe.

    Raises:
        UsageError: an option is wrong; nothing has been started or written.
    """
    nodes = node_names(options.nodes)
    check_number("rate", options.rate, RATE_MAX)
    check_number("burst", options.burst, BURST_MAX)
    check_number("time limit", options.time_limit, TIME_MAX_S)
    _check_demands(options)
    backend = backend_of(options)
    _check_world(options)
    system = systems.build(options.system, options.read_mode, options.isolation)
    bugs = names("--bug", options.bug)
    for bug in bugs:
        if bug not in system.bugs:
            raise UnknownNameError("bug", bug, system.bugs, f"of system {options.system!r}")
    concurrency = client_count(options.concurrency, len(nodes))
    nemesis_names = names("--nemesis", options.nemesis)
    if not nemesis_names:
        raise UsageError("--nemesis is empty: give one of splitbrain list nemeses, or none for no faults.")
    models = names("--consistency-model", options.consistency_model)
    late_s, pace_s = _lateness(options)
    workload = workloads.build(
        options.workload,
        nodes=nodes,
        concurrency=concurrency,
        rate=options.rate,
        time_limit_s=options.time_limit,
        reads=system.capabilities.session_reads,
        isolation=",".join(models) or system.capabilities.isolation,
        operations=system.capabilities.operations,
        late_s=late_s,
    )
    if models and not any(spec.options.get("consistency_models") == list(models) for spec in workload.checkers):
        raise UsageError(
            f"--consistency-model {','.join(models)}: workload {options.workload!r} is judged by a property of its "
            "own: remove it, or choose list-append, rw-register or predicates."
        )
    if _reads_unusually(options) and "read" not in workload.fs and TRANSACTIONS.name not in workload.needs:
        raise UsageError(
            f"--read-mode {options.read_mode}: workload {options.workload!r} has no reads: remove --read-mode."
        )
    if _reads_unusually(options) and READ_MODES.name in workload.needs:
        raise UsageError(
            f"--read-mode {options.read_mode}: workload {options.workload!r} reads in every mode: remove --read-mode."
        )
    called = (_own(options.workload, workload.name, workloads.WORKLOADS), _called(options, nemesis_names))
    test = Test(
        name="-".join([_own(options.system, system.name, systems.SYSTEMS), *_unusual(options), *called, *bugs]),
        seed=options.seed,
        nodes=nodes,
        system=system,
        workload=workload,
        nemesis=nemeses.build(()),
        bugs=bugs,
        settings=chosen(options.settings, system.capabilities.settings, options.system),
        concurrency=concurrency,
        rate=options.rate,
        burst=options.burst,
        sharing=options.sharing,
        time_limit_s=options.time_limit,
        op_timeout_s=options.op_timeout,
        recovery_s=options.recovery,
        quiet_s=options.progress_bound,
        availability=options.availability,
        late_s=late_s,
        pace_s=pace_s,
        options=msgspec.to_builtins(options),
    )
    if isinstance(backend, SimBackend):
        check_embeddable(test)
    test = dataclasses.replace(test, nemesis=_package(options, nemesis_names, test, backend))
    return with_judges(test, backend)


def backend_of(options: RunOptions) -> Backend:
    """The backend of the options.

    Raises:
        UsageError: there is no such backend, or its hosts are missing or not valid.
    """
    if options.backend == "sim":
        return SimBackend(options.world)
    if options.backend != "ssh":
        return backends.build(options.backend)
    if options.hosts is None:
        raise UsageError("--backend ssh has no hosts: name one for each node, --hosts n1=admin@10.0.0.1,n2=...")
    inventory = Inventory.of(options.hosts, options.known_hosts or KNOWN_HOSTS, options.ssh_key, options.ssh_user)
    inventory.check_nodes(node_names(options.nodes))
    return backends.build(options.backend, inventory)


def _own(given: str, own: str, built_in: Container[str]) -> str:
    """What a part of a test is called in the test's name: its own name.

    A part of another package that has the name of a built-in one is called as it was given: they are different tests.
    """
    return _plain(given) if own in built_in else re.sub(_NOT_IN_FOLDERS, "_", own)


_NOT_IN_FOLDERS = re.compile(r"[^A-Za-z0-9._@-]")


def _plain(name: str) -> str:
    """A name that a folder can have, of module:attribute the attribute; hyphens are underscores."""
    return re.sub(_NOT_IN_FOLDERS, "_", name.rpartition(":")[2]).replace("-", "_")


def _reads_unusually(options: RunOptions) -> bool:
    return options.read_mode != DEFAULTS["read_mode"]


def _unusual(options: RunOptions) -> list[str]:
    """The read mode, the level and the consistency models, if they are not the usual ones: runs of another test."""
    modes = [options.read_mode] if _reads_unusually(options) else []
    level = [f"at_{_plain(options.isolation)}"] if options.isolation else []
    return [*modes, *level, *map(_plain, names("--consistency-model", options.consistency_model))]


def _called(options: RunOptions, nemesis_names: Sequence[str]) -> str:
    """What breaks, for the name of the test: names without their weights."""
    if options.scheduled:
        return "schedule"
    return "+".join([_fault(name) for name in nemeses.weights(nemesis_names)] or ["none"])


def _fault(name: str) -> str:
    """A nemesis: of module:attribute, the name that its kind gives to these ways of injecting it."""
    if ":" not in name:
        return name
    return _own(name, nemeses.entry(name).name, nemeses.NEMESES)


def _package(options: RunOptions, nemesis_names: Sequence[str], test: Test, backend: Backend) -> NemesisPackage:
    """What breaks and when: drawn from the seed, of what the backend can do; or as a schedule says."""
    system, nodes = test.system, test.nodes
    if options.scheduled:
        scheduled = checked_faults(options.scheduled, nodes, "scheduled", nemesis_names)
        check_passed(scheduled, system, "scheduled", nemesis_names)
        package = nemeses.build(nemesis_names)
        needs = frozenset(kind for fault in options.scheduled for kind in needs_of(fault.f, fault.value, nemesis_names))
        return dataclasses.replace(package, generator=script_faults(options.scheduled), faults=needs)
    interval_s = _interval_s(options, len(nemeses.kinds(nemesis_names)))
    return nemeses.build(
        nemesis_names,
        interval_s=interval_s,
        overlap=options.overlap,
        time_limit_s=faults_end_s(test, INTERVAL_S if interval_s is None else interval_s),
        nodes=nodes,
        support=supported(backend, system) if nemeses.kinds(nemesis_names) else None,
        where=f"the {backend.name} backend",
        marks=declared_marks(system),
    )


SHORTEST_INTERVAL_S = 2.0
"""Below that a fault does not last long enough for an election."""


def _interval_s(options: RunOptions, kinds: int) -> float | None:
    """The mean time between nemesis ops; short enough for each kind of fault to have its turn on real nodes.

    A simulation costs little: there the nemesis's own interval stays, and more runs have what one lacks.
    """
    if options.interval is not None or options.backend == "sim":
        return options.interval
    return min(INTERVAL_S, max(SHORTEST_INTERVAL_S, options.time_limit / (2 * kinds + 2)))


def _check_demands(options: RunOptions) -> None:
    """Refuse a share or a size that is not valid. (Comparisons with NaN are false.)"""
    quantities.size("--keep-data", options.keep_data)
    if options.progress_bound is not None:
        check_number("progress bound", options.progress_bound, TIME_MAX_S)
    if not 0 <= options.availability <= 1:
        raise UsageError(f"--availability {options.availability:g}: give a share of the seconds, 0 to 1, such as 0.95.")


def _check_world(options: RunOptions) -> None:
    """Refuse an unknown world, or one that the backend does not have."""
    worlds.check(options.world)
    if options.backend != "sim" and options.world != "lan":
        raise UsageError(f"--world {options.world} is for simulated nodes: add --backend sim, or remove it.")


def _lateness(options: RunOptions) -> tuple[float, float]:
    """`Test.late_s` and `Test.pace_s` of the world, which is known in simulation."""
    if options.backend != "sim":
        return 0.0, 0.0
    world = worlds.world(worlds.pinned(options.world, options.seed), Streams(options.seed)["world"])
    return worlds.late_s(world), worlds.pace_s_of(world)


DEFAULTS: Final[Mapping[str, Any]] = {
    "system": "metadata",
    "backend": "local",
    "bug": "",
    "nodes": "5",
    "concurrency": "2n",
    "rate": 100.0,
    "burst": 1,
    "sharing": 0,
    "interval": None,
    "overlap": OVERLAP,
    "op_timeout": 2.0,
    "recovery": 20.0,
    "world": "lan",
    "read_mode": "linearizable",
    "isolation": "",
    "consistency_model": "",
    "schedule": "",
    "hosts": None,
    "known_hosts": None,
    "ssh_key": None,
    "ssh_user": None,
    "progress_bound": None,
    "availability": 0.0,
    "settings": "",
    "keep_data": KEEP_DATA,
}
"""Those of `splitbrain run`, of the options that a command line leaves out where they have them."""


def _number(value: float) -> str:
    """A number as people write it, as long as that is the same number."""
    return text if float(text := f"{value:g}") == value else repr(value)


def command_line(
    options: RunOptions, store: Path | str = STORE, engine: str | None = None, master: str | None = None
) -> str:
    """The command that runs the same test with the same seed, into the same store; defaults are left out.

    Args:
        options: what the test is composed of.
        store: where its run goes, as it was given.
        engine: who judges, None where that was left to splitbrain.
        master: Spark's, None likewise.
    """
    # Defaults are left out, so that a file with other ones must be left out as well.
    words = ["splitbrain", *(["--no-config"] if overridden() else []), "run"]
    given: dict[str, Any] = msgspec.to_builtins(options)
    without = {"scheduled", *idle(given)}
    given = {name: value for name, value in given.items() if name not in without}
    for name, value in given.items():
        if name in DEFAULTS and value == DEFAULTS[name]:
            continue
        text = _number(value) if isinstance(value, float) else str(value)
        words += [f"--{name.replace('_', '-')}", shlex.quote(text)]
    where = {"store": None if str(store) == STORE else str(store), "engine": engine, "master": master}
    for name, given_text in where.items():
        if given_text is not None:
            words += [f"--{name}", shlex.quote(given_text)]
    return " ".join(words)
