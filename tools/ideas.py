"""The draw of a hunt with one idea alone, for `tools/mutants.py --idea`: what each of them is worth.

Without any idea a seed draws what it drew before there were themes, moments and the rest. Each idea is a few lines that
put that former draw back; `only` does so for all ideas but one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from splitbrain.harness.campaigns import loads, swarm
from splitbrain.harness.campaigns.hunting import search
from splitbrain.harness.campaigns.themes import Theme
from splitbrain.harness.contract.rng import Rng, Streams
from splitbrain.nemesis.catalogue import entry
from splitbrain.nemesis.schedule import OVERLAP

_replaceable: Any = swarm
"""Its names are replaced in the process of a hunt: nothing else draws."""

FORMER_CONCURRENCY: Final = ("1n", "2n", "2n", "3n")
FORMER_TIME_LIMITS_S: Final = (5.0, 8.0, 12.0, 20.0, 30.0, 60.0)
FORMER_S_PER_KIND: Final = 5.0
FORMER_SETTINGS: Final[Mapping[str, tuple[int | None, ...]]] = {
    "checkpoint-interval": (0, 4, 32, 256, None),
    "chunk-bytes": (4_000, None),
    "learners-first": (None, 1),
    "lease-reads": (None, None, 1),
    "snapshot-interval": (16, 64, 512, None),
    "wal-bytes": (1_000, 20_000, None),
}
"""None stands for the default."""


def _without_themes() -> None:
    def by_itself(_seed: int, _asked: swarm.Asked) -> None:
        return None

    _replaceable.THEMED = 0.0
    _replaceable._place = by_itself


def _without_kind(kind: str) -> Callable[[], None]:
    def put_back() -> None:
        fair: Callable[[str], Sequence[str]] = _replaceable._fair

        def fewer(system: str) -> tuple[str, ...]:
            return tuple(name for name in fair(system) if entry(name).kind.name != kind)

        _replaceable._fair = fewer

    return put_back


def _without_settings() -> None:
    def former(seed: int, theme: Theme, asked: swarm.Asked) -> str:
        if asked.settings is not None:
            return asked.settings
        rng = Streams(seed)["settings"]
        values = {name: rng.choice(drawn) for name, drawn in sorted(FORMER_SETTINGS.items())}
        values |= {name: rng.choice(favoured) for name, favoured in sorted(theme.settings.items())}
        return ",".join(f"{name}={value}" for name, value in values.items() if value is not None)

    _replaceable._settings = former


def _without_clients() -> None:
    _replaceable.OPEN = msgspec.structs.replace(swarm.OPEN, concurrency=FORMER_CONCURRENCY)


def _without_overlaps() -> None:
    def former(_seed: int, _theme: Theme) -> float:
        return OVERLAP

    _replaceable.overlap_of = former


def _without_turns() -> None:
    def former(
        rng: Rng,
        theme: Theme,
        _workload: str,
        nemeses: Sequence[str],
        _nodes: int,
        time_limit_s: float | None,
        _pace_s: float,
        _recovery_s: float,
        _ops_most: float,
        ops_affordable: float,
    ) -> loads.Figures:
        kinds = len({entry(name).kind.name for name in nemeses if name != "none"})
        concurrency, rate_hz = rng.choice(theme.concurrency), rng.choice(theme.rates_hz)
        least_s = max(rng.choice(FORMER_TIME_LIMITS_S), FORMER_S_PER_KIND * kinds)
        limit_s = (
            min(each for each in FORMER_TIME_LIMITS_S if each >= least_s) if time_limit_s is None else time_limit_s
        )
        intervals = [each for each in theme.intervals_s if each <= limit_s / (2 * max(kinds, 1))]
        return loads.Figures(
            concurrency=concurrency,
            rate_hz=min(rate_hz, ops_affordable / limit_s),
            time_limit_s=limit_s,
            interval_s=rng.choice(intervals or theme.intervals_s[:1]),
            op_timeout_s=rng.choice(theme.op_timeouts_s),
        )

    _replaceable.drawn = former


def _without_costs() -> None:
    def any_number(_workload: str, _nodes: int, _settings: str) -> float:
        return math.inf

    def any_nodes(_workload: str, counts: Sequence[int]) -> Sequence[int]:
        return counts

    _replaceable.OPS_MOST = math.inf
    _replaceable.affordable_ops = any_number
    _replaceable.affordable_nodes = any_nodes


def _without_hash_seeds() -> None:
    def never(_seed: int) -> bool:
        return False

    search.is_repeated = never


IDEAS: Final[Mapping[str, tuple[str, Callable[[], None]]]] = {
    "themes": ("half of the seeds draw from a theme", _without_themes),
    "moments": ("nodes are bounced when they pass marks", _without_kind("bounce-at-moments")),
    "client-links": ("links between clients and nodes take faults", _without_kind("clients")),
    "settings": ("batches, windows, slices and timeouts vary as well", _without_settings),
    "clients": ("up to thirty clients a node", _without_clients),
    "turns": ("each kind of fault has its turn, and clients enough ops", _without_turns),
    "costs": ("what a test may cost is bounded", _without_costs),
    "overlaps": ("in some tests two faults are in force most of the time", _without_overlaps),
    "hash-seeds": ("some seeds run again with another hash seed", _without_hash_seeds),
}
"""What each idea is, and what takes it out of the draw."""

NONE: Final = "none"
"""In place of an idea: the former draw."""


def only(idea: str) -> None:
    """Take all ideas but this one out of the draw of this process; all if it is `NONE`.

    Raises:
        SystemExit: there is no such idea.
    """
    if idea != NONE and idea not in IDEAS:
        raise SystemExit(f"--idea {idea}: there are {', '.join([*IDEAS, NONE])}")
    for name, (_, take_out) in IDEAS.items():
        if name != idea:
            take_out()
