"""The options of the checker `coverage`, and the load that the test asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from splitbrain.checkers.durations import refuse_others
from splitbrain.results.errors import UsageError

READS: Final = ("read", "get", "contains", "peek", "scan", "list", "query")
"""The names of functions that count as reads if a test does not list its reads."""

PROMPT_SHARE: Final = 0.1
"""The largest share of the op timeout that a prompt op takes: the number of possible ops follows from it."""

PROMPT_S: Final = 1.0
"""The largest number of seconds that a prompt op takes: a long timeout must not excuse a silent system."""


class Load(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The load that a test asks for.

    Attributes:
        rate: ops per second of all clients together.
        time_limit_s: length of the faults phase, in seconds.
        concurrency: how many clients there are.
        op_timeout_s: how long a client waits for an answer, in seconds.
        recovery_s: how long a healed system may take until it answers, in seconds.
        nodes: the nodes to which clients send ops.

    Raises:
        UsageError: a number is not positive, or not finite.
    """

    rate: float
    time_limit_s: float
    concurrency: int
    op_timeout_s: float
    recovery_s: float = 20.0
    nodes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse numbers that are not positive, or not finite."""
        for name in ("rate", "concurrency"):
            number = getattr(self, name)
            if not 0 < number < math.inf:
                raise UsageError(f"the load's {name} must be more than 0 and finite, not {number:g}.")

    def possible(self, lasted_s: float) -> float:
        """How many ops the run could have done in a faults phase of `lasted_s` seconds.

        Those that were due, but no more than the clients can do if each op takes `PROMPT_SHARE` of its timeout, or
        `PROMPT_S`: a slow system with a long timeout need not reach the rate of a fast one.
        """
        lasted_s = min(lasted_s, self.time_limit_s)
        by_clients = self.concurrency * lasted_s / min(PROMPT_SHARE * self.op_timeout_s, PROMPT_S)
        return min(self.rate * lasted_s, by_clients)


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a run must show.

    Attributes:
        fs: the functions that clients invoke; those of the history if none are given.
        local: which of them clients carry out without a node: their answers are none of the system's.
        reads: which of them read what others wrote; those named as in `READS` if None.
        under_faults: functions of which some ops must have been ok once a fault had begun, since what they promise is
            not tested before.
        min_ok: ok ops that each of `fs` needs, instead of the floor that follows from the load; a number for all, or
            one for each function.
        floors: whether the run must have done a share of what its load allows; a plan is asked for no more than it
            says.
        load: the load that the test asks for; None where that is not known: then what was invoked is taken for it.
        faults: whether faults belong to the test; a list names the kinds of which each must have taken place.
        max_stall_share: share of the run for which the controller may have been stalled.
        judges: the names of all other checkers of the test; None if they are not known (a history from elsewhere).
        ended: whether the harness notes the end of the run, so that a history without that note has lost its end.
        cut_short: how the history was recovered, where its controller was killed before the run came to its end.
    """

    fs: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    reads: tuple[str, ...] | None = None
    under_faults: tuple[str, ...] = ()
    min_ok: int | dict[str, int] | None = None
    floors: bool = True
    load: Load | None = None
    faults: bool | tuple[str, ...] = False
    max_stall_share: float = 0.05
    judges: tuple[str, ...] | None = None
    ended: bool = False
    cut_short: str | None = None

    def given_floor(self, f: str) -> int | None:
        """The least number of ok ops of `f` that the test sets; None if it sets none."""
        if isinstance(self.min_ok, dict):
            return self.min_ok.get(f)
        return self.min_ok

    def is_read(self, f: str) -> bool:
        """Whether ops of `f` read what other ops wrote."""
        return f in (READS if self.reads is None else self.reads)


def options_of(options: Mapping[str, Any]) -> Options:
    """The options of the checker.

    Raises:
        UsageError: one is unknown, or of the wrong type.
    """
    load: Any = options.get("load")
    if isinstance(load, Mapping):
        given = cast("Mapping[str, Any]", load)
        refuse_others("coverage", given, ("time_limit_s", "op_timeout_s"), above_0=True)
        refuse_others("coverage", given, ("recovery_s",))
    try:
        return msgspec.convert(dict(options), Options)
    except (msgspec.ValidationError, UsageError) as error:
        raise UsageError(
            f"checker coverage: {str(error).rstrip('.')}; it takes {', '.join(Options.__struct_fields__)}."
        ) from None
