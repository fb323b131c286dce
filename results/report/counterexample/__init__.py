"""A violation of linearizability as one HTML page: the ops about the one that fits into no order, drawn.

The page needs no network and no script. With a script, every op of the history can be reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from splitbrain.results.atomic import replace_file
from splitbrain.results.drawable import is_drawable
from splitbrain.results.report.counterexample.page import render

__all__ = ["COUNTEREXAMPLE", "is_drawable", "render", "write_counterexample"]


COUNTEREXAMPLE: Final = "counterexample.html"
"""The page's name in the folder of a run."""


def write_counterexample(
    path: Path, history: pa.Table, evidence: Mapping[str, Any], sentence: str, source: str
) -> None:
    """Write the page.

    Args:
        path: the file.
        history: the whole history, sorted by index, nemesis ops included.
        evidence: that of the verdict (`docs/verdicts.md`).
        sentence: the verdict's sentence.
        source: what was judged, in words: a file, a run.

    Raises:
        HistoryFormatError: the evidence is not of this history.
    """
    html = render(history, evidence, sentence, source)
    replace_file(path, lambda aside: aside.write_text(html, encoding="utf-8"))
