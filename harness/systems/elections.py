"""What a system with elections promises about who answers, and when: what quorum progress is judged by."""

from __future__ import annotations

import msgspec


class Elections(msgspec.Struct, frozen=True, kw_only=True):
    """How a system elects its leaders, and which ops need one.

    A system that has it (`elections`) is judged by `quorum-progress`; one without it is not.

    Attributes:
        timeout_s: after so long without a leader's word a node stands for election at the latest.
        recovery_s: for so long after a change no answer is demanded; None for a multiple of `timeout_s`.
        lease_s: for so long a node that lost its majority may go on to answer.
        local: functions of ops that a node answers by itself, from what it holds.
    """

    timeout_s: float
    recovery_s: float | None = None
    lease_s: float = 0.0
    local: frozenset[str] = frozenset()
