"""Ops and histories for the tests of the store."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from splitbrain.results.history import Mop, Op

_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | _INT64 | _TEXT | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=5,
)
_MOPS = st.builds(
    Mop,
    f=st.sampled_from(["r", "w", "append"]),
    key=_TEXT,
    value=st.none() | _INT64,
    values=st.none() | st.lists(_INT64, max_size=3).map(tuple),
)


def _op(index: int, fields: dict[str, Any]) -> Op:
    return Op(index=index, **fields)


_FIELDS = st.fixed_dictionaries(
    {
        "time": st.integers(0, 2**62),
        "process": st.integers(-2, 2**31 - 1),
        "type": st.sampled_from(["invoke", "ok", "fail", "info"]),
        "f": _TEXT,
        "key": st.none() | _TEXT,
        "value": _JSON,
        "mops": st.none() | st.lists(_MOPS, max_size=3).map(tuple),
        "node": st.none() | _TEXT,
        "due": st.none() | _INT64,
        "term": st.none() | _INT64,
        "error": st.none() | _TEXT,
    }
)

histories: st.SearchStrategy[list[Op]] = st.lists(_FIELDS, max_size=12).map(
    lambda rows: [_op(index, row) for index, row in enumerate(rows)]
)
"""Any ops that a history can carry, in any disorder; indexes as in a history."""


def writes(count: int, first: int = 0) -> list[Op]:
    """So many ops, invocations and completions in turn."""
    return [
        Op(
            index=i,
            time=i * 1000,
            process=i // 2 % 5,
            type="invoke" if i % 2 == 0 else "ok",
            f="write",
            key=str(i % 3),
            value=i,
            node=f"n{i % 5}",
        )
        for i in range(first, first + count)
    ]
