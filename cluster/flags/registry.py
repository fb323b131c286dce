"""Which feature flags a node knows (FF-1), and in which order those that depend on each other are enabled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from splitbrain.cluster.errors import ArgumentError

Stability: TypeAlias = Literal["experimental", "stable", "required"]
"""Of a flag: it takes an opt-in; it is enabled when asked for; no node can do without it any more."""

FlagState: TypeAlias = Literal["disabled", "state_changing", "enabled"]
"""Of a flag on one node. A flag that was enabled is never disabled again."""


class Flag(msgspec.Struct, frozen=True):
    """A feature flag.

    Attributes:
        name: of it.
        stability: of it.
        depends_on: flags that are enabled before it.
        line: what it switches on.
    """

    name: str
    stability: Stability
    depends_on: tuple[str, ...] = ()
    line: str = ""


class Registry:
    """The flags that a node knows, by name.

    Raises:
        ArgumentError: two have the same name, one depends on what is not known or on itself, or a required one depends
            on one that is not.
    """

    def __init__(self, flags: Iterable[Flag] = ()) -> None:
        self._flags: dict[str, Flag] = {}
        for flag in flags:
            if flag.name in self._flags:
                raise ArgumentError(f"there are two feature flags {flag.name!r}.")
            self._flags[flag.name] = flag
        for flag in self:
            self._check(flag)

    def _check(self, flag: Flag) -> None:
        unknown = [name for name in flag.depends_on if name not in self._flags]
        if unknown:
            raise ArgumentError(f"feature flag {flag.name} depends on {', '.join(unknown)}, which is not known.")
        needed = self.in_order(flag.name)
        if flag.stability == "required" and any(self._flags[each].stability != "required" for each in needed):
            raise ArgumentError(f"feature flag {flag.name} is required, and depends on one that is not.")

    def __iter__(self) -> Iterator[Flag]:
        return iter(self._flags.values())

    def __contains__(self, name: str) -> bool:
        return name in self._flags

    def __getitem__(self, name: str) -> Flag:
        return self._flags[name]

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, sorted."""
        return tuple(sorted(self._flags))

    @property
    def required(self) -> tuple[str, ...]:
        """Those that are enabled from the start, sorted."""
        return tuple(name for name in self.names if self._flags[name].stability == "required")

    def in_order(self, name: str) -> tuple[str, ...]:
        """A flag and all that it depends on, each behind what it depends on itself.

        Raises:
            ArgumentError: it depends on itself.
        """
        done: dict[str, None] = {}
        self._visit(name, (), done)
        return tuple(done)

    def all_in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        """These flags, each behind those of them that it depends on."""
        wanted = sorted(names)
        ordered = dict.fromkeys(each for name in wanted for each in self.in_order(name))
        return tuple(name for name in ordered if name in wanted)

    def _visit(self, name: str, above: tuple[str, ...], done: dict[str, None]) -> None:
        if name in above:
            raise ArgumentError(f"feature flag {name} depends on itself: {' > '.join((*above, name))}.")
        for needed in self._flags[name].depends_on:
            if needed not in done:
                self._visit(needed, (*above, name), done)
        done[name] = None


MAX_PROBES: Final = 999

_EVERY: Final = 4
"""Of so many probes one depends on the probe before it."""


def probe_name(number: int) -> str:
    """The name of a probe, counted from 1."""
    return f"probe_{number:03}"


def probes(count: int) -> tuple[Flag, ...]:
    """Flags that switch nothing on: for tests, as each flag of a cluster can be enabled only once."""
    return tuple(_probe(number) for number in range(1, count + 1))


def _probe(number: int) -> Flag:
    needs = (probe_name(number - 1),) if number % _EVERY == 0 else ()
    return Flag(probe_name(number), "stable", needs, "nothing: a flag for tests")


KHEPRI_DB: Final = "khepri_db"
"""The flag by which the entities of all members are in the tree (M2K-2, D10)."""

BUILT_IN: Final[Mapping[str, Flag]] = {
    flag.name: flag
    for flag in (
        Flag("feature_flags", "required", (), "changes of feature flags themselves"),
        Flag(
            KHEPRI_DB, "experimental", ("feature_flags",), "entities are in the tree; nodes with tables move them there"
        ),
    )
}
"""The flags of this program, without those of tests."""


def registry_of(probe_count: int) -> Registry:
    """What a node knows that is started with so many probes.

    Raises:
        ArgumentError: there cannot be so many.
    """
    if probe_count > MAX_PROBES:
        raise ArgumentError(f"there are at most {MAX_PROBES} probes of feature flags, not {probe_count}.")
    return Registry([*BUILT_IN.values(), *probes(probe_count)])
