"""How many processes do the work of a command. Apart, since a command that judges need not load what makes tests."""

from __future__ import annotations

import os

from splitbrain.results.errors import UsageError


def cores(jobs: int | None) -> int:
    """The number of worker processes: as given, else one per core.

    Raises:
        UsageError: that is no number of processes.
    """
    if jobs is not None and not 1 <= jobs <= 256:
        raise UsageError(f"--jobs {jobs}: give 1 to 256 worker processes.")
    return jobs or len(os.sched_getaffinity(0))
