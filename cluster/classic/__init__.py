"""Classic queues on disk, with delivery limits: an index of journal and segments, and the queue above (CQ-1 to CQ-9).

See docs/queues.md, "Classic queues".
"""

from splitbrain.cluster.classic.index import Index, IndexOptions, Stored, open_index
from splitbrain.cluster.classic.limits import delivery_limit
from splitbrain.cluster.classic.queue import ClassicQueue, DeadLetter, Delivered, Reason, open_queue
from splitbrain.cluster.classic.records import Record, record
from splitbrain.cluster.classic.transformations import Load, Transformations, open_transformations
from splitbrain.cluster.permits import Alarms, Thresholds

__all__ = [
    "Alarms",
    "ClassicQueue",
    "DeadLetter",
    "Delivered",
    "Index",
    "IndexOptions",
    "Load",
    "Reason",
    "Record",
    "Stored",
    "Thresholds",
    "Transformations",
    "delivery_limit",
    "open_index",
    "open_queue",
    "open_transformations",
    "record",
]
