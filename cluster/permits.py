"""What decides whether a node may convert stored data now: its alarms, and how much may be converted at once (CQ-7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

AlarmName: TypeAlias = Literal["disk", "memory"]
"""What operators set; an alarm of the module `splitbrain.cluster.classic` may have any name."""

ALARMS: Final[tuple[AlarmName, ...]] = get_args(AlarmName)


class Alarms:
    """The alarms that are active on a node, e.g. "memory" or "disk"."""

    def __init__(self) -> None:
        self._active: dict[str, None] = {}

    @property
    def active(self) -> tuple[str, ...]:
        """In the order in which they were set."""
        return tuple(self._active)

    def set(self, alarm: str) -> None:
        """Activate one; no harm if it is active."""
        self._active[alarm] = None

    def clear(self, alarm: str) -> None:
        """End one; no harm if it is not active."""
        self._active.pop(alarm, None)


@dataclass(frozen=True)
class Thresholds:
    """How much may be converted at once; None for any amount."""

    messages: int | None = None
    queues: int | None = None


ANY_AMOUNT: Final = Thresholds()
