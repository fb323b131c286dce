"""The client of streams (`splitbrain.cluster.streamclient.streams`)."""

from splitbrain.cluster.streamclient.publisher import StreamPublisher
from splitbrain.cluster.streamclient.streams import ReadMessages, Streams, StreamStatus

__all__ = ["ReadMessages", "StreamPublisher", "StreamStatus", "Streams"]
