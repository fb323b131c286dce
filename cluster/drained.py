"""Which nodes are being drained, as a client asks for it, whichever store of entities is in force."""

from __future__ import annotations

from typing import Final

from splitbrain.cluster.channel import Channel
from splitbrain.cluster.commands import decode_value, encode_value
from splitbrain.cluster.draining import ASK, PATH, drained
from splitbrain.cluster.groupnames import METADATA
from splitbrain.cluster.pattern_client import seen_nodes
from splitbrain.cluster.patterns import pattern_of
from splitbrain.cluster.tree import GetNodes, TransactRead, Value
from splitbrain.cluster.wire import Request

_RECORDS: Final = pattern_of((*PATH, "*"))


async def drained_nodes(channel: Channel, timeout_ms: int) -> frozenset[str]:
    """Names of the nodes that are being drained; linearizable.

    Where the store in force does not say it, as on a node without tables while they are, or one of an earlier program,
    the tree's records count.

    Raises:
        ClientError: there is no answer.
    """
    half_ms = max(1, timeout_ms // 2)
    answer = await channel.ask(Request(0, half_ms, TransactRead(*ASK, encode_value(None)), group=METADATA))
    if isinstance(answer.outcome, Value):
        return frozenset(decode_value(answer.outcome.data))
    answer = await channel.ask(Request(0, half_ms, GetNodes(_RECORDS, many=True), group=METADATA))
    return drained(found.value for found in seen_nodes(answer).nodes)
