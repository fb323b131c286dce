"""Published histories whose linearizability is known, judged as anybody's are.

    python -m tests.checkers.linearizable.published FOLDER      (or SPLITBRAIN_CORPORA)

One row per history, and how many came out otherwise than their manifest says.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from splitbrain.checkers.engine import judge
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.formats import read_table

SOURCES: Final = {
    "porcupine-etcd": "cas-register",
    "porcupine-kv": "kv",
    "knossos": "cas-register",
    "synthetic-cas": "cas-register",
    "elle-cli": "cas-register",
}
"""Folder: model of its histories. In elle-cli only those are meant that its manifest says are for a cas-register."""


@dataclass(frozen=True)
class Published:
    """A history with the verdict of its manifest."""

    source: str
    file: str
    model: str
    expected: bool

    def judged(self, folder: Path) -> tuple[int, Verdict]:
        """How many ops it has, and our verdict."""
        table = read_table(folder / self.source / self.file)
        [verdict] = judge(table, [CheckerSpec("linearizable", {"model": self.model})])
        return verdict.figures["ops"], verdict


def published(folder: Path, source: str) -> list[Published]:
    """The histories of one source."""
    entries: list[dict[str, Any]] = json.loads((folder / source / "MANIFEST.json").read_text(encoding="utf-8"))["files"]
    return [
        Published(source, entry["file"], SOURCES[source], entry["expected"])
        for entry in entries
        if source != "elle-cli" or entry["model"] == "cas-register"
    ]


def rows(folder: Path, sources: Iterable[str] = tuple(SOURCES)) -> Iterator[tuple[bool, str]]:
    """For each history whether its verdict is the manifest's, and a row for people."""
    for source in sources:
        for each in published(folder, source):
            ops, verdict = each.judged(folder)
            expected = "true" if each.expected else "false"
            right = verdict.valid == expected
            row = (source, each.file, ops, expected, verdict.valid if right else f"{verdict.valid} WRONG")
            yield right, f"| {' | '.join(map(str, row))} | {verdict.algorithm} | {verdict.seconds:.4f} |"


def main() -> int:
    """Print the table; the exit code is 1 if a verdict is wrong."""
    folder = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("SPLITBRAIN_CORPORA")
    if folder is None:
        sys.stderr.write("Give the folder of the published histories, or set SPLITBRAIN_CORPORA.\n")
        return 254
    sys.stdout.write("| source | history | ops | expected | verdict | algorithm | CPU s |\n")
    sys.stdout.write("| --- | --- | --- | --- | --- | --- | --- |\n")
    wrong = total = 0
    for right, row in rows(Path(folder)):
        sys.stdout.write(row + "\n")
        sys.stdout.flush()
        total += 1
        wrong += not right
    sys.stdout.write(f"{total} histories, {wrong} wrong\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
