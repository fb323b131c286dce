"""Which transformations of stored data a node has begun, and whether one is permitted now (CQ-7).

The table says name and version of each. It is not needed to read a file, which says its version itself (CQ-8); it
decides what may be written. A conversion asks each time: a node with an alarm, or with more to convert than its
thresholds allow, refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from splitbrain.cluster.classic.index import IndexOptions
from splitbrain.cluster.errors import ConversionRefusedError
from splitbrain.cluster.log.whole import Form
from splitbrain.cluster.permits import ANY_AMOUNT, Alarms, Thresholds
from splitbrain.cluster.runtime import Disk

NAME: Final = "transformations"
MESSAGE_PROPERTIES: Final = "message_properties"
KNOWN: Final = {MESSAGE_PROPERTIES: 2}
"""The newest version of each, by name."""

_FORM: Final = Form(b"SBCT", 1)


class _Table(msgspec.Struct):
    versions: dict[str, int]


@dataclass(frozen=True)
class Load:
    """What a conversion has to do, on one node."""

    messages: int = 0
    queues: int = 1


@dataclass
class Transformations:
    """The table of a node. Open it with `open_transformations`.

    Attributes:
        alarms: of the node.
        thresholds: of the node.
        versions: of each transformation that was begun, by name.
    """

    disk: Disk
    alarms: Alarms = field(default_factory=Alarms)
    thresholds: Thresholds = ANY_AMOUNT
    versions: dict[str, int] = field(default_factory=dict[str, int])

    def require(self, name: str, load: Load | None = None) -> None:
        """Refuse a step of a transformation that is not permitted now.

        Raises:
            ConversionRefusedError: there is no such transformation, an alarm is active, or there is too much to do.
        """
        if name not in KNOWN:
            raise ConversionRefusedError(f"{name}: no such transformation; there are {', '.join(KNOWN)}.", "unknown")
        if self.alarms.active:
            found = ", ".join(self.alarms.active)
            raise ConversionRefusedError(f"{name}: refused while there is an alarm ({found}): clear it first.", "alarm")
        todo = load or Load()
        for what in ("messages", "queues"):
            most, wanted = getattr(self.thresholds, what), getattr(todo, what)
            if most is not None and wanted > most:
                raise ConversionRefusedError(
                    f"{name}: refused: {wanted} {what} to convert, and at most {most} are permitted: "
                    f"raise the threshold, or ask again when there are fewer.",
                    "threshold",
                )

    def is_permitted(self, name: str, load: Load | None = None) -> bool:
        """Whether a step of a transformation is permitted now."""
        try:
            self.require(name, load)
        except ConversionRefusedError:
            return False
        return True

    async def record(self, name: str) -> None:
        """Note durably that a transformation was begun.

        Raises:
            OSError: it is not known whether it is durable.
        """
        versions = {**self.versions, name: KNOWN[name]}
        await self.disk.replace(NAME, _FORM.encode(_Table(versions)))
        self.versions = versions

    def index_options(self, max_journal_entries: int) -> IndexOptions:
        """How an index of this node works: files of version 2 may be written once that was begun.

        Its conversions ask the table each time.
        """
        begun = self.versions.get(MESSAGE_PROPERTIES, 1) == KNOWN[MESSAGE_PROPERTIES]
        return IndexOptions(max_journal_entries, 2 if begun else 1, self._permit)

    def _permit(self, messages: int) -> None:
        if self.versions.get(MESSAGE_PROPERTIES, 1) < KNOWN[MESSAGE_PROPERTIES]:
            raise ConversionRefusedError(
                f"{MESSAGE_PROPERTIES}: version {KNOWN[MESSAGE_PROPERTIES]} was not begun on this node: enable it.",
                "not_enabled",
            )
        self.require(MESSAGE_PROPERTIES, Load(messages))


async def open_transformations(
    disk: Disk, alarms: Alarms | None = None, thresholds: Thresholds | None = None
) -> Transformations:
    """The table of a node, empty at first.

    Raises:
        CorruptStorageError: it is damaged.
        StorageError: it is of another version.
    """
    content = disk.read(NAME)
    versions = {} if content is None else _FORM.decode(content, NAME, _Table).versions
    return Transformations(disk, alarms or Alarms(), thresholds or Thresholds(), versions)


async def enable(name: str, participants: Sequence[tuple[Transformations, Load]]) -> None:
    """Begin a transformation on several nodes, or on none: all are asked before the first one notes it.

    Raises:
        ConversionRefusedError: one refused; nothing was noted, and all files stay as they are.
        OSError: it is not known where it was noted. Files are converted only where they must be; ask again.
    """
    for table, load in participants:
        table.require(name, load)
    for table, _ in participants:
        await table.record(name)
