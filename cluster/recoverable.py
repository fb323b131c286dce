"""What a node would find if it started on a disk: its groups, their terms, votes and logs, as lines of telemetry.

A simulation asks for it while the node runs, of what a loss of power would leave on the disk at that moment. So a
promise that is not durable shows when it is made, and not only if the power goes in the milliseconds before it is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec

from splitbrain.cluster.arguments import parse
from splitbrain.cluster.bugs import Bugs
from splitbrain.cluster.groupnames import METADATA, group_address
from splitbrain.cluster.log.nodelog import NodeLog, open_node_log
from splitbrain.cluster.log.seen import Seen
from splitbrain.cluster.marks import unnoticed
from splitbrain.cluster.members import node_of
from splitbrain.cluster.raft.invariant import InvariantError
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.runtime import Disk, Rng

RECOVERABLE: Final = "recoverable"
UNRECOVERABLE: Final = "unrecoverable"


class Recoverable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of telemetry without clocks (`splitbrain.cluster.telemetry` has its fields).

    Attributes:
        event: "recoverable"; or "unrecoverable" if the node would refuse to start, in a line of the metadata store.
        problem: why it would.
    """

    event: str
    group: str
    term: int | None = None
    leader: str | None = None
    last: int | None = None
    log_index: int | None = None
    log_term: int | None = None
    problem: str | None = None


def recoverable(argv: Sequence[str], disk: Disk, rng: Rng, seen: Seen | None = None) -> list[Recoverable]:
    """What the node that `argv` starts would recover from a disk, a line for each group.

    Args:
        argv: as for `splitbrain.cluster.embedded.start`.
        disk: it is opened as at a start, and so changed. Nothing of it may wait.
        rng: decides what a start leaves to chance.
        seen: where files of this node may have been read before.

    Raises:
        InvariantError: the disk made the start wait.
    """
    member, bugs = _member(tuple(argv))
    opening = open_node_log(disk, member, rng, lambda _: None, bugs, seen)
    try:
        with unnoticed():
            opening.send(None)
    except StopIteration as done:
        log: NodeLog = done.value
        return [_of_group(log, name) for name in log.groups]
    except Exception as error:  # each kind of error keeps a node from starting
        return [Recoverable(UNRECOVERABLE, METADATA, problem=f"{type(error).__name__}: {error}")]
    opening.close()
    raise InvariantError("The copy of a disk made a start wait: it must do everything at once.")


@lru_cache(maxsize=64)
def _member(argv: tuple[str, ...]) -> tuple[NodeId, Bugs]:
    """Which member the node is that `argv` starts, and its bugs: to read the arguments takes a third of a look."""
    config, _ = parse(argv)
    return config.member, config.bugs


def _of_group(log: NodeLog, name: str) -> Recoverable:
    found, vote = log.found[name], log.found[name].vote
    base = found.meta
    index, term = (base.index, base.term) if base is not None else (0, 0)
    if found.entries:
        index, term = found.entries[-1].index, found.entries[-1].term
    return Recoverable(
        RECOVERABLE,
        group_address(name, log.incarnation(name)),
        term=vote.term,
        leader=None if vote.voted_for is None else node_of(vote.voted_for),
        last=index,
        log_index=index,
        log_term=term,
    )
