"""The client ops of one key on an axis of ranks: the rank of an event is its position among the events of that key.

Linearizability looks at the order of events only, and ranks give every op room on a picture, however long the pauses
between ops are. Times are kept beside the ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from splitbrain.results.calls import OPEN, Ints, client_calls, ints, is_equal
from splitbrain.results.columns import array, codes, valid
from splitbrain.results.text import clip

OK: Final = 0
FAIL: Final = 1
INFO: Final = 2

LABEL_MAX: Final = 60
"""Characters of an op as it stands on its bar."""

_ANSWERING: Final = frozenset({"read", "get", "contains", "dequeue", "pop", "generate"})


@dataclass(frozen=True)
class Bars:
    """Ops by invocation; an element per op in each array, but for those that go by rank.

    Attributes:
        begin: rank of the invocation.
        end: rank of the completion, OPEN where there is none.
        kind: OK, FAIL or INFO; an op that never completed is INFO.
        process: who did it.
        node: the node that it talked to, "" where none is known.
        label: number of its text in `labels`.
        labels: distinct ops in words, e.g. "read → 3".
        time_ns: by rank.
        index: index in the history, by rank.
        left_out: ops of the key that are not among these: only those nearest to the one that matters are kept.
    """

    begin: Ints
    end: Ints
    kind: Ints
    process: Ints
    node: list[str]
    label: Ints
    labels: list[str]
    time_ns: Ints
    index: Ints
    left_out: int

    @property
    def ranks(self) -> int:
        """How many events there are."""
        return len(self.index)

    def text(self, op: int) -> str:
        """An op in words."""
        return self.labels[int(self.label[op])]

    def at(self, indexes: list[int]) -> dict[int, int]:
        """Ops by the index of their invocation, those that are here."""
        by_index = self.index[self.begin]
        order = np.argsort(by_index, kind="stable")
        places = np.searchsorted(by_index[order], indexes)
        found: dict[int, int] = {}
        for wanted, place in zip(indexes, places.tolist(), strict=True):
            if place < len(order) and by_index[order[place]] == wanted:
                found[wanted] = int(order[place])
        return found


def bars(history: pa.Table, key: str | None, around: int, most: int) -> Bars:
    """The client ops of `key`.

    Args:
        history: a whole history, sorted by index.
        key: the key, None for the ops without one.
        around: index of an invocation; of more than `most` ops those about it are kept, nine tenths of them before it.
        most: how many ops are kept.

    Raises:
        HistoryFormatError: completions do not fit invocations.
    """
    ours = ~valid(history["key"]) if key is None else is_equal(history, "key", key)
    table = history.filter(array(ours & (ints(history, "process") >= 0))).combine_chunks()
    calls = client_calls(table)
    begin, end = calls.invoke, calls.complete
    total = len(begin)
    time_ns, index = ints(table, "time"), ints(table, "index")
    first, rank = 0, 0
    if total > most:
        at = int(np.searchsorted(index[begin], around))
        first = max(min(at - most * 9 // 10, total - most), 0)
        rank = int(begin[first])
    chosen = slice(first, first + most)
    begin, end = begin[chosen], end[chosen]
    stop = int(max(begin.max(initial=0), end.max(initial=0))) + 1
    types, names = _codes(table, "type")
    ended = np.where(end == OPEN, -1, types[end])
    kind = np.full(len(begin), INFO, np.int64)
    for name, number in (("ok", OK), ("fail", FAIL)):
        kind[ended == (names.index(name) if name in names else -2)] = number
    label, labels = _labels(table, begin, end, kind)
    nodes, node_names = _codes(table, "node")
    return Bars(
        begin=begin - rank,
        end=np.where(end == OPEN, OPEN, end - rank),
        kind=kind,
        process=ints(table, "process")[begin],
        node=[str(node_names[code] or "") for code in nodes[begin].tolist()],
        label=label,
        labels=labels,
        time_ns=time_ns[rank:stop],
        index=index[rank:stop],
        left_out=total - len(begin),
    )


def _codes(table: pa.Table, column: str) -> tuple[Ints, list[Any]]:
    of_row, texts = codes(table[column])
    return of_row.astype(np.int64), texts


def _labels(table: pa.Table, begin: Ints, end: Ints, kind: Ints) -> tuple[Ints, list[str]]:
    """What was asked and answered, in words: each distinct text once."""
    fs, f_names = _codes(table, "f")
    values, texts = _codes(table, "value")
    width = len(texts) + 1
    answered = np.where(kind == OK, values[end], width - 1)
    combined = (fs[begin] * width + values[begin]) * width + answered
    distinct, label = np.unique(combined, return_inverse=True)
    labels: list[str] = []
    for code in distinct.tolist():
        rest, answer = divmod(code, width)
        f, asked = divmod(rest, width)
        labels.append(
            _words(str(f_names[f]), texts[asked], answer < width - 1, texts[answer] if answer < len(texts) else None)
        )
    return label.astype(np.int64).reshape(-1), labels


def _words(f: str, asked: str | None, completed: bool, answered: str | None) -> str:
    words = f if asked is None else f"{f} {asked}"
    shown = completed and answered != asked and (answered is not None or f in _ANSWERING)
    if shown or (completed and asked is None and f in _ANSWERING):
        words = f"{words} → {'null' if answered is None else answered}"
    return clip(words, LABEL_MAX)
