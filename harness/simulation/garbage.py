"""Collections of cyclic garbage while a simulation runs: when it says so, and through what it made itself.

Python collects when enough was allocated, by any code, and runs finalizers then. It also looks through all that the
process holds, of which a simulation needs nothing: so that is frozen when a simulation begins.

Where nothing was frozen before, all of it is given back at the end, and the process is as it was. Where something was
(by a suite of tests once it is collected, by a command), nothing can be given back apart from the rest: what exists is
frozen too, and stays so. Else each run would look through all that was made since: a million objects made a short run
take 75 times as long. What is frozen is freed as ever once nothing refers to it, but garbage in a circle is not: once
as much was added as had been there, all is looked through again.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["collected_by_hand"]


class _Frozen:
    """What stays frozen in this process.

    Attributes:
        settled: how many objects a look through everything left.
        added: how many were frozen since then; some of them may be gone.
        witness: an object that was frozen with the others.
    """

    def __init__(self) -> None:
        self.settled = 0
        self.added = 0
        self.witness: list[None] | None = None

    def is_there(self) -> bool:
        """Whether something is frozen. To count that takes 50 ms where it is much: the witness says it sooner."""
        if self.witness is not None and id(self.witness) not in map(id, gc.get_objects()):
            return True
        self.witness = None
        return gc.get_freeze_count() > 0

    def add(self) -> None:
        """Freeze what exists, apart from garbage."""
        gc.collect()
        if self.witness is None:
            self.witness = []
        self.added += len(gc.get_objects())
        gc.freeze()
        if self.added > self.settled:
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self.settled, self.added = gc.get_freeze_count(), 0


_frozen = _Frozen()


@contextmanager
def collected_by_hand() -> Generator[None]:
    """Have garbage collected only where `gc.collect` is called, and only what exists from now on looked through."""
    collecting, gives_back = gc.isenabled(), not _frozen.is_there()
    gc.disable()
    if gives_back:
        gc.freeze()
    else:
        _frozen.add()
    try:
        yield
    finally:
        if gives_back:
            gc.unfreeze()
        if collecting:
            gc.enable()
