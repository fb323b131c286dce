"""The load of a drawn test, and how often something breaks: such that the test can show something.

Each kind of fault has its turn, and each is in force long enough for its effects; clients can do enough ops. Otherwise
the run would be inconclusive with any system.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from splitbrain.checkers.coverage.options import PROMPT_S, PROMPT_SHARE
from splitbrain.harness.campaigns.compose import client_count
from splitbrain.harness.campaigns.overlaps import SILENCING, TOGETHER
from splitbrain.harness.campaigns.themes import (
    BURSTS,
    INTERVALS_S,
    OP_TIMEOUTS_S,
    RATES_HZ,
    TIME_LIMITS_S,
    Theme,
)
from splitbrain.harness.contract.rng import Rng
from splitbrain.nemesis.catalogue import entry
from splitbrain.nemesis.schedule import LONGEST

LEAST_INTERVALS_S: Final = {
    **dict.fromkeys(("bounce", "restart"), 2.0),
    **dict.fromkeys(("kill", "pause", "power", "disk", "partition", "packet", "membership"), 1.0),
}
"""By kind of fault; together they need the sum. At shorter intervals a cluster has no leader most of the time, and most
runs are inconclusive.
"""

INTERVAL_IS_LONG_S: Final = 4.0
"""Longer than an election and a recovery: no faults need more."""

TIMES_EACH: Final = 2.0
"""How many faults of a kind there is time for: an op may be refused, and take its time nevertheless."""

MORE_TURNS: Final = {"cpu": 4, "moment": 3, "bounce-at-moments": 2, "transfer": 2, "power": 2}
"""By kind of fault, how many more turns it needs: a large share of a CPU is enough for most nodes, many moments do not
come, a transfer may be refused, and a power cut loses nothing where everything was synced.
"""

PACES: Final = 10.0
"""So many ops one after the other are as long as an interval, or an op timeout, at least: in shorter ones a slow world
would have no leader most of the time, or the number of ops that are possible would be that of a quick one.
"""

LEAST_OP_TIMEOUTS_S: Final = {"lock": 2.0, "lease-lock": 2.0, "create-once": 2.0}
"""By workload: it has few clients, of which one at a time gets what all want."""

FEW_CLIENTS: Final = 3
FEW_OP_TIMEOUT_S: Final = 2.0
"""The longest op timeout of a test with fewer clients on each node, if ops are not slower: while all of them wait for
answers that do not come, nothing else is asked.
"""

LEAST_WORKLOAD_RATES_HZ: Final = {"bank": 50.0, "monotonic": 100.0}
"""By workload, where so many ops may be: at lower rates few are under way beside those that could contradict them."""

LEAST_RATES_HZ: Final = {"cpu": 200.0, "restart": 200.0, "bounce-at-moments": 50.0}
"""By kind of fault: at lower rates nodes need less of a CPU than they have, a restart of milliseconds meets no client,
and nodes pass few marks while a fault waits for one.
"""

OPS_MIN: Final = 400.0
"""The least number of ops that are possible in a run, if the workload has enough clients for them."""

OPS_FACTOR: Final = {
    **dict.fromkeys(("declare", "create-once", "topology", "queue", "poison", "single-active"), 3.0),
    **dict.fromkeys(("dead-letter", "flags", "stream", "short-stream"), 3.0),
    "register": 1.5,
}
"""By workload, how many times as many it needs: of some functions few ops are ok, or there are many functions; each
queue has a leader of its own, and without it no op on the queue is ok."""

OPS_EACH: Final = 4.0
"""So many ops a client can do at least, if every op runs into its timeout."""

CLIENTS_MAX: Final = {
    "lock": 12,
    "lease-lock": 12,
    "create-once": 10,
    "declare": 10,
    "counter": 12,
    "single-active": 24,
}
"""By workload, in all: of the clients that want the same thing one gets it, so that with many few ops are ok; of a
counter all the adds that crashed at once are searched together, which took more than five minutes with 60 clients; and
140 consumers that come and go ask more of two queues than slow disks can store.
"""

CLIENTS_MIN: Final = {"g2": 5}
"""By workload, on each node: two of them wait for each other, and most are idle when a node is silent."""

RATES_MAX_HZ: Final = {
    **dict.fromkeys(("list-append", "rw-register", "topology", "tree"), 100.0),
    "create-once": 50.0,
}
"""By workload: each op is several, and costs as much; clients wait for each other, and for those that are cut off."""

BURST_INTERVALS: Final = 0.5
"""The longest distance of two bursts, in intervals: what the shortest fault lasts, so that it meets one."""

BURST_OF_CLIENT: Final = 10
"""The most ops of a burst for each client: while a node is silent its clients do none, and the next burst is due."""

MOMENTARY: Final = frozenset({"restart", "membership", "upgrade", "groups", "transfer"})
"""Kinds of fault that may last for milliseconds only: bursts would pass by them."""

SILENCED_INTERVALS: Final = 20.0
"""The shortest faults phase with one of these, in intervals: a tenth of the phase is then longer than most outages."""

SILENCED_HZ: Final = 100.0
"""The lowest rate with one of these: of the ops that are seldom some must be answered in the other half."""

SILENCED_COST: Final = 2.0
"""How many times as much as others a test with one of these may cost."""

SILENCED_OP_TIMEOUT_S: Final = 1.0
"""The longest op timeout with one of these, if ops are not slower: clients that wait longer for a silent system still
do so when it answers again.
"""

SHORTER: Final = 0.5
"""The share of tests that are shortened if too many ops are possible; the others have a lower rate."""

SHORTENED_S: Final = 20.0
"""The shortest of these: in most tests of 12 s one outage is a large part of the test."""

JUDGED_OPS: Final = 4.0
JUDGED_NODE_HZ: Final = (2.0, 7.0)
"""The lowest rate at a node where the checker quorum-progress judges whether nodes answer after a fault's begin or end:
it looks at what is left of a window after the time to recover and an op timeout, often less than a second, in which
each node must be asked so many times. Clients that wait for each other ask too seldom: their intervals are so short
that it looks at the end of the run only.
"""

PASSES_S: Final = 0.2
"""The longest distance of two bursts with a fault that passes by itself: a leader can be moved in a quarter second."""

TURN_INTERVALS: Final = 3.0
"""How long a kind of fault has its turn, in intervals: its begin and its end, each with the longest distance."""

PATIENT_LIMIT_S: Final = 55.0
PATIENT_INTERVAL_S: Final = 14.0
PATIENT_RATE_HZ: Final = 50.0
PATIENT_OP_TIMEOUT_S: Final = 2.0
"""Together they leave some seconds of most faults in which clients ask, after an election and a recovery."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The load of a test, and how often something breaks; the options of `splitbrain run` that say it."""

    concurrency: str
    rate_hz: float
    time_limit_s: float
    interval_s: float
    op_timeout_s: float


def drawn(
    rng: Rng,
    theme: Theme,
    workload: str,
    nemeses: Sequence[str],
    nodes: int,
    time_limit_s: float | None,
    pace_s: float = 0.0,
    recovery_s: float = math.inf,
    ops_most: float = math.inf,
    ops_affordable: float = math.inf,
) -> Figures:
    """Figures of the theme, as far as the faults allow.

    Args:
        rng: draws them.
        theme: what they are drawn from.
        workload: what clients do.
        nemeses: the names of the test's nemeses.
        nodes: how many nodes it has.
        time_limit_s: length of the faults phase that was asked for; None: drawn.
        pace_s: how long an op takes while nothing is wrong (`worlds.pace_s_of`).
        recovery_s: how long the system may answer nothing after a fault's begin or end; infinite if that is not judged.
        ops_most: how many ops may be possible in the test, if its faults need so many.
        ops_affordable: how many may be if they do not, nor its workload.
    """
    concurrency, rate_hz, limit_s, op_timeout_s = (
        rng.choice(theme.concurrency),
        min(rng.choice(theme.rates_hz), RATES_MAX_HZ.get(workload, math.inf)),
        rng.choice(theme.time_limits_s),
        rng.choice(theme.op_timeouts_s),
    )
    turns = _turns(nemeses, theme, pace_s, ops_most)
    ops_min = OPS_MIN * OPS_FACTOR.get(workload, 1.0)
    shortest_s = max(TIME_LIMITS_S[0], turns.shortest_s)
    ops_most = min(ops_most, max(ops_affordable, ops_min, _enough([ops_min / shortest_s, turns.least_hz]) * shortest_s))
    limit_s = min([each for each in TIME_LIMITS_S if each >= max(limit_s, turns.shortest_s)], default=TIME_LIMITS_S[-1])
    if time_limit_s is not None:
        limit_s = time_limit_s
    few = client_count(_clients(workload, concurrency, 0.0, nodes), nodes) < FEW_CLIENTS * nodes
    op_timeout_s = _op_timeout_s(op_timeout_s, workload, pace_s, limit_s, silenced=turns.silenced, few=few)
    needed_hz = ops_min / max(TIME_LIMITS_S[0], limit_s)
    prompt_s = min(PROMPT_SHARE * op_timeout_s, PROMPT_S)
    clients = _clients(workload, concurrency, needed_hz * prompt_s, nodes)
    clients_hz = client_count(clients, nodes) / pace_s if pace_s else math.inf
    if ops_most < math.inf and time_limit_s is None and rng.random() < SHORTER:
        limit_s = _shorter(ops_most, min(rate_hz, clients_hz), limit_s, max(turns.shortest_s, SHORTENED_S))
        needed_hz = ops_min / limit_s
    beside_hz = LEAST_WORKLOAD_RATES_HZ.get(workload, 0.0)
    if beside_hz * max(limit_s, turns.shortest_s) > ops_most:
        beside_hz = 0.0
    least_hz = _enough([needed_hz, turns.least_hz, beside_hz])
    rate_hz, limit_s = _at_most(
        ops_most,
        [rate for rate in RATES_HZ if least_hz <= rate <= max(rate_hz, least_hz)],
        limit_s,
        clients_hz,
        given=time_limit_s is not None,
    )
    needed_hz = ops_min / max(TIME_LIMITS_S[0], limit_s)
    longest_s = (limit_s - turns.takes_s) / turns.number
    unjudged_s = (recovery_s + op_timeout_s) / LONGEST
    possible_hz = nodes * judged_node_hz(min(max(theme.intervals_s), longest_s), unjudged_s)
    never_judged = workload in TOGETHER or _enough([possible_hz]) * limit_s > max(ops_most, rate_hz * limit_s)
    interval_s = _interval_s(rng, theme, turns.least_s, min(longest_s, unjudged_s if never_judged else math.inf))
    judged_hz = nodes * judged_node_hz(interval_s, unjudged_s)
    return Figures(
        concurrency=_clients(workload, concurrency, max(needed_hz * prompt_s, judged_hz * pace_s), nodes),
        rate_hz=_enough([rate_hz, judged_hz]),
        time_limit_s=limit_s,
        interval_s=interval_s,
        op_timeout_s=op_timeout_s,
    )


def _op_timeout_s(drawn_s: float, workload: str, pace_s: float, limit_s: float, *, silenced: bool, few: bool) -> float:
    """The op timeout that was drawn, or the next one that a slow world, a silent system or few clients allow."""
    slowest_s = max(LEAST_OP_TIMEOUTS_S.get(workload, 0.0), PACES * pace_s)
    longest_s = min(SILENCED_OP_TIMEOUT_S if silenced else math.inf, FEW_OP_TIMEOUT_S if few else math.inf)
    able_s = max(
        min(drawn_s, longest_s),
        min([each for each in OP_TIMEOUTS_S if each >= slowest_s], default=OP_TIMEOUTS_S[-1]),
    )
    return max([each for each in OP_TIMEOUTS_S if each <= min(able_s, limit_s / OPS_EACH)], default=OP_TIMEOUTS_S[0])


def judged_node_hz(interval_s: float, unjudged_s: float) -> float:
    """The lowest rate at a node where some windows are judged (`JUDGED_NODE_HZ`); 0 if none is.

    Args:
        interval_s: mean time between nemesis ops.
        unjudged_s: the longest interval at which no window is judged.
    """
    left_s = LONGEST * (interval_s - unjudged_s)
    lowest, highest = JUDGED_NODE_HZ
    return min(max(JUDGED_OPS / left_s, lowest), highest) if left_s > 0.0 else 0.0


class _Turns(msgspec.Struct, frozen=True, kw_only=True):
    """What the faults of a test need: turns, of `least_s` or more each, and ops in them."""

    number: float
    least_s: float
    takes_s: float
    least_hz: float
    silenced: bool

    @property
    def shortest_s(self) -> float:
        return self.takes_s + self.number * self.least_s


def _turns(nemeses: Sequence[str], theme: Theme, pace_s: float, ops_most: float) -> _Turns:
    kinds = {kind.name: kind for kind in (entry(name).kind for name in nemeses if name != "none")}
    least_s = INTERVALS_S[0] if theme.recovers_fast else least_interval_s(kinds)
    least_s = max(least_s, paced_interval_s(pace_s))
    takes_s = TIMES_EACH * sum(kind.takes_s for kind in kinds.values())
    number = TURN_INTERVALS * max(len(kinds) + sum(MORE_TURNS.get(kind, 0) for kind in kinds), 1)
    silenced = not SILENCING.isdisjoint(nemeses)
    if silenced:
        longest_s = min(TIME_LIMITS_S[-1], ops_most / SILENCED_HZ)
        number = max(number, min(SILENCED_INTERVALS, (longest_s - takes_s) / least_s))
    least_hz = max([SILENCED_HZ * silenced, *(LEAST_RATES_HZ.get(kind, 0.0) for kind in kinds)])
    return _Turns(number=number, least_s=least_s, takes_s=takes_s, least_hz=least_hz, silenced=silenced)


def affordable(nemeses: list[str], theme: Theme, pace_s: float, ops_most: float) -> list[str]:
    """The nemeses, without the last kinds of fault if all of them need more ops than there may be; one is left."""
    while True:
        kinds = list(dict.fromkeys(entry(name).kind.name for name in nemeses if name != "none"))
        if len(kinds) <= (2 if theme.core else 1) or _is_affordable(nemeses, theme, pace_s, ops_most):
            return nemeses
        nemeses = [name for name in nemeses if entry(name).kind.name != kinds[-1]]


def _shorter(ops_most: float, rate_hz: float, limit_s: float, shortest_s: float) -> float:
    """The longest test at this rate with no more ops than that; no shorter than its faults need, nor than any other."""
    able = [each for each in TIME_LIMITS_S if shortest_s <= each <= limit_s] or [limit_s]
    return max([each for each in able if rate_hz * each <= ops_most], default=able[0])


def beside_core(nemeses: Sequence[str], theme: Theme, pace_s: float, ops_most: float) -> list[str]:
    """The nemeses without those that need too many ops beside one of the theme's core, which each of its tests has."""
    core = next((name for name in theme.core if name in nemeses), None)
    if core is None:
        return list(nemeses)
    of_core = {entry(name).kind.name for name in theme.core}
    return [
        name
        for name in nemeses
        if entry(name).kind.name in of_core or _is_affordable([core, name], theme, pace_s, ops_most)
    ]


def _is_affordable(nemeses: Sequence[str], theme: Theme, pace_s: float, ops_most: float) -> bool:
    turns = _turns(nemeses, theme, pace_s, ops_most)
    return turns.least_hz * turns.shortest_s <= ops_most


def audible(nemeses: Sequence[str], ops_affordable: float) -> list[str]:
    """The nemeses without those that leave no quorum for long, if the ops by which they are judged are too dear.

    All of them if none is left.
    """
    if SILENCED_COST * ops_affordable >= SILENCED_HZ * SILENCED_INTERVALS * INTERVALS_S[1]:
        return list(nemeses)
    return [name for name in nemeses if name not in SILENCING] or list(nemeses)


def _at_most(
    ops_most: float, rates_hz: Sequence[float], limit_s: float, clients_hz: float, *, given: bool
) -> tuple[float, float]:
    """The highest of these rates, and the length of the test, with which no more ops than that are possible.

    Args:
        ops_most: how many may be.
        rates_hz: those that are possible, from low to high.
        limit_s: as it was drawn; only if no rate is low enough the test is shorter.
        clients_hz: what all clients can do at most while nothing is wrong.
        given: the length was asked for, and stays.
    """
    for rate_hz in reversed(rates_hz):
        if min(rate_hz, clients_hz) * limit_s <= ops_most:
            return rate_hz, limit_s
    lowest_hz = rates_hz[0]
    return lowest_hz, limit_s if given else max(TIME_LIMITS_S[0], float(math.floor(ops_most / lowest_hz)))


def paced_interval_s(pace_s: float) -> float:
    """The shortest mean time between nemesis ops where an op of a client takes so many seconds."""
    return min([each for each in INTERVALS_S if each >= PACES * pace_s], default=INTERVALS_S[-1])


def kinds_at_most(pace_s: float) -> int:
    """How many kinds of fault can have their turns in the longest test where an op of a client takes so long."""
    return max(2, int(TIME_LIMITS_S[-1] / (TURN_INTERVALS * paced_interval_s(pace_s))))


def burst(rng: Rng, theme: Theme, nemeses: Sequence[str], rate_hz: float, interval_s: float, clients: int) -> int:
    """How many ops come at once: of the theme, so few that each fault meets some, and that clients can do them."""
    kinds = [entry(name).kind for name in nemeses if name != "none"]
    if any(kind.name in MOMENTARY for kind in kinds):
        return 1
    passes = any(kind.over for kind in kinds)
    distance_s = min(BURST_INTERVALS * interval_s, PASSES_S if passes else interval_s)
    most = min(rng.choice(theme.bursts), max(rate_hz * distance_s, 1), BURST_OF_CLIENT * clients)
    return max(each for each in BURSTS if each <= most)


def least_interval_s(kinds: Iterable[str]) -> float:
    """The shortest mean time between ops of these kinds of fault, in seconds, that lets a cluster recover."""
    together_s = min(sum(LEAST_INTERVALS_S.get(kind, 0.0) for kind in kinds), INTERVAL_IS_LONG_S)
    return min(interval for interval in INTERVALS_S if interval >= together_s)


def patient(figures: Figures, time_limit_s: float | None) -> Figures:
    """The same with a fault that is in force for long."""
    limit_s = PATIENT_LIMIT_S if time_limit_s is None else time_limit_s
    return msgspec.structs.replace(
        figures,
        rate_hz=min(figures.rate_hz, PATIENT_RATE_HZ),
        op_timeout_s=PATIENT_OP_TIMEOUT_S,
        time_limit_s=limit_s,
        interval_s=min(PATIENT_INTERVAL_S, limit_s / 2),
    )


def _clients(workload: str, concurrency: str, needed: float, nodes: int) -> str:
    """So many clients for each node, or as many as are needed, as far as the workload allows."""
    least = max(math.ceil(needed / nodes), CLIENTS_MIN.get(workload, 0))
    of_each = max(client_count(concurrency, nodes) // nodes, least)
    return f"{min(of_each, max(1, CLIENTS_MAX.get(workload, of_each * nodes) // nodes))}n"


def _enough(least_hz: Sequence[float]) -> float:
    """The lowest rate that is at least each of these; the highest if none is."""
    return min([rate for rate in RATES_HZ if rate >= max(least_hz)], default=RATES_HZ[-1])


def _interval_s(rng: Rng, theme: Theme, least_s: float, longest_s: float) -> float:
    """A mean time between nemesis ops that lets every kind of fault have its turn."""
    possible = [interval for interval in INTERVALS_S if interval <= longest_s] or list(INTERVALS_S[:1])
    able = [interval for interval in possible if interval >= least_s]
    favoured = [interval for interval in able if interval in theme.intervals_s]
    return rng.choice(favoured or able or possible[-1:])
