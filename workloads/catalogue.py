"""Workloads by name, as given to `--workload`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias

from splitbrain.harness.contract.capabilities import STRICT_SERIALIZABLE
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import included
from splitbrain.harness.contract.read_modes import ReadPromise
from splitbrain.harness.contract.test import Workload
from splitbrain.results import plugins
from splitbrain.results.errors import UsageError
from splitbrain.workloads.bank import bank
from splitbrain.workloads.causal import causal
from splitbrain.workloads.conversion import conversion
from splitbrain.workloads.counter import counter
from splitbrain.workloads.create_once import create_once
from splitbrain.workloads.dead_letter import dead_letter
from splitbrain.workloads.declare import declare
from splitbrain.workloads.flags import flags
from splitbrain.workloads.formation import formation
from splitbrain.workloads.g2 import g2
from splitbrain.workloads.grow_set import grow_set
from splitbrain.workloads.lease_lock import lease_lock
from splitbrain.workloads.list_append import list_append
from splitbrain.workloads.lock import lock
from splitbrain.workloads.long_fork import long_fork
from splitbrain.workloads.migration import migration
from splitbrain.workloads.monotonic import monotonic
from splitbrain.workloads.multi_cas import multi_cas
from splitbrain.workloads.poison import poison
from splitbrain.workloads.predicates import predicates
from splitbrain.workloads.projections import projections
from splitbrain.workloads.queue import queue
from splitbrain.workloads.read_modes import RAFT, fenced_reads, read_modes
from splitbrain.workloads.records import records
from splitbrain.workloads.register import register
from splitbrain.workloads.replicas import replicas
from splitbrain.workloads.rw_register import rw_register
from splitbrain.workloads.single_active import single_active
from splitbrain.workloads.stream import short_stream, stream
from splitbrain.workloads.topology import topology
from splitbrain.workloads.tree import tree

Builder: TypeAlias = Callable[..., Workload]
"""Makes a workload of those arguments of `build` that it takes."""


WORKLOADS: Final[Mapping[str, tuple[Builder, str]]] = {
    "register": (register, "read, write and compare-and-set over many keys; each key must be linearizable"),
    "read-modes": (
        read_modes,
        "writes, and reads in every mode of the system, mixed in each session; each mode must keep its own promise",
    ),
    "fenced-reads": (
        fenced_reads,
        "writes, and fenced reads mixed with consistent and local ones in each session; each must keep its promise",
    ),
    "set": (grow_set, "add numbers, read them all; no acknowledged number may be missing"),
    "declare": (declare, "create if absent; exactly one client wins each key, and all read the winner"),
    "create-once": (create_once, "all create the same key at once, then each reads the winner; there is one winner"),
    "counter": (
        counter,
        "add amounts and read the sums; each increment counts once, and triggers run at least once, in order",
    ),
    "tree": (
        tree,
        "conditional writes, deletes and transactions on nested paths, with versions; each tree must be linearizable",
    ),
    "projections": (
        projections,
        "nodes answer from their own tables: what they acknowledged, nothing that went, and never that it is not there",
    ),
    "lock": (lock, "take a lock and give it back; one owner at a time, and its fencing tokens grow"),
    "lease-lock": (
        lease_lock,
        "acquire a lock on a lease of 2 s with keep-alive, work, release it; one owner at a time: must fail",
    ),
    "records": (records, "write records that are never read; only a quorum may acknowledge them"),
    "list-append": (
        list_append,
        "transactions that read lists and append to them; none may show what isolation excludes",
    ),
    "rw-register": (rw_register, "transactions that read registers before they write them; likewise"),
    "bank": (bank, "transfer money between accounts, read all balances; their total never changes"),
    "long-fork": (long_fork, "two writes, and reads of both; all reads see the writes in one order"),
    "g2": (g2, "insert one of two rows if there is neither; of each pair there is at most one"),
    "causal": (
        causal,
        "write one key, read two; a client that sees a write sees what the session of the write had seen",
    ),
    "monotonic": (monotonic, "write the maximum of several registers, plus one; no number is written twice"),
    "multi-cas": (multi_cas, "read, write and compare-and-set two registers together; each pair must be linearizable"),
    "predicates": (
        predicates,
        "transactions that read all objects that match a predicate, insert, write and delete; as list-append",
    ),
    "topology": (
        topology,
        "declare, bind, unbind and delete entities of a broker; nothing dangles, and projections agree with the tree",
    ),
    "migration": (
        migration,
        "declare and delete entities while they move from tables to the tree; none is lost, returns or changes",
    ),
    "queue": (queue, "publish with confirms, take and acknowledge, drain; no acknowledged message may be missing"),
    "poison": (
        poison,
        "consumers die of every fourth message; each is delivered up to a limit, and then a dead letter; none vanishes",
    ),
    "dead-letter": (
        dead_letter,
        "consumers reject messages or give them back, others expire; each dead letter has its reason, none vanishes",
    ),
    "single-active": (
        single_active,
        "publish, consume, and leave queues with a single active consumer; one at a time gets messages, in order",
    ),
    "replicas": (
        replicas,
        "queues whose replicas are maintained: grow, shrink, drain, revive; live ones as many as the target in the end",
    ),
    "conversion": (
        conversion,
        "publish to classic queues, take, give back, and convert their files; no acknowledged message may be missing",
    ),
    "stream": (
        stream,
        "publish to streams with confirms, read them by offset on all nodes; what was acknowledged stays where it is",
    ),
    "short-stream": (
        short_stream,
        "the same of streams whose beginnings are dropped; what is not dropped stays where it is",
    ),
    "flags": (
        flags,
        "enable feature flags, and ask every node for them: each is enabled on all nodes or on none, and stays so",
    ),
    "formation": (formation, "nodes without data find each other; ask each of them for its cluster: there is one"),
}
"""Name: (builder, a line on it)."""

READ_UNCOMMITTED: Final = "read-uncommitted"
"""A consistency model that no workload is judged by unless it is asked for."""


def able(operations: Collection[str]) -> tuple[str, ...]:
    """The names of the workloads that a system with these groups of operations can carry out."""
    return tuple(name for name in WORKLOADS if needs(name) <= included(operations))


def by_models(names: Sequence[str]) -> tuple[str, ...]:
    """Those of these workloads that are judged by the consistency models that are asked for."""
    return tuple(name for name in names if _takes_models(name))


def _takes_models(name: str) -> bool:
    made = build(name, nodes=("n1",), concurrency=1, isolation=READ_UNCOMMITTED)
    return any(spec.options.get("consistency_models") == [READ_UNCOMMITTED] for spec in made.checkers)


def needs(name: str) -> frozenset[str]:
    """The groups of operations that the clients of a workload need.

    Raises:
        UnknownNameError: there is none of that name.
    """
    return build(name, nodes=("n1",), concurrency=1).needs


def build(
    name: str,
    *,
    nodes: Sequence[NodeId],
    concurrency: int,
    rate: float = 100.0,
    time_limit_s: float = 30.0,
    reads: Mapping[str, ReadPromise] = RAFT,
    isolation: str = STRICT_SERIALIZABLE,
    operations: Collection[str] = (),
    late_s: float = 0.0,
) -> Workload:
    """The workload of that name.

    Args:
        name: a key of `WORKLOADS`, or that of another package's (`splitbrain.results.plugins`): a Workload, or what
            makes one of those of these arguments that it takes.
        nodes: names of the nodes.
        concurrency: number of clients.
        rate: their ops per second.
        time_limit_s: length of the faults phase.
        reads: the kinds of reads of the system (`Capabilities.session_reads`).
        isolation: the consistency models that its transactions must satisfy, separated by commas; as a rule what it
            promises (`Capabilities.isolation`).
        operations: groups of operations that it has (`Capabilities.operations`), for workloads that do more with more.
        late_s: how much later than usual something may arrive although nothing is wrong (`Test.late_s`), for workloads
            that wait until nothing is under way.

    Raises:
        UnknownNameError: there is none of that name.
        UsageError: that of another package cannot be imported, or is no workload.
    """
    found = WORKLOADS[name][0] if name in WORKLOADS else plugins.find("workload", name, WORKLOADS)
    if not isinstance(found, Workload):
        load = {"nodes": nodes, "concurrency": concurrency, "rate": rate, "time_limit_s": time_limit_s}
        load |= {"reads": reads, "isolation": isolation, "operations": operations, "late_s": late_s}
        found = plugins.made("workload", name, found, **load)
    if not isinstance(found, Workload):
        raise UsageError(f"workload {name!r} made {found!r:.80}, not a Workload.")
    return found


def check(name: str) -> None:
    """Refuse an unknown workload.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if name not in WORKLOADS:
        plugins.find("workload", name, WORKLOADS)
