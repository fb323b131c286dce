"""Checkers by name. Listing the names imports none of them.

A checker of one's own needs no registration: its name is `module:attribute`, importable wherever it is to run (this
process, and with Spark the workers).
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, get_args

from splitbrain.results import plugins
from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    from splitbrain.checkers.verdict import AnyChecker

CHECKERS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "linearizable": (
            "splitbrain.checkers.linearizable:Linearizable",
            "every key behaves as if ops took effect one at a time",
        ),
        "set": (
            "splitbrain.checkers.set_checker:SetChecker",
            "no acknowledged element is lost, and none is read that was never added",
        ),
        "declare": ("splitbrain.checkers.declare:Declare", "exactly one creation wins, and every read returns it"),
        "counter": (
            "splitbrain.checkers.counter:CounterChecker",
            "every sum lies between what had certainly been added and what may have been",
        ),
        "triggers": (
            "splitbrain.checkers.triggers:Triggers",
            "every change of a counter triggered what it has to: in order of changes and priorities, at rest all of it",
        ),
        "tree": (
            "splitbrain.checkers.tree:TreeOutcomes",
            "ops on trees came to what they can come to: refused, aborted, kept, removed; no verdict else",
        ),
        "projections": (
            "splitbrain.checkers.projections:Projections",
            "records of projections are those of the tree; no node denies what it knew, or answers before it caught up",
        ),
        "session": (
            "splitbrain.checkers.sessions:Sessions",
            "sessions read monotonically, and what they wrote; their writes stay in order",
        ),
        "leader-reads": (
            "splitbrain.checkers.leader_reads:LeaderReads",
            "while one leader leads all the time, its reads are linearizable",
        ),
        "list-append": (
            "splitbrain.checkers.transactions:ListAppend",
            "transactions that append to lists have no anomaly that a consistency model proscribes",
        ),
        "rw-register": (
            "splitbrain.checkers.transactions:RwRegister",
            "transactions that write registers have no anomaly that a consistency model proscribes",
        ),
        "bank": ("splitbrain.checkers.bank:Bank", "every read of all accounts finds the same total"),
        "long-fork": (
            "splitbrain.checkers.long_fork:LongFork",
            "all reads of two registers see their writes in one order",
        ),
        "g2": ("splitbrain.checkers.g2:G2", "of two rows of which each excludes the other, one is inserted at most"),
        "monotonic": (
            "splitbrain.checkers.monotonic:Monotonic",
            "increments of a maximum are in one order, and no client goes back in it",
        ),
        "queue": (
            "splitbrain.checkers.queues:TotalQueue",
            "every acknowledged value comes out of its queue, no other one does, each publisher's in their order",
        ),
        "poison": (
            "splitbrain.checkers.queues:Poison",
            "messages that kill consumers are delivered up to their limit, and are dead letters then; none vanishes",
        ),
        "dead-letter": (
            "splitbrain.checkers.queues:DeadLetters",
            "messages that are rejected, expire or exceed a limit are dead letters for that reason; none vanishes",
        ),
        "single-active": (
            "splitbrain.checkers.queues:SingleActive",
            "one consumer of a queue at a time is given messages, each publisher's in their order",
        ),
        "replicas": (
            "splitbrain.checkers.replicas:Replicas",
            "queues keep their target of live replicas: one change at a time, none too many, none on a drained node",
        ),
        "stream": (
            "splitbrain.checkers.streams:StreamChecker",
            "messages of streams stay where they were acknowledged, once and in order, for all readers",
        ),
        "flags": (
            "splitbrain.checkers.flags:Flags",
            "a feature flag is enabled on all nodes or on none, stays so, and comes after what it depends on",
        ),
        "one-cluster": (
            "splitbrain.checkers.one_cluster:OneCluster",
            "nodes that find each other form one cluster, and a node that is done is in it",
        ),
        "topology": (
            "splitbrain.checkers.topology:TopologyChecker",
            "no entity of a broker dangles, is lost or returns; projections and routes agree with the tree",
        ),
        "migration": (
            "splitbrain.checkers.migration:MigrationChecker",
            "while entities move to another store none is lost, returns or changes, and one store at a time answers",
        ),
        "closed-predicate": (
            "splitbrain.checkers.transactions:ClosedPredicate",
            "transactions that read by predicates have no anomaly that a consistency model proscribes",
        ),
        "predicates": (
            "splitbrain.checkers.transactions:Predicates",
            "the same of each key by itself: transactions that read by predicates in one small universe",
        ),
        "stats": ("splitbrain.checkers.stats:Stats", "counts, rates and latencies; figures only"),
        "answers": ("splitbrain.checkers.answers:Answers", "no node answered with what cannot be the answer"),
        "coverage": ("splitbrain.checkers.coverage:Coverage", "the run tested enough for a verdict"),
        "election-safety": (
            "splitbrain.checkers.consensus:ElectionSafety",
            "at most one leader per group and term, elected by a majority",
        ),
        "leader-completeness": (
            "splitbrain.checkers.consensus:LeaderCompleteness",
            "a new leader has every entry that was committed before",
        ),
        "replica-agreement": (
            "splitbrain.checkers.consensus:ReplicaAgreement",
            "replicas agree on log and state at equal index, projections and snapshots with the state",
        ),
        "commit-monotonic": (
            "splitbrain.checkers.consensus:CommitMonotonic",
            "commit, applied and term never go back in a life, and no entry is skipped",
        ),
        "durability": (
            "splitbrain.checkers.consensus:Durability",
            "a node that starts again has the log and the vote that it had said are durable",
        ),
        "log-matching": (
            "splitbrain.checkers.consensus:LogMatching",
            "logs with the same entry have the same entries up to it, applied or not",
        ),
        "removed-members": (
            "splitbrain.checkers.consensus:RemovedMembers",
            "nothing that a removed member says changes term or leader of the others",
        ),
        "commit-majority": (
            "splitbrain.checkers.consensus:CommitMajority",
            "a leader commits only what a majority of the voters acknowledged as durable",
        ),
        "read-majority": (
            "splitbrain.checkers.consensus:ReadMajority",
            "a leader answers a read on a majority's word that was asked for after the read came, or on a lease",
        ),
        "acknowledged": (
            "splitbrain.checkers.consensus:Acknowledged",
            "a leader counts for a follower only what that acknowledged to it in its term",
        ),
        "votes": (
            "splitbrain.checkers.consensus:Votes",
            "a candidate asks only voters, and leads by votes of its term that a majority of them gave",
        ),
        "candidacy": (
            "splitbrain.checkers.consensus:Candidacy",
            "a voter that knows no leader stands for election in time, and not at the same moment as others",
        ),
        "member-changes": (
            "splitbrain.checkers.consensus:MemberChanges",
            "a leader changes members one at a time, in its own term, and equal logs put equal members into force",
        ),
        "versions": (
            "splitbrain.checkers.consensus:Versions",
            "a later version of the state machine comes into force once all members understand it",
        ),
        "links": (
            "splitbrain.checkers.links:Links",
            "nodes that run, and that no fault keeps apart, connect to each other in time",
        ),
        "strategy-apart": (
            "splitbrain.checkers.strategies:StrategyApart",
            "nodes that lost each other run apart, and say so, until one of them restarts",
        ),
        "strategy-down": (
            "splitbrain.checkers.strategies:StrategyDown",
            "a node is taken for down once it was silent for the tick time, not before and not much later",
        ),
        "strategy-ignore": (
            "splitbrain.checkers.strategies:StrategyIgnore",
            "under ignore no node stops by itself, and partial partitions are made whole",
        ),
        "strategy-pause-minority": (
            "splitbrain.checkers.strategies:StrategyPauseMinority",
            "a node that sees half of all nodes or fewer does not serve; it goes on once it sees a majority",
        ),
        "strategy-pause-if-all-down": (
            "splitbrain.checkers.strategies:StrategyPauseIfAllDown",
            "a node does not serve while it sees none of the listed nodes, and goes on once it sees one",
        ),
        "strategy-autoheal": (
            "splitbrain.checkers.strategies:StrategyAutoheal",
            "the first node decides, the right partition wins and keeps its data, and all losers restart",
        ),
        "crashes": ("splitbrain.checkers.crashes:Crashes", "no node ends by itself while its disk is well"),
        "quorum-progress": (
            "splitbrain.checkers.quorum:QuorumProgress",
            "the right nodes answered, and the wrong ones stayed silent",
        ),
        "recovery": ("splitbrain.checkers.recovery:Recovery", "the healed system is usable again within its bound"),
    }
)
"""Name: (where it is, what it proves)."""


@cache
def checker(name: str) -> AnyChecker:
    """The checker of that name, or at `module:attribute` (an instance, or a class to be made without arguments).

    Raises:
        UnknownNameError: there is none of that name.
        UsageError: `module:attribute` cannot be imported, or is not a checker.
    """
    if name in CHECKERS:
        return _load(CHECKERS[name][0])
    return _checked(plugins.find("checker", name, CHECKERS), name)


def check_spec(name: str, options: Mapping[str, Any], fs: Collection[str] = ()) -> None:
    """Refuse, before a run, what could not judge it. No built-in checker is imported.

    Args:
        name: of the checker.
        options: of the checker; a model of linearizability, and consistency models, are looked up.
        fs: the functions that it will have to judge.

    Raises:
        UsageError: there is no such checker or model, it cannot be imported, the model does not know a function, or
            transactions cannot be judged by it.
    """
    if name not in CHECKERS:
        checker(name)
    if "consistency_models" in options:
        from splitbrain.checkers.transactions.models import refuse_untestable

        refuse_untestable(tuple(options["consistency_models"]), tuple(options.get("anomalies", ())))
    if name == "linearizable" and isinstance(options.get("model"), str):
        from splitbrain.checkers.models import model

        found, judged = model(options["model"]), options.get("functions")
        if unknown := sorted((set(fs) if judged is None else set(judged)) - found.fs):
            raise UsageError(
                f"model {options['model']!r} does not know {', '.join(map(repr, unknown))} of this workload; it knows "
                f"{', '.join(sorted(found.fs))}. Choose another model, add the function to its fs and its step, or say "
                "with the option functions of the checker which ones it is about."
            )


def _load(location: str) -> AnyChecker:
    module, _, attribute = location.partition(":")
    return _checked(getattr(importlib.import_module(module), attribute), location)


def _checked(found: Any, location: str) -> AnyChecker:
    from splitbrain.checkers.verdict import Partition, Whole

    if isinstance(found, type):
        found = plugins.made("checker", location, found)
    partitions = (*get_args(Partition), *get_args(Whole))
    name: Any = getattr(found, "name", None)
    wrong = [] if isinstance(name, str) and name else ["name"]
    wrong += [] if getattr(found, "partition", None) in partitions else ["partition"]
    wrong += [method for method in ("check", "merge") if not callable(getattr(found, method, None))]
    if wrong:
        kinds = ", ".join(map(repr, partitions))
        raise UsageError(
            f"{location} is not a checker: {', '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} missing or wrong. "
            f"It needs name, partition (one of {kinds}), check and merge."
        )
    return found
