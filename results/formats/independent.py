"""Independent keys in values: Jepsen's `jepsen.independent` makes every client's value a tuple of key and value.

Its tuples are Clojure map entries, which print as `[key value]`: nothing in a file distinguishes them from a cas of two
values, or from an element that is a pair. So the whole history decides (`has_tuples`), or the person who has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeAlias, cast

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from splitbrain.results.arrow import Column, array, compute
from splitbrain.results.columns import distinct, numbers
from splitbrain.results.keys import key_names
from splitbrain.results.values import canonical_json

Bools: TypeAlias = npt.NDArray[np.bool_]
Refuse: TypeAlias = Callable[[int, str], NoReturn]

_PAIRS: Final = msgspec.json.Decoder(list[tuple[Any, Any]])


def has_tuples(asked: Column, answered: Column, f: Column) -> bool:
    """Whether values are `[key value]`, as far as a history shows.

    They are, if every invocation of a client has a list of two, the first of which is neither null nor a list nor an
    object, and every `ok` has such a list or nothing. A plain read is invoked without a value, so one read is enough
    to tell. Where clients only ever `cas`, the second must be a list too. An
    invocation that holds a key and null, as that of a read does, is enough too: `split_tuples` then refuses an answer
    without a key.

    Args:
        asked: JSON values of the clients' invocations.
        answered: JSON values of what completed as `ok`.
        f: functions of the invocations.
    """
    if not len(asked) or asked.null_count:
        return False
    invoked = _pairs(asked)
    if invoked is None:
        return False
    only_cas = compute.unique(f).to_pylist() == ["cas"]
    if not only_cas and any(rest is None for _, rest in invoked):
        return True
    completed = _pairs(answered)
    if completed is None:
        return False
    return not only_cas or all(isinstance(rest, list) for _, rest in (*invoked, *completed))


def _pairs(values: Column) -> list[tuple[Any, Any]] | None:
    """The distinct values that are there, if each may be a tuple; else None."""
    texts: Column = compute.unique(values).drop_null()
    lists: Column = compute.starts_with(texts, "[")
    if compute.all(lists).as_py() is False:
        return None
    try:
        pairs = _PAIRS.decode("[" + ",".join(texts.to_pylist()) + "]")
    except msgspec.ValidationError:
        return None
    return None if any(name is None or isinstance(name, list | dict) for name, _ in pairs) else pairs


def split_tuples(value: Column, tupled: Bools, certain: Bools, refuse: Refuse) -> tuple[Column, Column]:
    """Keys and values of ops whose values are `[key value]`; nulls and untouched values in all other rows.

    Args:
        value: JSON, by row.
        tupled: rows that have a tuple or nothing.
        certain: rows that must have a tuple if they have anything. Elsewhere ("timed-out") it may be anything.
        refuse: called with a row and a problem, to raise.
    """
    encoded: Any = compute.dictionary_encode(value)
    codes = numbers(encoded.indices, null=NONE).astype(np.int64)
    texts: list[str] = encoded.dictionary.to_pylist()
    names: list[str | None] = [None] * (len(texts) + 1)
    rests: list[str | None] = [*texts, None]
    keys: dict[int, object] = {}
    decode = msgspec.json.Decoder().decode
    tuples: list[int] = distinct(codes[tupled & (codes != NONE)]).tolist()
    for code in tuples:
        pair: Any = decode(texts[code])
        if not isinstance(pair, list) or len(cast("list[Any]", pair)) != 2 or pair[0] is None:
            wrong = certain & (codes == code)
            if wrong.any():
                refuse(
                    int(np.argmax(wrong)), f"expected [key value], as of independent keys, found {texts[code][:60]}."
                )
            continue
        name, rest = cast("list[object]", pair)
        keys[code] = name
        rests[code] = None if rest is None else canonical_json(rest)
    for code, text in zip(keys, key_names(keys.values()), strict=True):
        names[code] = text
    rows = np.where(tupled & (codes != NONE), codes, len(texts))
    found = array(rests, pa.string()).take(array(rows))
    return array(names, pa.string()).take(array(rows)), compute.if_else(array(tupled), found, value)


NONE: Final = -1
