"""How far a stream's log reaches, and where two logs agree."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Position(msgspec.Struct, frozen=True, array_like=True, order=True):
    """The end of a log. Of two, that with the later epoch is further, and in one epoch that with the higher offset.

    Attributes:
        epoch: of the last chunk, 0 without one.
        offset: of the message that comes next; the first one has offset 0.
    """

    epoch: int
    offset: int


BEGIN = Position(0, 0)
"""The end of an empty log."""


def agreed(one: Sequence[Position], other: Sequence[Position]) -> Position:
    """The end of what two logs have in common.

    Each epoch has one writer, which writes it once. So logs that both have chunks of an epoch are equal up to the
    lower end that it has in them.

    Args:
        one: the end of each epoch in a log, in the order of epochs.
        other: the same of the other log.
    """
    ends = {each.epoch: each.offset for each in one}
    for each in reversed(other):
        if each.epoch in ends:
            return Position(each.epoch, min(each.offset, ends[each.epoch]))
    return BEGIN
