"""The process that Spark forks its Python workers from, with the code that judges loaded: no worker loads it again.

PySpark's own daemon has loaded nothing, so that each worker of each core imports what judges, every checker and Numba,
and loads the compiled kernels: two CPU seconds. Spark starts this module instead (`spark.python.daemon.module`) where
its workers are processes of this machine, which have the packages that this process has.

A worker does not mind that the process that forked it has threads (those of libraries, which wait): every process that
judges is forked beside them, too (`splitbrain.checkers.isolation`).
"""

from __future__ import annotations

import gc
import importlib
import warnings

import pyspark.worker  # noqa: F401  # pyright: ignore[reportUnusedImport]
from pyspark.daemon import manager

import splitbrain.checkers.spark.pipeline  # noqa: F401  # pyright: ignore[reportUnusedImport]
from splitbrain.checkers import linearizable
from splitbrain.checkers.registry import CHECKERS


def main() -> None:
    """Fork workers until Spark ends."""
    for place, _ in CHECKERS.values():
        importlib.import_module(place.partition(":")[0])
    linearizable.warm_up_if_kept()
    # From 3.12 on Python warns of every fork beside threads.
    warnings.simplefilter("ignore", DeprecationWarning)
    gc.freeze()  # a worker that looks for garbage need not copy what all of them share
    manager()


if __name__ == "__main__":
    main()
