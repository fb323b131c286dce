"""What the page's script needs to answer a click: every op as columns, and the nodes' logs, compressed."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow.compute as pc

from splitbrain.results.calls import OPEN, Ints, ints
from splitbrain.results.columns import array, numbers
from splitbrain.results.report.nodelogs import NodeLog
from splitbrain.results.report.run_view import RunView
from splitbrain.results.report.svg import LEFT, RIGHT, WIDTH
from splitbrain.results.text import clip, visible

OPS_MAX: Final = 100_000
"""The largest number of ops in a page."""

_VALUE_MAX: Final = 48
_ERROR_MAX: Final = 120
_NAME_MAX: Final = 60
_EFFORT: Final = 6
_KINDS: Final = ("ok", "fail", "info", "open")


def packed(view: RunView, logs: Sequence[NodeLog], moments_s: Sequence[float], log_times: str) -> str:
    """Ops and logs as base64 of zlib of JSON; what grows is stored as differences. Every text in it is visible text.

    Args:
        view: the run.
        logs: of the nodes.
        moments_s: of what matters, in seconds; of too many ops those nearest to one are kept.
        log_times: what the times in the logs are, in words.
    """
    chosen = ops_kept(view, moments_s)
    document = {
        "end_s": view.events.end_ns / 1e9,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "width": WIDTH,
        "nodes": [_shown(node, _NAME_MAX) for node in view.nodes],
        "kinds": _KINDS,
        "ops": _ops(view, chosen),
        "log_times": log_times,
        "logs": [_log(log) for log in logs],
    }
    return base64.b64encode(zlib.compress(msgspec.json.encode(document), _EFFORT)).decode()


def ops_kept(view: RunView, moments_s: Sequence[float]) -> Ints:
    """Positions in `calls` of the ops that the page carries: all, or those nearest in time to what matters."""
    total = len(view.calls.invoke)
    if total <= OPS_MAX:
        return np.arange(total)
    begun = ints(view.history, "time")[view.calls.invoke] / 1e9
    moments = np.sort(np.asarray(moments_s or [0.0], dtype=np.float64))
    after = np.minimum(np.searchsorted(moments, begun), len(moments) - 1)
    away = np.minimum(np.abs(moments[after] - begun), np.abs(begun - moments[np.maximum(after - 1, 0)]))
    return np.sort(np.argsort(away, kind="stable")[:OPS_MAX])


def _ops(view: RunView, chosen: Ints) -> dict[str, Any]:
    calls, history = view.calls, view.history
    invoke, complete = calls.invoke[chosen], calls.complete[chosen]
    is_open = complete == OPEN
    last = np.where(is_open, invoke, complete)
    times, index = ints(history, "time"), ints(history, "index")
    kind = np.full(len(chosen), _KINDS.index("open"))
    for number, how in enumerate(_KINDS[:3]):
        kind[calls.ended(how)[chosen] & ~is_open] = number
    return {
        "index": _steps(index[invoke]),
        "until": np.where(is_open, -1, index[last] - index[invoke]).tolist(),
        "begin_us": _steps(times[invoke] // 1000),
        "took_us": np.where(is_open, -1, (times[last] - times[invoke]) // 1000).tolist(),
        "kind": kind.tolist(),
        "process": ints(history, "process")[invoke].tolist(),
        **{
            name: _words(view, column, rows, most)
            for name, column, rows, most in (
                ("node", "node", invoke, _NAME_MAX),
                ("f", "f", invoke, 40),
                ("key", "key", invoke, _VALUE_MAX),
                ("asked", "value", invoke, _VALUE_MAX),
                ("answered", "value", last, _VALUE_MAX),
                ("error", "error", last, _ERROR_MAX),
            )
        },
        "term": [-1 if term is None else term for term in history["term"].take(array(last)).to_pylist()],
    }


def _words(view: RunView, column: str, rows: Ints, most: int) -> dict[str, Any]:
    """A text column as numbers into a list of its different texts; -1 is null. Long texts are cut before all else."""
    cells = view.history[column]
    cut: Any = pc.utf8_slice_codeunits(cells, 0, most + 1).take(array(rows)).combine_chunks()
    coded: Any = cut.dictionary_encode()
    texts = [_shown(text, most) for text in coded.dictionary.to_pylist()]
    return {"texts": texts, "at": numbers(coded.indices, null=-1).tolist()}


def _shown(text: str, most: int) -> str:
    return visible(text[:most]) + ("…" if len(text) > most else "")


def _log(log: NodeLog) -> dict[str, Any]:
    times = [-(10**12) if line.time_s is None else round(line.time_s * 1e6) for line in log.lines]
    return {
        "node": _shown(log.node, _NAME_MAX),
        "file": clip(log.file, 120),
        "total": log.total,
        "time_us": _steps(np.asarray(times, dtype=np.int64)),
        "text": [line.text for line in log.lines],
        "gap": log.gaps,
    }


def _steps(numbers: Ints) -> list[int]:
    return np.diff(numbers, prepend=0).tolist()
