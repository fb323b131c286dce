"""Why a node ended, as far as its log says it."""

from __future__ import annotations

import re
from typing import Final

_FAILED: Final = re.compile(r"^BOOT FAILED$", re.MULTILINE)
"""The broker writes the reason twice: with a stamp on each line, as all it logs, and without."""

_STAMPED: Final = re.compile(r"\d{4}-\d\d-\d\d ")
_CAUSE: Final = re.compile(
    r"\[error\] <[\d.]+> +(?:- (?P<file>.+ invalid.*)|Failed to start Ranch listener .* for reason (?P<port>.*))"
)
_CAUSE_WITHIN: Final = 60_000
"""Characters before the failure in which its cause is looked for. Reports of processes that crashed are between."""

_DUMP: Final = "Crash dump is being written"


def last_words(log: str) -> str:
    """Why the node that wrote this ended, in one line; an empty text if it wrote nothing.

    The last lines are about a dump, or are a term of Erlang's of some kilobytes.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip() and not line.startswith(_DUMP)]
    last = lines[-1] if lines else ""
    failed = next(reversed([*_FAILED.finditer(log)]), None)
    if failed is None or last.startswith("splitbrain: ") or _goes_on(log[failed.end() :]):
        return last
    began = max(0, failed.start() - _CAUSE_WITHIN, log.rfind(_DUMP, 0, failed.start()))
    causes = [*_CAUSE.finditer(log, began, failed.start())]
    cause = [causes[-1]["file"] or causes[-1]["port"]] if causes else []
    return ": ".join([*cause, _said(log[failed.end() :])]) or last


def _goes_on(text: str) -> bool:
    """Whether the node was started again after what failed."""
    return any(line.strip() for line in text.partition(_DUMP)[2].splitlines()[1:])


def _said(text: str) -> str:
    """What is said below the words that the start failed, as one line."""
    said: list[str] = []
    for line in text.splitlines():
        if _STAMPED.match(line) or line.startswith("==="):
            continue
        if said and not line.strip():
            break
        said += line.split()
    return " ".join(said)
