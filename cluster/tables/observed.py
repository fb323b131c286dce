"""What a node of the table store reports of itself: lines of telemetry, a JSON object each.

    {"wall": ns since the epoch, "mono": ns, "event": "sees", "role": "running", "members": ["n1", "n2"],
     "counted": {"n3": 1}, "count": 2, "leader": null, "raised_by": null}

`role` is the phase of its database, `members` are the nodes that are not down for it, itself included, `counted` has
those whose databases run apart from its own (each with a 1), and `count` is how many connections of clients it has,
unless the event says otherwise.
Events:

    start     a process begins. `raised_by` is the strategy; `members` are the nodes that pause-if-all-down lists;
              `counted` has the tick time as `net_tick_ms`, and the number of all nodes as `nodes`
    sees      what is in `role`, `members` or `counted` has changed: the state after an event is carried out as a whole
    lost      its session with `leader` has ended, so that it takes that node for down (MN-2). `count` is for how many
              milliseconds no frame of that session had come: longer than the tick time, unless the other side ended
              the session, its process ended, or this one did it on purpose
    look      the same again, once a second while the database is stopped or runs apart from others
    partial   it has learned that a node which is down for it, `raised_by`, is not for `leader`; what it does follows
    pauses    its strategy has stopped the database
    loses     autoheal has stopped the database, to take over the tables of `leader`
    resumes   its strategy has started the database
    serves    the database serves from now on, with tables of `leader`: another node, or its own
    answers   `leader` has answered to this node, which decides who wins: `members`, `counted` and `count` are of the
              answer
    decides   this node has decided: `leader` is the winner, `members` are all that lose. Its answers came before
    end       the process ended, also if it was killed; only in a simulation
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from splitbrain.cluster.runtime import Clock


class Observed(msgspec.Struct, frozen=True):
    """One line; see the module."""

    event: str
    role: str | None
    members: tuple[str, ...]
    counted: dict[str, int]
    count: int | None = None
    leader: str | None = None
    raised_by: str | None = None


def apart(nodes: Iterable[str]) -> dict[str, int]:
    """Nodes that run apart, as a line has them."""
    return dict.fromkeys(sorted(nodes), 1)


def line(observed: Observed, clock: Clock, group: str | None = None) -> bytes:
    """The raw line, with a `group` where the node has lines of consensus, too."""
    about: dict[str, Any] = msgspec.structs.asdict(observed)
    if group is not None:
        about["group"] = group
    return msgspec.json.encode({"wall": clock.wall_ns(), "mono": clock.monotonic_ns(), **about})
