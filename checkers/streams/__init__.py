"""What becomes of the messages of streams: does each acknowledged one stay where it is, for all readers?

reading   a history as what was published, and what was seen at which offset
checker   the rules, and the verdict
"""

from splitbrain.checkers.streams.checker import StreamChecker

__all__ = ["StreamChecker"]
