"""Code that blocks the event loop of a run: nothing else happens meanwhile, no op ends and no fault is healed.

Who watches for it is `splitbrain.harness.campaigns.turns`; here is the error with which such code is broken off.
"""

from __future__ import annotations


class BlockedError(BaseException):
    """Raised inside code of a plug-in that blocks the event loop. The message names its line.

    Not an Exception: a client that takes every exception for a refusal would turn it into a `fail`, although its
    request may have been carried out.
    """
