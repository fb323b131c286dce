"""The options of the checker "linearizable"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from splitbrain.checkers.durations import refuse_others
from splitbrain.results.errors import UsageError

NAME: Final = "linearizable"


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the checker.

    Attributes:
        model: name of the model, or `module:attribute`.
        functions: those that it is about; ops of others of the workload are left out. All, if it is left out.
        time_limit_s: CPU seconds per key, for everything together; then the answer is "unknown".
        memory_limit_mb: configurations, and states of the model, per key; then the answer is "unknown".
        witness_time_s: CPU seconds for making the evidence of a violation small, within the limit. If left out, as
            many as the verdict took, at least half a second and at most two.
    """

    model: str
    time_limit_s: float = 60.0
    memory_limit_mb: int = 1024
    witness_time_s: float | None = None
    functions: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse limits with which nothing can be judged."""
        if self.memory_limit_mb <= 0:
            raise ValueError("limits must be positive")


def read_options(options: Mapping[str, Any]) -> Options:
    """Options from what JSON carries.

    Raises:
        UsageError: one is wrong.
    """
    refuse_others(NAME, options, ("time_limit_s",), above_0=True)
    refuse_others(NAME, options, ("witness_time_s",))
    try:
        return msgspec.convert(dict(options), Options)
    except msgspec.ValidationError as error:
        raise UsageError(f"options of the checker {NAME!r}: {error}.") from error
