"""What a system with elections promises about who answers, and when: what quorum progress is judged by."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import msgspec

from splitbrain.results.quorum import RECOVERY_ELECTIONS


class Elections(msgspec.Struct, frozen=True, kw_only=True):
    """How a system elects its leaders, and which ops need one.

    A system that has it (`elections`) is judged by `quorum-progress`; one without it is not.

    Attributes:
        timeout_s: after so long without a leader's word a node stands for election at the latest.
        recovery_s: no answer is required for this time after a change; None for RECOVERY_ELECTIONS times `timeout_s`.
        recovery_per_outage: seconds added to the recovery time for each second for which nodes were cut off from each
            other; more than 0 if connections survive a cut.
        outage_limit_s: outages are counted up to this length.
        lease_s: a node that lost its majority may continue to answer for this time.
        lease_setting: the setting without which (or with 0) there are no leases; empty: there always are.
        local: functions of ops that a node answers by itself, from what it holds.
        local_where: the same where a setting has a value: its name, that value, and functions.
        group: in telemetry, the name of the group whose members answer; empty: any group that lasts.
        scaled_by: settings by which the times in seconds grow in proportion, each with the value at which they are as
            given here; at lower values they stay so.
        own_groups: operations by name (`Workload.needs`) that other groups answer, with a pattern of these groups'
            names, as in `fnmatch`, or several.
    """

    timeout_s: float
    recovery_s: float | None = None
    recovery_per_outage: float = 0.0
    outage_limit_s: float = 120.0
    lease_s: float = 0.0
    lease_setting: str = ""
    local: frozenset[str] = frozenset()
    local_where: tuple[tuple[str, int, frozenset[str]], ...] = ()
    group: str = ""
    scaled_by: Mapping[str, int] = {}
    own_groups: Mapping[str, str | tuple[str, ...]] = {}

    def groups_for(self, needs: Collection[str]) -> tuple[str, ...]:
        """The groups that answer a workload with these needs, as patterns of names; none for any group that lasts."""
        named = (self.own_groups[need] for need in sorted(needs) if need in self.own_groups)
        own = tuple(dict.fromkeys(each for one in named for each in ((one,) if isinstance(one, str) else one)))
        others = any(need not in self.own_groups for need in needs)
        if others and not self.group:
            return ()
        return (self.group, *own) if others or (not own and self.group) else own

    def under(self, settings: Mapping[str, int]) -> Elections:
        """The same with the times, and the ops that nodes answer by themselves, of a test with these settings."""
        alone = (fs for name, value, fs in self.local_where if settings.get(name) == value)
        factor = math.prod(max(1.0, settings.get(name, at) / at) for name, at in self.scaled_by.items())
        return msgspec.structs.replace(
            self,
            timeout_s=factor * self.timeout_s,
            recovery_s=None if self.recovery_s is None else factor * self.recovery_s,
            lease_s=factor * self.lease_s,
            local=self.local.union(*alone),
        )

    def lease_in_force_s(self, settings: Mapping[str, int]) -> float:
        """The lease of a test with these settings, in seconds."""
        return self.lease_s if not self.lease_setting or settings.get(self.lease_setting) else 0.0

    @property
    def bound_s(self) -> float:
        """The bound in force: on recovery, and on how long replicas may differ after the last request."""
        return RECOVERY_ELECTIONS * self.timeout_s if self.recovery_s is None else self.recovery_s
