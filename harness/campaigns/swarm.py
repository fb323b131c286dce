"""A seed's whole test, drawn from the seed within what was asked for.

Swarm testing (Groce, Zhang, Eide, Chen and Regehr, ISSTA 2012): many tests that each leave out different features find
more than one test that has them all, because features hide each other. A cluster whose nodes are all down needs no
partition to stand still. So each seed draws a few kinds of fault, not all, and everything else besides: the number of
nodes and clients, the load, how long it lasts, how often something breaks (TigerBeetle's simulator draws so too).

What was asked for is fixed and takes no draw away: with `--rate 50` a seed draws the same nodes and faults as without.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from splitbrain.harness.backends import catalogue as backends
from splitbrain.harness.campaigns import overlaps, spread
from splitbrain.harness.campaigns.calm import calm_s
from splitbrain.harness.campaigns.compose import RunOptions, client_count, compose
from splitbrain.harness.campaigns.costs import OPS_MOST, OWN_LOGS, affordable_nodes, affordable_ops
from splitbrain.harness.campaigns.judges import OWN_LOGS_PACES, can_be_judged
from splitbrain.harness.campaigns.loads import (
    affordable,
    audible,
    beside_core,
    burst,
    drawn,
    kinds_at_most,
    patient,
)
from splitbrain.harness.campaigns.sharing import most_shared, sharing
from splitbrain.harness.campaigns.themes import OPEN, THEMES, WORLD, Theme
from splitbrain.harness.contract.faultkinds import supported
from splitbrain.harness.contract.listed import names, number
from splitbrain.harness.contract.rng import Rng, Streams
from splitbrain.harness.simulation import worlds
from splitbrain.harness.systems import catalogue as systems
from splitbrain.harness.systems.strategies import heals_by_clients
from splitbrain.nemesis.catalogue import UNFAIR, entry, names_for
from splitbrain.results.errors import UsageError
from splitbrain.workloads.catalogue import able, build, by_models, needs
from splitbrain.workloads.catalogue import check as check_workload

NODES: Final = (3, 4, 5, 6, 7)
"""Even numbers too: with them a majority is not what it is with the odd number below."""

THEMED: Final = 0.6
"""The share of seeds that draw from a theme, where a single workload was asked for."""

MORE_OPERATIONS: Final = frozenset({"transactions", "predicates", "trees", "topology", "projections"})
GROWING: Final = frozenset({"counter"})
"""Workloads that ask for more where the system has it."""

OF_THE_LATEST: Final = MORE_OPERATIONS | {
    "queues",
    "classic-queues",
    "expiring-queues",
    "limited-queues",
    "maintained-replicas",
    "short-streams",
    "single-active",
    "streams",
}
"""Operations that a cluster has none of until all its nodes are upgraded."""

ASKED_FOR: Final = frozenset(
    {"conversion", "dead-letter", "single-active", "flags", "migration", "replicas", "stream", "short-stream"}
)
"""Workloads that are drawn only if they are asked for, or by a theme that brings them: most draws leave them no calm in
which they could show a change of the consumer; no flag is enabled while a node is down; and streams are not known to
bear members that come and go. No theme brings `migration`, which loses under partitions what the tables lose.
"""

MORE_SHARE: Final = 1 / 3
"""The share of tests whose workload needs such operations. There are as many of these workloads as of all others, and
most bugs of a consensus show in single values, of which a test can do more.
"""

PATIENT: Final = 1 / 3
"""One test in three of those without a theme has a single kind of fault, each in force for long: only then does it show
who never recovers.
"""

SYNCING: Final = OWN_LOGS
"""Workloads that wait for many syncs of one disk: each queue elects a leader of its own, and a client of a stream that
lost its writer writes to the log of the cluster before each next op. Where one sync takes as long as an election may,
as on slow disks, queues have no leader for long, and ops of streams wait behind each other until all time out.
"""

SLOW: Final = frozenset({"slow-disks", "late"})
"""Worlds that are drawn for none of them. In `late` a message may come back to its queue half a minute after its taker
has gone, and few questions in a row are all answered: most tests would not find their queues empty in the end.
"""

SYNCING_PACE_S: Final = 0.4
"""The longest that an op may take on average in the worlds that are drawn for them."""

QUICK: Final = "lan"
"""The world that comes in place of one in which it takes longer."""

PACES_TO_ELECT: Final = 4.0
"""So many ops, one after the other, fit into an election timeout where leaders can be elected: an election takes as
many messages and syncs as an op, and Raft wants timeouts far above that (Ongaro and Ousterhout, USENIX ATC 2014, 5.6).
"""

VARIANTS: Final[Mapping[str, str]] = {"stream": "short-stream"}
"""Workloads in whose place, if the system can, another one comes in some tests: it differs in what is kept alone."""

VARIED: Final = 1 / 2
"""The share of these tests."""

REPLACING: Final = frozenset({"replicas"})
"""Workloads in which a replica has to be replaced: a node is away for long, and another one without a replica runs."""

AWAY: Final = frozenset({"queue", "single-active"})
"""Workloads in which a node must be away for longer than the others need to notice, while its clients have something.
"""

AWAY_PATIENT: Final = 0.6
"""The share of their tests with a single kind of fault that lasts, among those of no theme, in a hunt for one workload.
"""

REPLACING_NODES: Final = 4
"""The fewest nodes of their tests, if there may be so many."""

REPLACING_PATIENT: Final = 0.8
"""The share of their tests with a single kind of fault that lasts, among those of no theme. Where only such workloads
were asked for, no test has a theme; in the tests of a theme that brings them each fault lasts.
"""

SELDOM: Final = "moment"
"""A kind of fault that is drawn only if it is asked for: most moments do not come while nothing else happens to nodes.
`bounce-at-moments`, which stops nodes first, is drawn.
"""

ROLES: Final = ("-queue-leader", "-store-leader")
"""Ends of names that are drawn only if they are asked for: most workloads have no queues, and so no such leaders."""

LASTING: Final = ("partition-one-way", "partition", "kill", "pause")
"""The faults of a patient test: faults whose targets are certain."""

UNEVEN: Final = 0.5
"""The share of tests in which some nodes have more clients than others, where that decides which partition wins (MN-7).
With as many clients on each node, the partition with the most of them is always that with the most nodes."""

RECOVERY_S: Final = 20.0

NAMES_CHARS_MAX: Final = 80
"""The names of a test's nemeses are part of its folder's name."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a hunt draws from. None: drawn; a value: fixed, and with the meaning that it has for `splitbrain run`.

    Attributes:
        workloads: one of them.
        more: drawn only by themes that bring them.
        nemeses: some of them; no faults if there is only "none".
        nodes: one of these numbers.
        world: as for `splitbrain run`; "swarm" is drawn itself.
        bug: switched on in every test.
        settings: the same in every test.
        consistency_model: the models by which transactions are judged, separated by commas; empty for what the system
            promises.
    """

    workloads: tuple[str, ...]
    more: tuple[str, ...] = ()
    nemeses: tuple[str, ...]
    system: str = "metadata"
    bug: str = ""
    settings: str | None = None
    consistency_model: str = ""
    nodes: tuple[int, ...] = NODES
    world: str = WORLD
    concurrency: str | None = None
    rate: float | None = None
    burst: int | None = None
    sharing: int | None = None
    time_limit: float | None = None
    interval: float | None = None
    overlap: float | None = None
    op_timeout: float | None = None
    recovery: float = RECOVERY_S


def asked_for(
    *,
    workload: str | None,
    nemesis: str | None,
    nodes: str | None,
    system: str,
    bug: str,
    world: str,
    consistency_model: str = "",
    **fixed: object,
) -> Asked:
    """What the options of a command ask for; None stands for everything there is.

    Raises:
        UsageError: there is no such thing, or nothing can be drawn from what is asked for.
    """
    there = _judged(system)
    shared = fixed.get("sharing") or 0
    if isinstance(shared, int) and shared > 0 and workload is None:
        there = tuple(name for name in there if most_shared(name, system) >= shared) or there
    every = tuple(name for name in there if name not in ASKED_FOR)
    brought = {name for theme in THEMES for name in theme.brings}
    more = () if workload is not None or consistency_model else tuple(name for name in there if name in brought)
    asked = msgspec.convert(
        {
            "workloads": names("--workload", workload)
            if workload is not None
            else by_models(every)
            if consistency_model
            else every,
            "more": more,
            "consistency_model": consistency_model,
            "nemeses": _fair(system) if nemesis is None else names("--nemesis", nemesis),
            "nodes": NODES if nodes is None else _counts(nodes),
            "system": system,
            "bug": bug,
            "world": world,
            **fixed,
        },
        Asked,
    )
    if nemesis is not None:
        _refuse_too_large(asked)
    check(asked)
    if nodes is not None:
        _refuse_too_few(asked)
    return asked


def _judged(system: str) -> tuple[str, ...]:
    """The workloads that a system of that name can carry out, without those that no checker judges there."""
    capabilities, operations = systems.build(system).capabilities, systems.operations(system)
    carried_out = able(operations)
    made = {name: build(name, nodes=("n1",), concurrency=1, operations=operations) for name in carried_out}
    return tuple(name for name in carried_out if can_be_judged(made[name], capabilities)) or carried_out


def _refuse_too_few(asked: Asked) -> None:
    """Refuse numbers of nodes that no seed would draw.

    Raises:
        UsageError: with one of them no requested nemesis is possible.
    """
    for count in asked.nodes:
        if count not in _node_counts(asked.nemeses, asked.nodes):
            raise UsageError(
                f"--nodes {count}: no nemesis of {','.join(asked.nemeses)} can run on so few nodes: remove it."
            )


def _refuse_too_large(asked: Asked) -> None:
    """Refuse nemeses that no seed would draw.

    Raises:
        UsageError: one of them needs more nodes than any test has.
    """
    for name in asked.nemeses:
        if name != "none" and entry(name).fewest_nodes > max(asked.nodes):
            raise UsageError(
                f"--nemesis {name}: it needs {entry(name).fewest_nodes} nodes, and every test has fewer: raise "
                "--nodes, or remove it."
            )


def possible(system: str) -> tuple[str, ...]:
    """The nemeses that can strike a system of that name in simulation."""
    return names_for(supported(backends.build("sim"), systems.build(system)))


def _fair(system: str) -> tuple[str, ...]:
    """The default nemeses of a hunt: all that a correct system of that name tolerates in simulation."""
    return tuple(
        name
        for name in possible(system)
        if name not in UNFAIR and entry(name).kind.name != SELDOM and not name.endswith(ROLES)
    )


def check(asked: Asked) -> None:
    """Refuse a request from which nothing can be drawn.

    Raises:
        UsageError: it names what does not exist or cannot be.
    """
    if not asked.workloads:
        raise UsageError("--workload is empty: give some of splitbrain list workloads, or remove it.")
    for workload in asked.workloads:
        check_workload(workload)
    if not asked.nemeses:
        raise UsageError("--nemesis is empty: give some of splitbrain list nemeses, or remove it.")
    for nemesis in asked.nemeses:
        if nemesis == "none" and len(asked.nemeses) > 1:
            raise UsageError(f"--nemesis {','.join(asked.nemeses)}: none means no faults: give it alone.")
        if nemesis != "none":
            entry(nemesis)
    if not _node_counts(asked.nemeses, asked.nodes):
        raise UsageError(
            f"--nodes {','.join(map(str, asked.nodes))}: no nemesis of {','.join(asked.nemeses)} can run on so few "
            f"nodes: raise --nodes."
        )
    _compose_all(asked)


def _compose_all(asked: Asked) -> None:
    """Compose a test with each thing that was asked for, so that none is found wrong in the middle of a hunt.

    Raises:
        UsageError: no test can be composed with one of them.
    """
    first = draw(0, asked)
    counts = _node_counts(asked.nemeses, asked.nodes)
    compose(first)
    for workload in (*asked.workloads, *asked.more):
        compose(msgspec.structs.replace(first, workload=workload))
    for nemesis in asked.nemeses:
        if nemesis == "none" or entry(nemesis).fewest_nodes <= max(counts):
            compose(msgspec.structs.replace(first, nemesis=nemesis, nodes=str(max(counts))))
    for count in counts:
        client_count(first.concurrency, count)


def draw(seed: int, asked: Asked) -> RunOptions:
    """The test of a seed: a function of both, which `splitbrain run` repeats."""
    rng = Streams(seed)["swarm"]
    theme = theme_of(seed, asked)
    workload = _workload(rng, _favoured(theme.workloads, asked.workloads))
    place = _place(seed, asked)
    if place is not None:
        workload = place.workload
    nemeses = _bearable(_favoured(theme.nemeses, asked.nemeses), workload)
    counts = _spare(workload, _favoured_counts(theme, _node_counts(nemeses, asked.nodes)))
    if not _asks_for_one(asked):
        counts = affordable_nodes(workload, counts)
    nodes = rng.choice(counts)
    world = _world(seed, theme, workload, asked.system) if asked.world == WORLD else asked.world
    pace_s = _pace_s(world, seed)
    settings = _settings(seed, theme, asked)
    ops_most, cheap = math.inf, math.inf
    if not _asks_for_one(asked):
        ops_most, cheap = OPS_MOST, affordable_ops(workload, nodes, settings)
    some = audible(beside_core(nemeses, theme, pace_s, ops_most), cheap)
    nemesis = _faults(rng, some, nodes, theme, min(theme.kinds_max, kinds_at_most(pace_s)))
    nemesis = affordable(nemesis, theme, pace_s, ops_most)
    overlap = overlap_of(seed, theme)
    nodes = overlaps.nodes_of(nodes, overlap, nemesis, counts)
    recovery_s = _recovery_s(asked.system) + (OWN_LOGS_PACES * pace_s if workload in SYNCING else 0.0)
    load = drawn(rng, theme, workload, nemesis, nodes, asked.time_limit, pace_s, recovery_s, ops_most, cheap)
    lasting = [name for name in LASTING if name in asked.nemeses and entry(name).fewest_nodes <= nodes]
    is_patient = rng.random() < _patient_share(workload, theme, asked)
    if is_patient and lasting:
        nemesis, load = [rng.choice(lasting)], patient(load, asked.time_limit)
    rate_hz, interval_s = _given(asked.rate, load.rate_hz), _given(asked.interval, load.interval_s)
    clients = asked.concurrency
    if clients is None:
        clients = _clients_of(seed, asked.system, settings, nodes) or load.concurrency
    # Apart from all other draws, as settings are.
    at_once = burst(Streams(seed)["bursts"], theme, nemesis, rate_hz, interval_s, client_count(load.concurrency, nodes))
    options = RunOptions(
        workload=_variant(seed, workload, asked),
        nemesis=",".join(nemesis),
        system=asked.system,
        backend="sim",
        bug=asked.bug,
        nodes=str(nodes),
        concurrency=clients,
        rate=rate_hz,
        burst=at_once if asked.burst is None else asked.burst,
        sharing=sharing(seed, workload, asked.system) if asked.sharing is None else asked.sharing,
        time_limit=load.time_limit_s,
        interval=interval_s,
        overlap=_given(asked.overlap, overlaps.bearable(overlap, workload, nemesis, nodes)),
        op_timeout=_given(asked.op_timeout, load.op_timeout_s),
        recovery=asked.recovery,
        seed=seed,
        world=world,
        settings=settings,
        consistency_model=asked.consistency_model,
    )
    return options if asked.time_limit is not None else _with_calm(options)


def _patient_share(workload: str, theme: Theme, asked: Asked) -> float:
    if theme is not OPEN:
        return float(workload in REPLACING & set(theme.brings))
    if workload in REPLACING:
        return REPLACING_PATIENT
    return AWAY_PATIENT if workload in AWAY and _asks_for_one(asked) else PATIENT


def _variant(seed: int, workload: str, asked: Asked) -> str:
    """The workload, or in some tests its variant; apart from all other draws, which are those of the workload."""
    other = VARIANTS.get(workload)
    if other is None or other not in able(systems.operations(asked.system)):
        return workload
    return other if Streams(seed)["variant"].random() < VARIED else workload


def _spare(workload: str, counts: Sequence[int]) -> Sequence[int]:
    """The numbers of nodes with one that a replica can be replaced on, if the workload needs that and there are any."""
    return [each for each in counts if each >= REPLACING_NODES or workload not in REPLACING] or counts


def _world(seed: int, theme: Theme, workload: str, system: str) -> str:
    """A world of the theme; apart from all other draws.

    None that is slow for workloads that wait for many syncs, nor one in which the system may elect no leader.
    """
    drawn = Streams(seed)["world of the test"].choice(theme.worlds)
    slowest_s = _slowest_s(system)
    if workload in SYNCING:
        slowest_s = min(slowest_s, SYNCING_PACE_S)
        drawn = WORLD if drawn in SLOW else drawn
    return drawn if _pace_s(drawn, seed) <= slowest_s else QUICK


def _slowest_s(system: str) -> float:
    """The longest that an op may take on average in the worlds of a system of that name, in seconds."""
    made = systems.build(system)
    return math.inf if made.capabilities.slow_worlds else made.election_timeout_s / PACES_TO_ELECT


def _pace_s(world: str, seed: int) -> float:
    """How long an op takes in a world of that name, in seconds."""
    return worlds.pace_s_of(worlds.world(worlds.pinned(world, seed), Streams(seed)["world"]))


def overlap_of(seed: int, theme: Theme) -> float:
    """How likely a second fault begins before the first is healed; apart from all other draws, as settings are."""
    return Streams(seed)["overlap"].choice(theme.overlaps)


def _recovery_s(system: str) -> float:
    """How long a system may answer nothing after a fault's begin or end; infinite for one without elections."""
    elections = systems.build(system).capabilities.elections
    return math.inf if elections is None else elections.bound_s


def _with_calm(options: RunOptions) -> RunOptions:
    """The test, so much longer that its faults last as long as they would without a calm end."""
    declared = systems.build(options.system).capabilities
    if declared.elections is None or options.interval is None or options.nemesis == "none":
        return options
    if declared.telemetry_checkers is not None:  # there is telemetry: to compose each test would tell no more
        return options
    more_s = math.ceil(calm_s(compose(options), options.interval))
    return msgspec.structs.replace(options, time_limit=options.time_limit + more_s) if more_s else options


def _given(given: float | None, drawn: float) -> float:
    return drawn if given is None else given


def _clients_of(seed: int, system: str, settings: str, nodes: int) -> str | None:
    """Clients of which some nodes have more than others, where that decides something, in some tests; else None.

    Apart from all other draws, as settings are. Clients take the nodes in turn: of half as many as there are nodes, or
    of one and a half for each node, the first half of the nodes has more than the rest.
    """
    rng = Streams(seed)["uneven clients"]
    known = systems.build(system).capabilities.settings
    if not heals_by_clients(settings, known, system) or rng.random() >= UNEVEN:
        return None
    return str(rng.choice((max(1, nodes // 2), nodes + nodes // 2)))


def _settings(seed: int, theme: Theme, asked: Asked) -> str:
    """Some of the system's settings, drawn; apart from all other draws, so that a new setting changes none of them.

    Those of the theme, and some of the others: how many is drawn too, so that some tests run with the defaults.
    """
    if asked.settings is not None:
        return asked.settings
    rng = Streams(seed)["settings"]
    known = systems.build(asked.system).capabilities.settings
    varied = {name: setting.drawn for name, setting in sorted(known.items()) if setting.drawn}
    some = rng.sample(list(varied), rng.between(0, len(varied)))
    chosen = {name: varied[name] for name in some}
    chosen |= {name: favoured for name, favoured in theme.settings.items() if name in known}
    values = {name: rng.choice(chosen[name]) for name in sorted(chosen)}
    return ",".join(
        f"{name}={known[name].text(value)}" for name, value in values.items() if value != known[name].default
    )


# --- themes -----------------------------------------------------------------------------------------------------------


def theme_of(seed: int, asked: Asked) -> Theme:
    """The theme of a seed: one of which something was asked for, or the open draw."""
    place = _place(seed, asked)
    if place is not None:
        return next((theme for theme in THEMES if theme.name == place.theme), OPEN)
    if REPLACING.issuperset(asked.workloads):
        return OPEN
    rng = Streams(seed)["theme"]
    able = [theme for theme in THEMES if _concerns(theme, asked) for _ in range(theme.weight)]
    themed = rng.random() < THEMED
    return rng.choice(able) if themed and able else OPEN


def _asks_for_one(asked: Asked) -> bool:
    return len(asked.workloads) == 1


def _place(seed: int, asked: Asked) -> spread.Place | None:
    """What a seed has in its round; None if there is one workload only, and each seed draws its theme by itself."""
    if _asks_for_one(asked):
        return None
    return spread.place(seed, *_spread(asked.workloads, asked.more, asked.nemeses, asked.nodes))


@lru_cache(maxsize=64)
def _spread(
    workloads: tuple[str, ...], more: tuple[str, ...], nemeses: tuple[str, ...], nodes: tuple[int, ...]
) -> tuple[tuple[spread.Part, ...], spread.Part, tuple[str, ...]]:
    """What is spread over the seeds of a request: its themes, the open draw, and the workloads that fill a round."""
    asked = Asked(workloads=workloads, more=more, nemeses=nemeses, nodes=nodes)
    parts = tuple(
        spread.Part(theme.name, theme.weight, own, _bearing(theme, own))
        for theme in THEMES
        if _concerns(theme, asked) and (own := _workloads_of(theme, asked))
    )
    single = tuple(name for name in workloads if not needs(name) & MORE_OPERATIONS)
    return parts, spread.Part(OPEN.name, 1, workloads), single


def _workloads_of(theme: Theme, asked: Asked) -> tuple[str, ...]:
    if theme.brings:
        return tuple(name for name in asked.more if name in theme.brings)
    return tuple(_favoured(theme.workloads, asked.workloads))


def _concerns(theme: Theme, asked: Asked) -> bool:
    wanted = [name for name in theme.nemeses if name in asked.nemeses]
    nemeses = [name for name in wanted if entry(name).fewest_nodes <= max(asked.nodes)]
    if theme.core and not set(theme.core) & set(nemeses):
        return False
    if not _bearing(theme, asked.workloads):
        return False
    return bool(
        nemeses
        and (not theme.workloads or set(theme.workloads) & set(asked.workloads))
        and (not theme.brings or set(theme.brings) & set(asked.more))
    )


def _favoured(favourites: Sequence[str], asked: Sequence[str]) -> list[str]:
    """What a theme favours of what was asked for; all that was if it favours nothing."""
    return [name for name in asked if name in favourites or not favourites]


def _bearable(nemeses: Sequence[str], workload: str) -> Sequence[str]:
    """Without the upgrade, until whose end a cluster has none of what the workload asks, if something else is left."""
    others = [name for name in nemeses if name == "none" or entry(name).kind.name != "upgrade"]
    return others if others and (needs(workload) & OF_THE_LATEST or workload in GROWING) else nemeses


def _bearing(theme: Theme, workloads: Sequence[str]) -> tuple[str, ...]:
    """The workloads that bear something of the theme's core; all if it has none."""
    core = set(theme.core)
    return tuple(name for name in workloads if not core or core & set(_bearable(theme.nemeses, name)))


def _workload(rng: Rng, able: Sequence[str]) -> str:
    """One of these workloads, seldom one that needs more of a system than single values."""
    more = [name for name in able if needs(name) & MORE_OPERATIONS]
    single = [name for name in able if name not in more]
    return rng.choice(more if not single or (more and rng.random() < MORE_SHARE) else single)


# --- faults ---------------------------------------------------------------------------------------------------------


def _faults(rng: Rng, asked: Sequence[str], nodes: int, theme: Theme, kinds_max: int) -> list[str]:
    """Draw some of the requested nemeses that are possible with this number of nodes; ["none"] if none is.

    Kinds are drawn first: a kind that has ten names is drawn no more often than one that has two. If there is a core,
    one of it is drawn, and at least one other kind if there is one.
    """
    by_kind: dict[str, list[str]] = {}
    for name in dict.fromkeys(asked):
        if name != "none" and entry(name).fewest_nodes <= nodes:
            by_kind.setdefault(entry(name).kind.name, []).append(name)
    if not by_kind:
        return ["none"]
    drawn: list[list[str]] = []
    core = [name for name in theme.core if name in by_kind.get(entry(name).kind.name, ())]
    if core:
        drawn.append([rng.choice(core)])
        del by_kind[entry(drawn[0][0]).kind.name]
        most = min(kinds_max - 1, len(by_kind))
        kinds = rng.sample(list(by_kind), rng.between(min(1, most), most))
    else:
        kinds = rng.sample(list(by_kind), rng.between(1, min(kinds_max, len(by_kind))))
    for kind in kinds:
        every_way = kind in by_kind[kind] and rng.random() < 0.5
        some = rng.sample(by_kind[kind], rng.between(1, min(2, len(by_kind[kind]))))
        drawn.append([kind] if every_way else some)
    return _short(drawn)


def _short(drawn: Sequence[Sequence[str]]) -> list[str]:
    """One name of each kind and then the others, as far as there is room."""
    first, others = [some[0] for some in drawn], [name for some in drawn for name in some[1:]]
    chosen: list[str] = []
    for name in [*first, *others]:
        if len("+".join([*chosen, name])) <= NAMES_CHARS_MAX or not chosen:
            chosen.append(name)
    return chosen


def _favoured_counts(theme: Theme, counts: Sequence[int]) -> Sequence[int]:
    """Those of the numbers of nodes that a theme favours; all if it favours none of them."""
    return [count for count in counts if count in theme.nodes] or counts


def _node_counts(nemeses: Sequence[str], counts: Sequence[int]) -> list[int]:
    """The numbers of nodes for which one of the nemeses is possible."""
    if all(name == "none" for name in nemeses):
        return list(counts)
    fewest = min(entry(name).fewest_nodes for name in nemeses if name != "none")
    return [count for count in counts if count >= fewest]


def _counts(listed: str) -> tuple[int, ...]:
    """Numbers of nodes from a comma-separated list.

    Raises:
        UsageError: something in it is no number of 1 to 100, or there is nothing in it.
    """
    counts = names("--nodes", listed)
    if not counts or not all(count.isascii() and count.isdigit() and 1 <= number(count) <= 100 for count in counts):
        raise UsageError(f"--nodes {listed}: a hunt draws one of the numbers given, 1 to 100 each, such as 3,5,7.")
    return tuple(int(count) for count in counts)
