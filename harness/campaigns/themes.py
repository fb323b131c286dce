"""Themes: what a hunt draws from when it looks in one direction, beside the draw from everything.

A draw from everything meets a rare combination rarely: a kill of the leader at short intervals, with many clients, and
short election timeouts. A theme is a portfolio of such things that go together (Groce et al., ISSTA 2012, show that a
test that leaves features out has room for the others). It only says what is favoured: what was asked for stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from splitbrain.harness.simulation.worlds import DRAWN
from splitbrain.nemesis.schedule import OVERLAP

RATES_HZ: Final = (20.0, 50.0, 100.0, 200.0)
TIME_LIMITS_S: Final = (12.0, 20.0, 30.0, 60.0)
INTERVALS_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Shorter than an election as well as longer than one."""

BURSTS: Final = (1, 10, 50, 200)
"""Ops that come at once."""

CONCURRENCY: Final = ("1n", "2n", "2n", "3n", "3n", "5n", "10n", "20n", "30n")
"""Most clusters have few clients; with many, long tails of the log are uncommitted when a leader is lost."""

OP_TIMEOUTS_S: Final = (1.0, 2.0, 2.0, 5.0)

OVERLAPS: Final = (OVERLAP, 0.6, 0.9)
"""The probability that a second fault begins in another one: some states exist only between the begin and the end of a
fault (a learner, a node that is out, a cluster with no more nodes than a majority), and show only by a second one.
"""

SELDOM: Final = 0.1
"""The probability of an overlap where each leaves the cluster without a quorum: one or two in a test."""

WORLD: Final = DRAWN

KINDS_MAX: Final = 4
"""The largest number of kinds of fault in one test: with more, none occurs often."""


class Theme(msgspec.Struct, frozen=True, kw_only=True):
    """What the draw of a seed favours.

    Attributes:
        name: what it is called.
        weight: how many times as often it is drawn as one of weight 1.
        workloads: drawn from those of them that were asked for; all that were if none are listed here.
        brings: drawn in place of these where no workload was asked for, and in no other theme: most draws are not for
            them. Such a theme has its turn only there.
        nemeses: likewise.
        core: those of the nemeses of which each test has one; none if it does not matter.
        kinds_max: how many kinds of fault a test has at most: of few, each meets each other more often.
        nodes: how many; any number that was asked for if none are listed here.
        settings: values that are drawn for settings of the system, if it has them.
        worlds: where the request leaves the world to the seed.
        recovers_fast: nodes may be stopped at the shortest intervals: elections are short, or are to be met.
        concurrency: clients, as for `splitbrain run`.
        rates_hz: of all clients together.
        time_limits_s: length of the faults phase.
        intervals_s: mean time between nemesis ops.
        op_timeouts_s: how long a client waits.
        bursts: how many ops come at once.
        overlaps: how likely a second fault begins before the first is healed.
    """

    name: str
    weight: int = 1
    workloads: tuple[str, ...] = ()
    brings: tuple[str, ...] = ()
    nemeses: tuple[str, ...] = ()
    core: tuple[str, ...] = ()
    kinds_max: int = KINDS_MAX
    nodes: tuple[int, ...] = ()
    settings: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict[str, tuple[int, ...]])
    worlds: tuple[str, ...] = (WORLD,)
    recovers_fast: bool = False
    concurrency: tuple[str, ...] = CONCURRENCY
    rates_hz: tuple[float, ...] = RATES_HZ
    time_limits_s: tuple[float, ...] = TIME_LIMITS_S
    intervals_s: tuple[float, ...] = INTERVALS_S
    op_timeouts_s: tuple[float, ...] = OP_TIMEOUTS_S
    bursts: tuple[int, ...] = BURSTS[:1]
    overlaps: tuple[float, ...] = OVERLAPS[:1]


OPEN: Final = Theme(name="open", bursts=(1, 1, 1, 1, 1, *BURSTS[1:]), overlaps=(OVERLAP, OVERLAP, *OVERLAPS))
"""Everything that was asked for."""

ELECTIONS: Final = Theme(
    name="elections",
    workloads=("register", "read-modes", "set", "records", "create-once", "lock"),
    nemeses=(
        *("kill-leader", "kill-minority", "kill-primaries", "pause-leader", "pause-primaries", "bounce-election"),
        *("partition-leader", "partition-minority-leader", "partition-mute-leader", "partition-halves"),
        *("power-leader", "transfer-often", "restart-rolling"),
    ),
    settings={"election-ms": (150, 300, 600), "heartbeat-ms": (25, 50)},
    worlds=("lan",),
    recovers_fast=True,
    concurrency=("3n", "5n", "10n", "20n"),
    rates_hz=(100.0, 200.0),
    time_limits_s=(12.0, 20.0, 30.0),
    intervals_s=(0.5, 1.0, 2.0),
    op_timeouts_s=(2.0, 5.0, 5.0),
)

DURABILITY: Final = Theme(
    name="durability",
    workloads=("set", "records", "register", "counter", "declare"),
    nemeses=(
        *("power", "power-one", "power-minority", "power-majority", "power-all", "power-leader", "bounce"),
        *("kill-majority", "kill-all", "restart-at-once", "restart-any-order", "restart-in-good-order"),
    ),
    settings={"snapshot-interval": (4, 64, 512), "checkpoint-interval": (0, 4, 4), "wal-bytes": (500, 1_000, 20_000)},
    concurrency=("2n", "3n", "10n"),
    rates_hz=(50.0, 100.0, 200.0),
    time_limits_s=(20.0, 30.0, 60.0),
    intervals_s=(1.0, 2.0, 4.0),
)

FAILING_DISKS: Final = Theme(
    name="failing-disks",
    weight=2,
    workloads=("set", "records", "register", "counter", "declare"),
    nemeses=(
        *("disk", "disk-full", "disk-sync", "disk-fails", "disk-rot"),
        *("power-one", "power-minority", "power-leader", "kill-one", "kill-minority", "kill-leader", "bounce"),
    ),
    kinds_max=2,
    core=("disk", "disk", "disk-full", "disk-sync"),
    settings={"snapshot-interval": (64, 512, 16_384)},
    worlds=("lan", WORLD),
    concurrency=("2n", "3n", "10n"),
    rates_hz=(50.0, 100.0, 200.0),
    time_limits_s=(20.0, 30.0),
    intervals_s=(1.0, 2.0),
    overlaps=OVERLAPS[:2],
)
"""Disks that are full or fail a sync, and nodes that restart on them: only a start shows what is not there."""

TWO_VERSIONS: Final = Theme(
    name="two-versions",
    nemeses=(
        *("upgrade", "kill-one", "kill-leader", "power-leader", "partition-one", "partition-leader", "pause-one"),
        *("transfer-often", "membership", "membership-replace", "groups"),
    ),
    core=("upgrade",),
    kinds_max=2,
    settings={"snapshot-interval": (4, 16, 64), "checkpoint-interval": (4, 32)},
    worlds=("lan", "lan", WORLD),
    rates_hz=(50.0, 100.0),
    time_limits_s=(20.0, 30.0),
    intervals_s=(1.0, 2.0, 4.0),
    overlaps=OVERLAPS[1:],
)
"""Nodes of which some understand a later version of the state machine, while something else goes wrong."""

SLOW_NETWORKS: Final = Theme(
    name="slow-networks",
    nemeses=(
        *("packet", "packet-loss", "packet-duplicate", "packet-reorder", "packet-delay", "packet-flaky", "clog"),
        *("clog-in", "clog-out", "partition-one-way", "partition-ring", "partition-leader", "transfer"),
    ),
    settings={"max-batch": (1, 16, 128), "max-pipeline": (64, 4_096)},
    worlds=("wan", "globe", "late", WORLD),
    concurrency=("2n", "3n", "5n", "10n"),
    rates_hz=(20.0, 50.0, 100.0),
    time_limits_s=(30.0, 60.0),
    intervals_s=(2.0, 4.0, 8.0),
    op_timeouts_s=(2.0, 5.0),
)

LONG_TAILS: Final = Theme(
    name="long-tails",
    nemeses=(
        *("partition-leader", "partition-minority-leader", "partition-mute-leader", "pause-leader", "kill-leader"),
        *("clog-out", "disk-slow", "power-leader"),
    ),
    settings={"max-batch": (1, 16), "apply-slice": (1, 16), "max-pipeline": (64, 4_096)},
    worlds=("lan", "slow-disks", WORLD),
    concurrency=("10n", "20n", "30n"),
    rates_hz=(100.0, 200.0),
    time_limits_s=(20.0, 30.0),
    intervals_s=(2.0, 4.0),
    op_timeouts_s=(2.0, 5.0, 5.0),
    bursts=(1, 1, 50),
)

READS: Final = Theme(
    name="reads",
    weight=2,
    workloads=("read-modes", "register"),
    nemeses=(
        *("pause", "pause-leader", "pause-minority", "pause-majority", "pause-all", "partition", "partition-leader"),
        *("partition-minority-leader", "partition-mute-leader", "partition-one-way", "clock-drift", "transfer-often"),
        "packet-delay",
    ),
    settings={"lease-reads": (0, 1, 1), "apply-slice": (1, 512)},
    worlds=("slow-cpu", WORLD, WORLD),
    concurrency=("2n", "3n", "5n", "10n"),
    rates_hz=(100.0, 200.0),
    time_limits_s=(20.0, 30.0, 60.0),
    intervals_s=(1.0, 2.0, 4.0),
)

CATCHING_UP: Final = Theme(
    name="catching-up",
    nemeses=(
        *("partition-one", "partition-one-way", "kill-one", "kill-follower", "kill-minority", "pause-follower"),
        *("pause-minority", "power-minority", "power-follower", "membership-replace"),
    ),
    settings={
        "max-pipeline": (2, 64),
        "max-batch": (1, 16),
        "chunk-bytes": (2_000, 16_000),
        "snapshot-interval": (16, 64, 512),
        "apply-slice": (1, 16, 512),
    },
    worlds=("lan",),
    concurrency=("2n", "3n", "10n"),
    rates_hz=(100.0, 200.0),
    time_limits_s=(30.0, 60.0),
    intervals_s=(4.0, 8.0),
)

CROWDS: Final = Theme(
    name="crowds",
    nemeses=(
        *("partition-leader", "partition-minority-leader", "pause-leader", "pause-one", "kill-leader", "kill-one"),
        *("power-leader", "transfer-often", "clog-out", "disk-slow", "packet-delay"),
    ),
    settings={
        "max-pending": (128, 4_096),
        "max-pipeline": (64, 4_096),
        "max-batch": (1, 16, 128),
        "apply-slice": (1, 16, 512),
        "repeat-window": (64, 8_192),
    },
    worlds=("lan", "slow-cpu", WORLD),
    concurrency=("10n", "20n", "30n"),
    rates_hz=(100.0, 200.0),
    time_limits_s=(20.0, 30.0),
    intervals_s=(2.0, 4.0),
    op_timeouts_s=(2.0, 5.0, 5.0),
    bursts=BURSTS[1:],
)
"""Clients that all want something at once, and then nothing for a while."""

CLIENT_LINKS: Final = Theme(
    name="client-links",
    workloads=("list-append",),
    nemeses=(
        *("clients", "clients-repeat", "clients-late", "clients-flaky", "clients-loss", "partition-clients"),
        *("kill-leader", "transfer-often"),
    ),
    core=("clients-repeat", "clients-repeat", "clients", "clients-late"),
    settings={"repeat-window": (64,), "snapshot-interval": (16, 64, 512)},
    worlds=("lan", "lan", WORLD),
    concurrency=("1n", "1n", "2n", "3n"),
    rates_hz=(200.0,),
    time_limits_s=(20.0, 30.0),
    intervals_s=(2.0, 4.0),
    op_timeouts_s=(1.0, 2.0),
)
"""Requests that come twice or late: so few clients, and so small a window, that each gets far beyond its window.

What is carried out twice shows in lists: a counter's commands have refs, and a register that is written twice at once
is as it was.
"""

CHANGING_MEMBERS: Final = Theme(
    name="changing-members",
    weight=2,
    nemeses=(
        *("membership-learner", "membership-replace", "membership-leave"),
        *("kill-all", "kill-minority", "kill-leader", "power-all", "power-leader", "pause-leader", "bounce-election"),
        *("partition-leader", "partition-minority-leader", "transfer-often", "restart-at-once", "restart-any-order"),
    ),
    core=("membership-learner", "membership-learner", "membership-replace", "membership-leave"),
    kinds_max=2,
    nodes=(3, 4),
    settings={
        "learners-first": (0, 1),
        "checkpoint-interval": (4, 4, 32),
        "snapshot-interval": (64, 16_384, 16_384),
        "wal-bytes": (1_000, 20_000),
    },
    worlds=("lan", "lan", WORLD),
    concurrency=("1n", "2n", "3n", "10n"),
    rates_hz=(100.0,),
    time_limits_s=(20.0, 30.0),
    intervals_s=(1.0, 2.0),
    overlaps=OVERLAPS[1:],
)
"""Elections while a member must not vote, in clusters so small that its vote would decide; and members with nothing on
their disks, fed by leaders that went on from checkpoints which are thinned out since.
"""

HANDING_OVER: Final = Theme(
    name="handing-over",
    weight=2,
    workloads=("counter", "read-modes"),
    nemeses=(
        *("transfer-often", "kill-leader", "partition-leader", "pause-follower", "kill-follower"),
        *("bounce-at-moments", "bounce-at-moments-kill", "packet-loss"),
    ),
    core=("transfer-often",),
    kinds_max=3,
    settings={"snapshot-interval": (64, 512), "apply-slice": (1, 512)},
    worlds=("lan", "lan", WORLD),
    concurrency=("2n", "3n", "5n", "10n"),
    rates_hz=(100.0, 200.0),
    time_limits_s=(20.0, 30.0),
    intervals_s=(1.0, 2.0),
    op_timeouts_s=(2.0, 5.0),
    overlaps=OVERLAPS[1:],
)
"""Leaders that are asked for nothing worse than to let another member lead: what is under way is refused, and done
again, and its answers come from two leaders.
"""

BARE_MAJORITIES: Final = Theme(
    name="bare-majorities",
    weight=2,
    workloads=("register", "set", "records", "counter", "create-once", "declare"),
    nemeses=(
        *("kill-minority", "pause-minority", "power-minority", "kill-follower", "pause-follower", "membership-leave"),
        *("partition-leader", "partition-minority-leader", "partition-mute-leader", "pause-leader"),
    ),
    kinds_max=2,
    core=("partition-leader", "partition-minority-leader", "partition-mute-leader", "pause-leader"),
    nodes=(3, 4),
    settings={"snapshot-interval": (16, 64, 512)},
    worlds=("lan", "lan", WORLD),
    concurrency=("3n", "5n", "10n"),
    rates_hz=(50.0,),
    time_limits_s=(60.0,),
    intervals_s=(8.0,),
    op_timeouts_s=(2.0,),
    overlaps=OVERLAPS[2:],
)
"""A leader is cut off and comes back while no other majority is there than one with it: who can be elected is one."""

FORMER_GROUPS: Final = Theme(
    name="former-groups",
    weight=2,
    nemeses=(
        *("groups", "groups-all", "groups-some", "pause-one", "pause-minority", "kill-one", "kill-minority"),
        *("power-minority", "partition-one", "clog-out"),
    ),
    kinds_max=2,
    core=("groups", "groups-all", "groups-some"),
    worlds=("lan", WORLD),
    concurrency=("1n", "2n"),
    rates_hz=(100.0,),
    time_limits_s=(30.0,),
    intervals_s=(1.0, 2.0),
    overlaps=OVERLAPS[1:],
)
"""Nodes that are away while a group is made again, and speak for the former one when they are back."""

SHORT_LIVES: Final = Theme(
    name="short-lives",
    workloads=("counter", "register", "set", "records", "declare", "create-once"),
    nemeses=(
        *("bounce", "bounce-random", "bounce-at-moments", "bounce-at-moments-kill", "restart-at-once"),
        *("pause-leader", "packet-delay", "clog-out", "disk-slow", "partition-leader"),
    ),
    kinds_max=3,
    core=("bounce", "bounce-random", "bounce-at-moments", "bounce-at-moments-kill"),
    worlds=("slow-disks", "wan", "globe"),
    concurrency=("5n", "10n", "20n"),
    rates_hz=(200.0,),
    time_limits_s=(20.0, 30.0),
    intervals_s=(2.0, 4.0),
    op_timeouts_s=(5.0,),
    bursts=(1, 10, 50),
    overlaps=OVERLAPS[1:],
)
"""Nodes that restart while answers to what they asked in their former lives are still on their way."""

SLOW_ELECTIONS: Final = Theme(
    name="slow-elections",
    weight=2,
    workloads=("register", "read-modes", "set", "records"),
    nemeses=(
        *("kill-leader", "pause-leader", "power-leader", "partition-leader", "partition-minority-leader"),
        *("transfer-often", "packet-delay", "packet-reorder", "disk-slow"),
    ),
    kinds_max=3,
    worlds=("slow-disks", "slow-disks", "globe", "late"),
    concurrency=("3n", "5n", "10n"),
    rates_hz=(50.0, 100.0),
    time_limits_s=(30.0, 60.0),
    intervals_s=(4.0, 8.0),
    op_timeouts_s=(5.0,),
    overlaps=OVERLAPS[:2],
)
"""Votes that take as long as an election may: some come when their candidate stands in a later term."""

TWO_VIEWS_OF_MEMBERS: Final = Theme(
    name="two-views-of-members",
    weight=2,
    workloads=("register", "set", "records", "counter", "read-modes"),
    nemeses=(
        "membership-rash",
        *("partition-halves", "partition-leader", "partition-minority-leader", "partition-mute-leader"),
    ),
    core=("membership-rash",),
    kinds_max=2,
    nodes=(4,),
    settings={"learners-first": (0, 0, 1), "snapshot-interval": (16, 64, 16_384)},
    worlds=("lan",),
    recovers_fast=True,
    concurrency=("2n", "3n"),
    rates_hz=(50.0,),
    time_limits_s=(60.0,),
    intervals_s=(1.0,),
)
"""Two parts of a cluster that have changes of members in their logs of which the other part knows nothing: a leader
that is cut off is asked for some before it steps down, and another one before it has committed anything.
"""

QUEUES_AND_STREAMS: Final = Theme(
    name="queues-and-streams",
    weight=2,
    brings=("dead-letter", "stream"),
    nemeses=(
        *("kill-one", "kill-minority", "kill-all", "pause-one", "pause-minority", "power-one", "power-all"),
        *("partition-one", "partition-halves", "partition-one-way", "restart-rolling"),
    ),
    kinds_max=2,
    settings={"snapshot-interval": (16, 64, 512)},
    worlds=("lan",),
    concurrency=("2n", "3n"),
    rates_hz=(50.0, 100.0),
    time_limits_s=(30.0, 60.0),
    intervals_s=(4.0, 8.0),
    op_timeouts_s=(2.0, 5.0),
)
"""Messages that come back, expire or are dropped: workloads that need members that stay, some calm, and quick syncs."""

CALM_FEATURES: Final = Theme(
    name="calm-features",
    weight=2,
    brings=("flags", "single-active", "conversion", "replicas"),
    nemeses=(
        *("kill-one", "kill-minority", "pause-one", "pause-minority", "power-one", "partition-one"),
        *("partition-halves", "partition-leader", "restart-rolling"),
    ),
    kinds_max=2,
    settings={"snapshot-interval": (16, 64, 512)},
    worlds=("lan",),
    concurrency=("2n", "3n"),
    rates_hz=(50.0, 100.0),
    time_limits_s=(60.0,),
    intervals_s=(8.0,),
    op_timeouts_s=(2.0, 5.0),
)
"""Features of brokers that few ops ask for, of which each takes a while and needs its members: one fault at a time."""

STARTING_SLOWLY: Final = Theme(
    name="starting-slowly",
    workloads=("tree", "register", "read-modes"),
    nemeses=("kill-all", "kill-leader", "restart-at-once", "power-all", "partition-leader"),
    kinds_max=2,
    core=("kill-all",),
    nodes=(3,),
    settings={"apply-slice": (1,), "max-batch": (16, 128)},
    worlds=("slow-cpu",),
    concurrency=("1n", "3n"),
    rates_hz=(100.0, 200.0),
    time_limits_s=(12.0, 20.0),
    intervals_s=(1.0, 2.0),
    op_timeouts_s=(5.0,),
    overlaps=(SELDOM,),
)
"""Nodes that lead, and are asked, before they have applied what was committed in their former lives."""

QUIET_CHANGES: Final = Theme(
    name="quiet-changes",
    weight=2,
    workloads=("register", "set", "records", "read-modes", "counter"),
    nemeses=("membership-leave", "membership-replace", "membership-learner", "kill-one", "pause-one"),
    kinds_max=2,
    core=("membership-leave", "membership-leave", "membership-replace", "membership-learner"),
    nodes=(3, 4),
    settings={"snapshot-interval": (1, 1, 16), "learners-first": (0, 1, 1, 1), "chunk-bytes": (100, 2_000, 100_000)},
    worlds=("lan", "lan", WORLD),
    concurrency=("1n", "2n"),
    rates_hz=(20.0,),
    time_limits_s=(60.0,),
    intervals_s=(8.0,),
    op_timeouts_s=(2.0,),
    overlaps=OVERLAPS[:2],
)
"""Members that come and go while clients ask seldom: nothing that is sent for another reason helps them on."""

CUT_METADATA: Final = Theme(
    name="cut-metadata",
    workloads=("topology",),
    nemeses=("partition-one-way", "partition-ring", "partition-one", "partition-halves", "kill-one"),
    kinds_max=2,
    core=("partition-one-way", "partition-ring"),
    nodes=(3, 5),
    concurrency=("2n", "3n"),
    rates_hz=(100.0,),
    time_limits_s=(20.0, 30.0),
    intervals_s=(2.0, 4.0),
    op_timeouts_s=(2.0, 5.0),
)
"""Nodes that take another one for down that the rest sees, while it serves what lives as long as it does."""

THEMES: Final = (
    *(ELECTIONS, DURABILITY, FAILING_DISKS, TWO_VERSIONS, SLOW_NETWORKS, LONG_TAILS, READS, CATCHING_UP),
    *(CROWDS, CLIENT_LINKS),
    *(CHANGING_MEMBERS, HANDING_OVER, BARE_MAJORITIES, FORMER_GROUPS, SHORT_LIVES, SLOW_ELECTIONS),
    *(TWO_VIEWS_OF_MEMBERS, QUEUES_AND_STREAMS),
    *(STARTING_SLOWLY, QUIET_CHANGES, CUT_METADATA, CALM_FEATURES),
)
