"""The process that Spark forks its Python workers from, with the code that judges loaded: no worker loads it again.

PySpark's own daemon has loaded nothing, so that each worker takes half a CPU second to import what judges. Spark starts
this module instead (`spark.python.daemon.module`) where its workers are processes of this machine: they have the
packages that this process has. It makes no difference to a worker whether the process that forked it has threads
(those of libraries, which wait): every process that judges is forked beside them (`splitbrain.checkers.isolation`).
"""

from __future__ import annotations

import gc
import warnings

from pyspark.daemon import manager

import splitbrain.checkers.spark.pipeline  # noqa: F401  # pyright: ignore[reportUnusedImport]


def main() -> None:
    """Fork workers until Spark ends."""
    # From 3.12 on Python warns of every fork beside threads.
    warnings.simplefilter("ignore", DeprecationWarning)
    gc.freeze()  # a worker that looks for garbage need not copy what all of them share
    manager()


if __name__ == "__main__":
    main()
