"""What becomes of the messages of queues: does each acknowledged one come out, and nothing else?

reading   a history as columns: what was put in, what came out, and which takes found a queue empty
drains    whether each queue was emptied in the end, so that what is missing is lost
checker   the rules, and the verdict
"""

from splitbrain.checkers.queues.checker import TotalQueue

__all__ = ["TotalQueue"]
