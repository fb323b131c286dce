"""The parts of a history that are judged one by one."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa

from splitbrain.results.columns import array, codes, numbers


def by_key(history: pa.Table) -> Iterator[pa.Table]:
    """The client ops of each key, each sorted by index, the smallest partition first; ops without a key are one more.

    Small ones first: a verdict on many keys is there before the time goes into the largest.
    """
    of_clients = numbers(history.column("process")) >= 0
    clients = history if of_clients.all() else history.filter(array(of_clients))
    if not clients.num_rows:
        return
    key, distinct = codes(clients.column("key"))
    if len(distinct) == 1:
        yield clients
        return
    rows = np.argsort(key, kind="stable")
    bounds = np.flatnonzero(np.diff(key[rows], prepend=-1, append=-1))
    grouped = clients.take(array(rows))
    sizes = np.diff(bounds)
    for group in np.argsort(sizes, kind="stable"):
        yield in_order(grouped.slice(int(bounds[group]), int(sizes[group])))


def client_keys(history: pa.Table) -> list[str | None]:
    """The distinct keys of the client ops."""
    key, distinct = codes(history.column("key"))
    used = np.unique(key[numbers(history.column("process")) >= 0]).tolist()
    return [distinct[each] for each in used]


def without_keys(history: pa.Table, keys: Collection[str | None]) -> pa.Table:
    """The history without the client ops of these keys."""
    key, distinct = codes(history.column("key"))
    left_out = np.array([each in keys for each in distinct] or [False], np.bool_)[key]
    return history.filter(array(~left_out | (numbers(history.column("process")) < 0)))


def in_order(history: pa.Table) -> pa.Table:
    """The ops sorted by index."""
    index = numbers(history.column("index"))
    return history if np.all(index[1:] > index[:-1]) else history.sort_by("index")
