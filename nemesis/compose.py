"""Many faults in one test: one nemesis that passes each op to the nemesis of its fault, one schedule, one healing."""

from __future__ import annotations

from collections.abc import Sequence

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.test import LEAST, Nemesis, NemesisContext, NemesisPackage
from splitbrain.harness.generators import sequence
from splitbrain.nemesis.declared import check_nemesis
from splitbrain.nemesis.schedule import OVERLAP, Fault, Schedule
from splitbrain.results.errors import BackendError, NemesisError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import action_in, fault_in

INTERVAL_S = 4.0
"""Mean time between nemesis ops: in a run of half a minute there are several faults, and each lasts long enough for an
election and its consequences.
"""


class Composed:
    """Several nemeses as one: an op goes to the one that handles its function (Jepsen's `compose`).

    It is a `splitbrain.harness.contract.test.ComposedNemesis`.

    Raises:
        UsageError: two of them handle the same function, or one is no nemesis.
    """

    def __init__(self, nemeses: Sequence[Nemesis]) -> None:
        self._nemeses = tuple(nemeses)
        self._by_f: dict[str, Nemesis] = {}
        self._begun: dict[str, None] = {}
        for nemesis in self._nemeses:
            check_nemesis(f"nemesis {type(nemesis).__name__}", nemesis)
            for f in sorted(nemesis.fs):
                if f in self._by_f:
                    raise UsageError(f"two nemeses handle the op {f!r}: rename one op with f_map, or remove a nemesis.")
                self._by_f[f] = nemesis
        self.fs = frozenset(self._by_f)
        self.faults: frozenset[FaultKind] = frozenset(kind for nemesis in self._nemeses for kind in nemesis.faults)

    def handler(self, f: str) -> Nemesis | None:
        """The nemesis that handles a function; None if no nemesis does."""
        return self._by_f.get(f)

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Pass the op to the nemesis that handles it."""
        self._mark(op)
        return await self._by_f[op.f].invoke(context, op)

    def _mark(self, op: Op) -> None:
        fault = str(fault_in(op.value))
        if action_in(op.value) == "start":
            if self._begun and fault not in self._begun:
                reached("faults overlapped")
            self._begun[fault] = None
        else:
            self._begun.pop(fault, None)

    async def heal(self, context: NemesisContext) -> None:
        """Heal everything, in order; after a failure the rest is still healed.

        Raises:
            NemesisError: something could not be healed; it lists all of it.
        """
        problems: list[str] = []
        self._begun.clear()
        for nemesis in self._nemeses:
            try:
                await nemesis.heal(context)
            except (NemesisError, BackendError) as problem:
                problems.append(str(problem))
        if problems:
            raise NemesisError("; ".join(problems))


def package(
    name: str,
    faults: Sequence[Fault],
    interval_s: float = INTERVAL_S,
    time_limit_s: float | None = None,
    *,
    overlap: float = OVERLAP,
    left_out: Sequence[str] = (),
) -> NemesisPackage:
    """A package of faults with one schedule. Heals in the order of `faults`.

    Args:
        name: as given to `--nemesis`.
        faults: the faults; empty for a test without faults.
        interval_s: mean time between nemesis ops, in seconds.
        time_limit_s: length of the faults phase: no fault begins shortly before its end. None if it is not known.
        overlap: the probability that a second fault begins before the first is healed, 0 to 1.
        left_out: what was named and is not injected, and why.

    Raises:
        UsageError: the interval is not positive, the overlap is no probability, or two faults handle the same op.
    """
    if not 0 <= overlap <= 1:
        raise UsageError(f"--overlap {overlap:g}: give a probability, 0 to 1, such as {OVERLAP:g}.")
    if not LEAST <= interval_s < 10**6:
        raise UsageError(f"--interval must be a positive number of seconds, not {interval_s:g}.")
    if not faults:
        return NemesisPackage(name=name, nemesis=None, generator=None, final_generator=None, faults=frozenset())
    nemesis = Composed([fault.nemesis for fault in faults])
    return NemesisPackage(
        name=name,
        nemesis=nemesis,
        generator=Schedule(
            tuple(faults),
            round(interval_s * 1e9),
            None if time_limit_s is None else round(time_limit_s * 1e9),
            overlap,
        ),
        final_generator=sequence(*(fault.stop() for fault in faults)),
        faults=frozenset(kind for fault in faults for kind in fault.needs()),
        kinds=tuple(fault.name for fault in faults),
        left_out=tuple(left_out),
    )
