"""What a server says of itself: whether it is primary, on which timeline, and how far its log reaches.

A timeline is to PostgreSQL what a term is to Raft, except that nothing keeps two standbys from beginning the same one:
each promotion begins the next. It is shown as term, and bytes of the log as indices. All comes from one statement.
"""

from __future__ import annotations

from typing import Final

from splitbrain.harness.contract.nodes import NodeId, NodeView
from splitbrain.harness.contract.observing import Observed
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.systems.postgresql.connection import Connection

GROUP: Final = "postgresql"

STATUS: Final = """
select standby,
  case when standby then coalesce(
      (select nullif(received_tli, 0) from pg_stat_wal_receiver), (select timeline_id from pg_control_checkpoint()))
    else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int end,
  case when standby then (select current_setting('splitbrain.follows', true) from pg_stat_wal_receiver
      where status = 'streaming') end,
  (case when standby then coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn(), '0/0')
    else pg_current_wal_flush_lsn() end - '0/0'::pg_lsn)::bigint,
  (case when standby then coalesce(pg_last_wal_replay_lsn(), '0/0')
    else pg_current_wal_flush_lsn() end - '0/0'::pg_lsn)::bigint
from (select pg_is_in_recovery() as standby) as role
"""


async def status(connection: Connection, node: NodeId) -> NodeView:
    """What the server of a node says now; its leader is None while a standby has no connection to it.

    Raises:
        DefiniteError: it does not say.
    """
    row = await connection.row(STATUS, commits=False)
    if row is None:
        raise DefiniteError(f"{node} does not say what it is")
    standby, timeline, follows, received, applied = row
    return NodeView(
        node,
        role="follower" if standby else "leader",
        term=timeline,
        leader=(follows or None) if standby else node,
        commit_index=max(received, applied),
        applied_index=applied,
    )


class PostgresqlObserver:
    """Observes one process of one node: an `Observer`."""

    def __init__(self, connection: Connection, node: NodeId) -> None:
        self._connection = connection
        self._node = node

    async def look(self) -> Observed:
        """What the node says now.

        Raises:
            DefiniteError: it does not say, or the process has ended.
        """
        seen = await status(self._connection, self._node)
        return Observed(
            group=GROUP,
            term=seen.term,
            role=seen.role,
            leader=seen.leader,
            commit=seen.commit_index,
            applied=seen.applied_index,
        )

    async def close(self) -> None:
        """Drop the connection."""
        self._connection.close()
