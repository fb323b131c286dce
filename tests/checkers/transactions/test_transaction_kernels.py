"""Kernels of transactions are compiled ahead."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from splitbrain.checkers import transactions
from splitbrain.checkers.kernels import Kernel
from splitbrain.checkers.transactions import warm


def kernels() -> Iterator[Kernel]:
    """All kernels of the package."""
    for info in pkgutil.walk_packages(transactions.__path__, f"{transactions.__name__}."):
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, Kernel) and value.__module__ == info.name:
                yield value


def test_after_the_warm_up_every_kernel_is_compiled_or_part_of_one_that_is() -> None:
    warm.warm_up()
    every = list(kernels())
    called = [name for each in every for name in each.py_func.__code__.co_names]
    late = [f"{each.__module__}.{each.__name__}" for each in every if not each._loaded and each.__name__ not in called]  # pyright: ignore[reportPrivateUsage]
    assert len(every) > 20
    assert late == []
