"""The smallest plan that still fails: a pure search over plans, judged from outside.

Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002) over everything that
a plan consists of: keys, faults, client threads, ops, nodes; then over distances in time. Large steps come first: a run
that is cut short after its violation takes less time, and so does every candidate after it.

The search asks which of many candidates, in the given order, is the first that fails. The judge may run any number of
them at once: the result does not depend on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

import msgspec

from splitbrain.harness.running.plan import Plan, encode
from splitbrain.nemesis import reductions
from splitbrain.results.errors import ProtocolError

T = TypeVar("T")

Judge: TypeAlias = Callable[[Iterator[Plan]], "Plan | None"]
"""The first of the candidates that fails as the original did: the same object; None if none of them fails. It takes
candidates from the iterator as needed, not necessarily all.
"""

EIGHTHS: Final = 8
"""The number of parts into which a stretch of time is divided, to find out how much can be removed."""

SHORT_NS: Final = 40_000_000
"""Shorter stretches of time are not changed."""

ROOM_NS: Final = (1_000_000, 2_000_000_000)
"""How long after its evidence a violation may need to go on: not at all, or until clients have their answers."""


COARSE: Final = 8
"""Chunks of at least this share of the units are tried with other delays too."""

DELAYS: Final = 4
"""With how many seeds. Every op that is left out shifts what later ones meet; a rare failure seldom survives that."""


class Step(msgspec.Struct, frozen=True):
    """The progress of a search.

    Attributes:
        plan: the smallest plan so far that fails.
        tried: how many candidates were judged.
        doing: what it tries to remove now, in words.
    """

    plan: Plan
    tried: int
    doing: str


class Shrunk(msgspec.Struct, frozen=True):
    """What a search found.

    Attributes:
        plan: the smallest plan that fails.
        minimal: whether the search was complete: no single fault, op, client, node or key can be removed any more.
        tried: how many candidates were judged.
    """

    plan: Plan
    minimal: bool
    tried: int


def shrink(
    plan: Plan,
    judge: Judge,
    *,
    evident_ns: int | None = None,
    progress: Callable[[Step], None] = lambda _: None,
    go_on: Callable[[], bool] = lambda: True,
) -> Shrunk:
    """Make a failing plan as small as possible.

    Args:
        plan: a plan that fails. Its `expect.key`, if there is one, is the key to keep before others are tried.
        judge: returns the first of many candidates that fails.
        evident_ns: when the violation was complete, if it is known: what comes after it is left out first.
        progress: called with every step.
        go_on: called before each candidate; False ends the search with the smallest plan so far.

    Raises:
        ProtocolError: the judge answered with a plan that it was not given.
    """
    search = _Search(plan, judge, progress, go_on)
    try:
        search.cut_short(evident_ns)
        search.leave_out()
        while True:
            search.close_up()
            size = reductions.size(search.best)
            search.leave_out()
            if reductions.size(search.best) == size:
                return Shrunk(search.best, True, search.tried)
    except _EndedEarly:
        return Shrunk(search.best, False, search.tried)


class _EndedEarly(Exception):  # noqa: N818 - not an error: the search was asked to end
    pass


class _Search:
    def __init__(self, plan: Plan, judge: Judge, progress: Callable[[Step], None], go_on: Callable[[], bool]) -> None:
        self._judge = judge
        self._progress = progress
        self._go_on = go_on
        self._judged: dict[bytes, None] = {_digest(plan): None}
        self._doing = ""
        self.best = plan
        self.tried = 0

    # --- what leaves out ----------------------------------------------------------------------------------------

    def cut_short(self, evident_ns: int | None) -> None:
        """Remove what comes after the violation, then what came long before it."""
        self._doing = "end of the run"
        # What was not complete then is not there in a run that ends earlier.
        if evident_ns is None or not self._end_soon_after(evident_ns):
            while self.best.end_ns > SHORT_NS and self._take(
                reductions.ending_at(self.best, self.best.end_ns * part // EIGHTHS) for part in range(1, EIGHTHS)
            ):
                pass
        self._doing = "beginning of the run"
        while self.best.end_ns > SHORT_NS and self._take(
            reductions.beginning_at(self.best, self.best.end_ns * part // EIGHTHS) for part in range(EIGHTHS - 1, 0, -1)
        ):
            pass

    def _end_soon_after(self, evident_ns: int) -> bool:
        ends = [evident_ns + room_ns for room_ns in ROOM_NS if evident_ns + room_ns < self.best.end_ns]
        return self._take(reductions.ending_at(self.best, end_ns) for end_ns in ends)

    def leave_out(self) -> None:
        """Remove parts of every sort, until no single part can be removed."""
        size = -1
        while size != reductions.size(self.best):
            size = reductions.size(self.best)
            self._guilty_key()
            self._reduce("keys", reductions.keys(self.best), reductions.with_keys)
            self._reduce("faults", reductions.windows(self.best), reductions.with_windows)
            self._reduce("faults", self.best.faults, reductions.with_faults)
            self._reduce("clients", range(len(self.best.placement)), reductions.with_threads)
            self._reduce("ops", self.best.ops, reductions.with_ops)
            self._reduce("final ops", self.best.final_ops, reductions.with_final_ops)
            self._reduce("clients", range(len(self.best.placement)), reductions.with_threads)
            self._reduce("nodes", self.best.nodes, reductions.with_nodes)
            self._doing = "clients"
            while self._take(reductions.with_threads_merged(self.best)):
                pass

    def close_up(self) -> None:
        """Shorten every distance between two events, the longest first; then try round times, which are easier to
        read.
        """
        self._doing = "time"
        for gap in reductions.gaps(self.best):
            while self._shorten(gap):
                pass
        self._take(iter([reductions.final_at_once(self.best)]))
        self._take(reductions.rounded(self.best))

    def _shorten(self, gap: int) -> bool:
        length_ns = reductions.gap_ns(self.best, gap)
        if length_ns < SHORT_NS:
            return False
        return self._take(reductions.with_gap(self.best, gap, length_ns * part // EIGHTHS) for part in range(EIGHTHS))

    def _guilty_key(self) -> None:
        """Often the key of the violation is enough; other keys are only load."""
        key = self.best.expect.key if self.best.expect is not None else None
        keys = reductions.keys(self.best)
        self._doing = "keys"
        if len(keys) > 1 and key in keys:
            self._take(iter([reductions.with_keys(self.best, [key])]))

    def _reduce(self, doing: str, units: Sequence[T], build: Callable[[Plan, Sequence[T]], Plan | None]) -> None:
        """Keep only the `units` that the failure needs: delta debugging, over complements of smaller and smaller
        chunks.

        Args:
            doing: what they are, in words.
            units: parts of the best plan.
            build: returns the plan with only some of them; None if that is not a plan.
        """
        self._doing = doing
        base, kept, size = self.best, list(units), len(units)

        def with_delays(some: Sequence[T], later: int) -> Plan | None:
            plan = build(base, some)
            return None if plan is None else _with_seed_of(self.best, plan, later)

        while kept:
            rest = self._without_chunks(kept, max(size, 1), with_delays)
            if size <= 1 and len(rest) == len(kept):
                return
            kept, size = rest, min(size, len(rest)) // 2

    def _without_chunks(self, kept: list[T], size: int, build: Callable[[Sequence[T], int], Plan | None]) -> list[T]:
        """Remove chunks of this number of units, one after the other, if the plan still fails; returns what is kept.

        Args:
            kept: the units.
            size: of a chunk.
            build: returns the plan with some units, and with the delays of the seed that is so much higher.
        """
        start = 0
        while start < len(kept):
            rests = [(at, [*kept[:at], *kept[at + size :]]) for at in range(start, len(kept), size)]
            seeds = range(DELAYS if size * COARSE >= len(kept) > COARSE else 1)
            found = self._first(build(rest, later) for later in seeds for _, rest in rests)
            if found is None:
                break
            start, kept = rests[found % len(rests)]
        return kept

    # --- candidates ---------------------------------------------------------------------------------------------

    def _take(self, candidates: Iterator[Plan | None]) -> bool:
        return self._first(candidates) is not None

    def _first(self, candidates: Iterator[Plan | None]) -> int | None:
        """The index of the first candidate that fails, which becomes the best; None if none fails.

        A plan that was judged before is skipped: it did not fail, else it would be the best.
        """
        asked: dict[bytes, tuple[int, Plan]] = {}
        ended = False

        def fresh() -> Iterator[Plan]:
            nonlocal ended
            for place, candidate in enumerate(candidates):
                digest = b"" if candidate is None else _digest(candidate)
                if candidate is None or digest in self._judged or digest in asked:
                    continue
                if not self._go_on():
                    ended = True
                    return
                asked[digest] = place, candidate
                yield candidate

        found = self._judge(fresh())
        place_found: int | None = None
        for digest, (place, candidate) in asked.items():
            self.tried += 1
            self._judged[digest] = None
            if candidate is found:
                self.best, place_found = candidate, place
                break
        if found is not None and place_found is None:
            raise ProtocolError("the judge of a shrinking search answered with a plan that it was not given.")
        self._progress(Step(self.best, self.tried, self._doing))
        if found is None and ended:
            raise _EndedEarly
        return place_found


def _with_seed_of(best: Plan, plan: Plan, later: int) -> Plan | None:
    """The plan with the best one's seed, or a later one; None if there is no seed to change."""
    seed = best.options.get("seed")
    if not isinstance(seed, int):
        return None if later else plan
    return msgspec.structs.replace(plan, options={**plan.options, "seed": seed + later})


def _digest(plan: Plan) -> bytes:
    return hashlib.blake2b(encode(plan), digest_size=16).digest()
