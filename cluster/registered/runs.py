"""A procedure for triggers: it writes down that it ran, and for what."""

from __future__ import annotations

from typing import Any, Final

from splitbrain.cluster.tree import Functions, Refused

FUNCTIONS: Final = Functions()


@FUNCTIONS.register("run", version=1)
def run(tx: Any, data: Any, event: Any) -> Any:
    """Append to the list at `[*data["to"], NAME]`, where NAME is the last one of the path that changed.

    What is appended is the number of the event, its trigger, and how often the payload of the node at that path has
    changed since it was made (0 if there is none any more); all of it is the result.
    """
    path = event["path"]
    to = (*data["to"], path[-1])
    node = tx.get(path)
    changes = 0 if isinstance(node, Refused) else node.payload_version
    ran = [event["number"], event["trigger"], changes]
    before = tx.value(tx.get(to))
    tx.put(to, [ran] if before is None else [*before, ran])
    return ran
