"""What a worker process does before its first task."""

from __future__ import annotations

import pyarrow as pa

from splitbrain.checkers import linearizable


def warm_up() -> None:
    """Load the kernels, and limit the libraries to one core: every core has its own process."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    linearizable.warm_up()
