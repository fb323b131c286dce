"""What becomes of the messages of queues: does each acknowledged one come out, and nothing else?

reading        a history as columns: what was put in, what came out, and which takes found a queue empty
drains         whether each queue was emptied in the end, so that what is missing is lost
order          whether each publisher's values came out in their order
checker        the rules, and the verdict
calm           when no fault can have moved a consumer
poison         messages that kill consumers are delivered up to a limit, and then are dead letters
letters        what became of each message of a queue that has dead letters, read from a history
letter_rules   the verdict on such queues: rules that poison and dead_letters share
dead_letters   messages that are rejected, expire or exceed a limit are dead letters for that reason
single_active  one consumer at a time is given messages
"""

from splitbrain.checkers.queues.checker import TotalQueue
from splitbrain.checkers.queues.dead_letters import DeadLetters
from splitbrain.checkers.queues.poison import Poison
from splitbrain.checkers.queues.single_active import SingleActive

__all__ = ["DeadLetters", "Poison", "SingleActive", "TotalQueue"]
