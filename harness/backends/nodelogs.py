"""The ends of nodes' logs, as errors and evidence quote them."""

from __future__ import annotations

from pathlib import Path

LINES_SHOWN = 8
CHARACTERS_SHOWN = 300


def last_lines(text: str, lines: int = LINES_SHOWN) -> str:
    """The last lines of a text, as one line."""
    return " | ".join(line.strip() for line in text.splitlines()[-lines:] if line.strip()) or "(nothing)"


def log_end(log: Path, start: int = 0, lines: int = LINES_SHOWN) -> str:
    """The last lines that were logged from a position on, as one line."""
    try:
        return last_lines(log.read_bytes()[start:].decode(errors="replace"), lines)
    except OSError:
        return last_lines("")
