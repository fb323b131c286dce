"""The client of quorum queues (`splitbrain.cluster.queueclient.queues`)."""

from splitbrain.cluster.queueclient.consumer import Consumer, Message
from splitbrain.cluster.queueclient.options import Declared, QueueOptions
from splitbrain.cluster.queueclient.publisher import Confirmed, Publisher
from splitbrain.cluster.queueclient.queues import Queues
from splitbrain.cluster.queuegroups.notes import QueueReport

__all__ = ["Confirmed", "Consumer", "Declared", "Message", "Publisher", "QueueOptions", "QueueReport", "Queues"]
