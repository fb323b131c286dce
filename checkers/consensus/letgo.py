"""Logs that states let go by themselves: what a state needs in its log must still be there.

    needed    a state said that it needs its log no more up to an entry, and needs one of those
    kept      consumers have messages of a queue that takes their nodes for down: others should have them (QQ-4)
    let-go    a node's log was gone up to an entry up to which no node had said that it is not needed
    base-gone a node's log begins behind an entry, and the node does not have the state there

The state of a queue has its messages in the log, and says itself how much of that it needs no more (QQ-6). A node says
in a row of event "released" what the state let go, and the first entry with a message, counted anew. All nodes with a
group say the same at the same entry. A node that starts again applies entries for a second time, at which the state
needs what a later entry had let go: so what is gone is compared with all that was let go by any node at any time.

A node that goes on from a checkpoint has no entries of before in memory. A follower that lacks them is sent that very
checkpoint, so that it must be on the disk as long as the log begins there. A node looks for it each time that it writes
its state down (rows of event "checkpoint"): that a follower asks for it is much rarer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from splitbrain.checkers.consensus.counts import counts_of
from splitbrain.checkers.consensus.rows import Row, of_group

RELEASED = "released"
CHECKPOINT = "checkpoint"


def released(rows: Iterable[Row]) -> list[tuple[Row, dict[str, int]]]:
    """The rows that say what was let go, with that."""
    return [(row, counts_of(row)) for row in rows if row.event == RELEASED and row.counted]


def too_much(said: Iterable[tuple[Row, dict[str, int]]]) -> Iterator[dict[str, Any]]:
    """What was let go of logs, and was needed; one finding for each kind and group."""
    every = list(said)
    most: dict[str | None, int] = {}
    for row, what in every:
        most[row.group] = max(most.get(row.group, 0), what.get("let_go", 0))
    found: set[tuple[str, str | None]] = set()
    for row, what in every:
        who, let_go, base = f"{row.node}{of_group(row.group)}", what.get("let_go", 0), what.get("base", 0)
        needed = what.get("needed", let_go + 1)
        if needed <= let_go and ("needed", row.group) not in found:
            found.add(("needed", row.group))
            yield {
                "anomaly": "needed",
                "sentence": f"Needed: {who} lets its log go up to entry {let_go} ({row.at}), and needs entry {needed}.",
                "released": row.shown(),
            }
        withheld = what.get("withheld", 0)
        if withheld and ("kept", row.group) not in found:
            found.add(("kept", row.group))
            yield {
                "anomaly": "kept",
                "sentence": (
                    f"Kept: {who} leaves {withheld} messages to consumers on nodes that it suspects ({row.at})."
                ),
                "released": row.shown(),
            }
        if base > most[row.group] and ("let-go", row.group) not in found:
            found.add(("let-go", row.group))
            yield {
                "anomaly": "let-go",
                "sentence": (
                    f"Let go: the log of {who} is gone up to entry {base} ({row.at}), and no node ever said that it "
                    f"needs nothing behind entry {most[row.group]} and before that."
                ),
                "released": row.shown(),
            }


def bases(rows: Iterable[Row]) -> list[tuple[Row, int, bool]]:
    """The rows that say behind which entry a log begins, with that, and whether the state there is on the disk."""
    said = ((row, counts_of(row)) for row in rows if row.event == CHECKPOINT and row.counted)
    return [(row, what.get("base", 0), bool(what.get("there", 1))) for row, what in said]


def bases_gone(said: Iterable[tuple[Row, int, bool]]) -> Iterator[dict[str, Any]]:
    """Logs that begin behind a state which is gone; the first finding of each member of a group."""
    found: set[tuple[str | None, str | None]] = set()
    for row, base, is_there in said:
        if not is_there and (row.node, row.group) not in found:
            found.add((row.node, row.group))
            yield {
                "anomaly": "base-gone",
                "sentence": (
                    f"Base gone: the log of {row.node}{of_group(row.group)} begins behind entry {base}, and the state "
                    f"there is not on its disk ({row.at}): a follower that lacks what is before cannot get it."
                ),
                "checkpoint": row.shown(),
            }
