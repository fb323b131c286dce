"""Operators' changes of the members of a queue: begun in its record, and made by the node that leads it."""

from __future__ import annotations

from typing import Final

from splitbrain.cluster.errors import (
    ChangeRefusedError,
    ClientError,
    OutcomeUnknownError,
    QueueNotFoundError,
    UnavailableError,
)
from splitbrain.cluster.members import node_of
from splitbrain.cluster.queueclient.connection import Ends, QueueConnection, pause
from splitbrain.cluster.queuegroups.records import BEGIN_CHANGE, Change, ChangeKind, QueueRecord
from splitbrain.cluster.tree import text_name

WORDS: Final = {
    "already_member": "it takes part already",
    "below_target": "too few live replicas would be left",
    "draining": "it is being drained",
    "no_majority_without_it": "those that are left would have no majority that runs",
    "no_member_of_the_cluster": "it is no member of the cluster",
    "not_member": "it does not take part",
    "not_running": "the leader of the queue does not reach it",
}
"""Why a change comes to nothing."""


async def change(connection: QueueConnection, name: str, kind: ChangeKind, node: str, ends: Ends) -> Change:
    """Change the members of a queue, and wait until that is done.

    Raises:
        QueueNotFoundError: there is none of that name.
        ChangeRefusedError: nothing changes.
        UnavailableError: another change was under way until the time was over.
        OutcomeUnknownError: the change may be made yet.
    """
    while True:
        record = await connection.record(name, ends.left_ms, anew=True)
        member = await _member(connection, record, kind, node)
        if member is None:
            raise _refused(name, kind, node, "not_member" if kind == "shrink" else "no_member_of_the_cluster")
        data = [name, record.group, None, kind, member, "operator", text_name(node), True]
        (outcome, number), term = await connection.transact(BEGIN_CHANGE, data, ends.left_ms)
        if outcome == "begun":
            return await _ended(connection, name, record.group, number, ends)
        if outcome == "no_queue":
            raise QueueNotFoundError(f"there is no queue {name} any more.", term)
        if outcome != "under_way":
            raise _refused(name, kind, node, outcome)
        if ends.are_over:
            raise UnavailableError(f"queue {name}: another change of its members is under way: try again later.", term)
        await pause()


async def _member(connection: QueueConnection, record: QueueRecord, kind: ChangeKind, node: str) -> str | None:
    """The id under which a node joins, or takes part."""
    known = record.members if kind == "shrink" else await connection.members()
    return next((member for member in reversed(known) if node_of(member) == node), None)


async def _ended(connection: QueueConnection, name: str, group: str, number: int, ends: Ends) -> Change:
    while not ends.are_over:
        try:
            record = await connection.record(name, ends.left_ms, anew=True)
        except QueueNotFoundError:
            break
        except ClientError:
            await pause()
            continue
        if record.group != group:
            break
        found = next((each for each in record.changes if each.number == number), None)
        if found is not None and found.outcome == "done":
            return found
        if found is not None:
            raise _refused(name, found.kind, node_of(found.member), found.outcome or "")
        await pause()
    raise OutcomeUnknownError(f"queue {name}: the change of its members is under way, and may be made yet.")


def _refused(name: str, kind: ChangeKind, node: str, outcome: str) -> ChangeRefusedError:
    what = f"{node} {'does not join' if kind == 'grow' else 'does not leave'} queue {name}"
    return ChangeRefusedError(f"{what}: {WORDS.get(outcome, outcome)}.", None, outcome)
