"""What clients ask a node about feature flags, and what it answers."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from splitbrain.cluster.flags.registry import FlagState, Stability


class EnableFlag(msgspec.Struct, frozen=True, array_like=True, tag="enable_flag"):
    """Have a feature flag enabled on all members, with what it depends on; answered by a `FlagEnabled`.

    Attributes:
        flag: its name.
        experimental: that it may be an experimental one.
    """

    flag: str
    experimental: bool = False


class IsFlagEnabled(msgspec.Struct, frozen=True, array_like=True, tag="is_flag_enabled"):
    """Query whether a flag is enabled on this node; answered by a `FlagEnabled`, once it does not change."""

    flag: str


class FlagsQuery(msgspec.Struct, frozen=True, array_like=True, tag="flags"):
    """Query all flags of this node; answered at once, by a `FlagList`."""


class FlagEnabled(msgspec.Struct, frozen=True, array_like=True, tag="flag_enabled"):
    """Whether a flag is."""

    enabled: bool


class FlagRow(msgspec.Struct, frozen=True, array_like=True):
    """A feature flag on one node.

    Attributes:
        name: of it.
        state: disabled, state_changing or enabled.
        stability: experimental, stable or required.
        depends_on: flags that are enabled before it.
        line: what it switches on.
    """

    name: str
    state: FlagState
    stability: Stability
    depends_on: tuple[str, ...]
    line: str


class FlagList(msgspec.Struct, frozen=True, array_like=True, tag="flag_list"):
    """The flags of a node.

    Attributes:
        flags: those that it knows, in the order of its program.
        synchronised: whether it has joined completely; if not, more may be enabled in the cluster.
    """

    flags: tuple[FlagRow, ...]
    synchronised: bool


FlagBody: TypeAlias = EnableFlag | IsFlagEnabled | FlagsQuery
