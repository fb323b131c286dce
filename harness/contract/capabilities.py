"""What a system can do beyond what every system has, declared in one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TID251 - for types; the backends do the work
from typing import TYPE_CHECKING, Final, TypeAlias

from splitbrain.harness.contract.discovery import Discovery
from splitbrain.harness.contract.elections import Elections
from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.groups import Groups
from splitbrain.harness.contract.installed import Release
from splitbrain.harness.contract.membership import Learners, Membership
from splitbrain.harness.contract.migrations import Migrations
from splitbrain.harness.contract.moments import SystemMarks
from splitbrain.harness.contract.read_modes import LINEARIZABLE, ReadMode, ReadPromise
from splitbrain.harness.contract.settings import Setting
from splitbrain.harness.contract.transfer import Transfer
from splitbrain.harness.contract.upgrades import Upgrades

if TYPE_CHECKING:  # both bring asyncio, which `splitbrain check` does without
    from splitbrain.harness.contract.embedding import Embeddable, Recoverable
    from splitbrain.harness.contract.observing import Observable

STRICT_SERIALIZABLE: Final = "strict-serializable"
"""One order of all transactions, which real time does not contradict."""

START_S: Final = 30.0
"""How long nodes may take until they are usable when a run starts, unless their system says otherwise."""

TelemetryCheckers: TypeAlias = Callable[[Mapping[str, int], frozenset[FaultKind]], Sequence[str]]

CountMarks: TypeAlias = Callable[[], AbstractContextManager[Mapping[str, int]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """What a system can do beyond what every system has. By default it can do nothing of it.

    A test checks it when it is made (`splitbrain.harness.contract.declarations`).

    Attributes:
        operations: groups of operations that its sessions have, by name
            (`splitbrain.harness.contract.operations.GROUPS`); a group of another package as "module:attribute".
        read_modes: what it can promise of its reads, the usual mode first. One that has several takes `read_mode` when
            it is made.
        isolations: the levels of isolation with which its nodes can be started, the usual one first. One that has
            several takes `isolation` when it is made; none if there is nothing to choose.
        session_reads: the kinds of reads that one session may mix, by the functions of their ops (`ReadPromise`); for
            the operations "read-modes".
        isolation: the consistency model that its transactions promise, by a name that `splitbrain check
            --consistency-model` knows; for the operations "transactions".
        elections: how it elects leaders; without it neither quorum progress nor a quiet phase is judged.
        membership: how its nodes leave and join while it runs; None if its members are fixed.
        upgrades: how its nodes are upgraded while it runs; None if there is one version only.
        transfer: how its leader is asked to hand leadership over; None if it cannot be asked.
        migrations: how its metadata move to another store while it runs; None if they cannot.
        learners: how nodes join without a vote first; None if they cannot.
        groups: how its nodes take part in further groups; None if there are none.
        discovery: the service by which its nodes find each other, where a test can let it fail; None if there is none.
        gives_up: the name of the error with which a node ends that has nothing left to do, and says why: that is no
            crash. Empty if none does.
        last_words: finds in the log of a node that ended by itself why it did, in one line; None where the last line of
            a log says that.
        shared_sessions: whether several processes may use one of its sessions at once, and go on with it after an op of
            unknown outcome. Its sessions then have `broken`: whether no op can succeed any more.
        standbys: whether only the node that leads carries out what changes something, and others refuse it, and maybe
            reads as well: then no run needs answers from each of its nodes.
        image: name of the image in whose containers its nodes run; None if they do not run in containers.
        image_for: which image that is, for a test with these settings; None if it is always the same.
        uploads: what is laid on a host that is to run a node: the name below `NodePlace.home_dir`, and the file or
            folder here.
        programs: programs that a machine must have to run a node, or files by their paths, and Debian's package for
            each.
        release: which release of it this machine has, where tests say by a setting which one they are about; it returns
            None if there is none. None if the system has no such setting.
        imports: modules that the Python of a host must have to run a node.
        one_address: all peers must know a node by the same address, so that proxies between nodes are not possible.
        start_s: how long its nodes may take until they are usable when a run starts, in seconds. If it is longer than
            usual, simulated nodes may take as long when everything is healed, which starts those that are down.
        slow_worlds: whether it elects leaders where a message or a sync takes nearly as long as `election_timeout_s`;
            if not, hunts draw only worlds in which four ops, one after the other, fit into that time.
        immune: kinds of fault that cannot be done to its nodes wherever they live, and why.
        settings: numbers that its nodes are started with and that a test may choose, by name.
        simulation: starts nodes inside this process; None if they run as processes only.
        recovery: says what a simulated node would recover from its disk after a loss of power; None if it cannot.
        telemetry_checkers: the checkers that judge the telemetry of a test with these settings, whose nemesis may do
            these kinds of faults; None for the rules of consensus (`splitbrain.results.telemetry.CONSENSUS_CHECKERS`).
        observation: polls nodes for telemetry; None if they write it themselves, or have none.
        count_marks: counts which of the system's own states simulated nodes reach while the context lasts, zeros
            included; None if it counts none.
        marks: those states, and how a simulation hears of each at once, for faults at moments; None if it cannot.
    """

    operations: frozenset[str] = frozenset()
    read_modes: tuple[ReadMode, ...] = (LINEARIZABLE,)
    isolations: tuple[str, ...] = ()
    session_reads: Mapping[str, ReadPromise] = field(default_factory=dict[str, ReadPromise])
    isolation: str = STRICT_SERIALIZABLE
    elections: Elections | None = None
    membership: Membership | None = None
    upgrades: Upgrades | None = None
    transfer: Transfer | None = None
    migrations: Migrations | None = None
    learners: Learners | None = None
    groups: Groups | None = None
    discovery: Discovery | None = None
    gives_up: str = ""
    last_words: Callable[[str], str] | None = None
    shared_sessions: bool = False
    standbys: bool = False
    image: str | None = None
    image_for: Callable[[Mapping[str, int]], str] | None = None
    uploads: Mapping[str, Path] = field(default_factory=dict[str, Path])
    programs: Mapping[str, str] = field(default_factory=dict[str, str])
    release: Callable[[], Release | None] | None = None
    imports: tuple[str, ...] = ()
    one_address: bool = False
    start_s: float = START_S
    slow_worlds: bool = False
    immune: Mapping[FaultKind, str] = field(default_factory=dict[FaultKind, str])
    settings: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    simulation: Embeddable | None = None
    recovery: Recoverable | None = None
    telemetry_checkers: TelemetryCheckers | None = None
    observation: Observable | None = None
    count_marks: CountMarks | None = None
    marks: SystemMarks | None = None
