"""What coverage asks of a run: the options of the checker, and the load that the test was meant to carry."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from splitbrain.results.errors import UsageError

READS: Final = ("read", "get", "contains", "peek", "scan", "list", "query")
"""Functions that are taken for reads, by their names, where a test does not say which are."""

PROMPT_SHARE: Final = 0.1
"""An op that the system answers well takes at most this share of the op timeout: so much clients could have done."""

PROMPT_S: Final = 1.0
"""And at most this many seconds, however long the timeout: a long one must not excuse a system that is silent."""


class Load(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The load that a test asks for.

    Attributes:
        rate: ops per second of all clients together.
        time_limit_s: length of the faults phase, in seconds.
        concurrency: how many clients there are.
        op_timeout_s: how long a client waits for an answer, in seconds.
        recovery_s: how long a healed system may take until it answers, in seconds.
        nodes: the nodes to which clients are to talk.

    Raises:
        UsageError: a number with which no test could run.
    """

    rate: float
    time_limit_s: float
    concurrency: int
    op_timeout_s: float
    recovery_s: float = 20.0
    nodes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse numbers with which no test could run."""
        for name in ("rate", "time_limit_s", "concurrency", "op_timeout_s"):
            number = getattr(self, name)
            if not 0 < number < math.inf:
                raise UsageError(f"the load's {name} must be more than 0 and finite, not {number:g}.")

    def possible(self, lasted_s: float) -> float:
        """How many ops the run could have done in so many seconds of its faults phase.

        Those that were due, but no more than so many clients can do if each op takes `PROMPT_SHARE` of its timeout, or
        `PROMPT_S`: a slow system with a long timeout is not asked for the rate of a fast one.
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
        min_ok: ok ops that each of `fs` needs, instead of the floor that follows from the load; a number for all, or
            one for each function.
        floors: whether the run must have done a share of what its load allows; a plan is asked for no more than it
            says.
        load: the load that the test asks for; None where that is not known: then what was invoked is taken for it.
        faults: whether faults belong to the test; a list names the kinds of which each must have taken place.
        max_stall_share: share of the run for which the controller may have been stalled.
        cut_short: how the history was recovered, where its controller was killed before the run came to its end.
    """

    fs: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    reads: tuple[str, ...] | None = None
    min_ok: int | dict[str, int] | None = None
    floors: bool = True
    load: Load | None = None
    faults: bool | tuple[str, ...] = False
    max_stall_share: float = 0.05
    cut_short: str | None = None

    def given_floor(self, f: str) -> int | None:
        """The least number of ok ops of `f` where the author of the test gave one."""
        if isinstance(self.min_ok, dict):
            return self.min_ok.get(f)
        return self.min_ok

    def is_read(self, f: str) -> bool:
        """Whether ops of `f` tell what others wrote."""
        return f in (READS if self.reads is None else self.reads)


def options_of(options: Mapping[str, Any]) -> Options:
    """The options of the checker.

    Raises:
        UsageError: one is unknown, or of the wrong type.
    """
    try:
        return msgspec.convert(dict(options), Options)
    except (msgspec.ValidationError, UsageError) as error:
        raise UsageError(
            f"checker coverage: {str(error).rstrip('.')}; it takes {', '.join(Options.__struct_fields__)}."
        ) from None
