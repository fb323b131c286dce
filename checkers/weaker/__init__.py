"""What a history still is that is not linearizable: sequentially consistent, causally consistent, or neither.

This is no checker of its own: linearizability is judged key by key, and these models are not local, so that the whole
run has to be looked at again, all keys together. `calls` reads it, `reads_from` deduces what is forced (over an `order`
that grows), `causal` looks for bad patterns, `sequential` searches; `models` asks one after the other, within the
`work` that this may cost, and says what came of it. A run's verdict never depends on the answer.
"""

from splitbrain.checkers.weaker.models import ROWS_MAX, too_large, with_models

__all__ = ["ROWS_MAX", "too_large", "with_models"]
