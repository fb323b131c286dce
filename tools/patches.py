"""The mutants in tests/mutants: bugs of the cluster and of its client that are no switches, each one a patch.

    # what: what is broken, in one line
    # source: a paper, an issue or a report; "own" where there is none
    # shows: what a client or an operator sees, and in brackets who can see it
    # missed: why hunts with the default draw do not find it; only where no hunt did
    --- a/cluster/...

A line of the header goes on in lines that begin with "#   ". Which mutants are not looked at before the end of a
comparison (unseen.txt), and on which single ideas are tried (fixed.txt), follows from their names, and from two lists
of exceptions here.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
MUTANTS: Final = ROOT / "tests" / "mutants"

UNSEEN: Final = 12
FIXED: Final = 20

HUNTED_EARLY: Final = (
    "client-broken-connection-definite",
    "links-half-open-refuses-new",
    "segment-written-without-sync",
    "transfer-keeps-lease",
    "vote-sent-before-durable",
    "wal-failed-sync-retried",
)
"""These were among the first by digest, and are not unseen any more: they were hunted before the end, by mistake.

One, `transfer-keeps-lease`, was not hunted: its patch was read in the course of work on the checkers.
"""

WRITTEN_LATE: Final = (
    "election-silence-at-start",
    "keepers-after-load",
    "replication-refusal-names-own-end",
    "transaction-write-before-the-last",
    "triggers-number-after-load",
    "triggers-woken-by-the-first",
)
"""These were written to be unseen, after the four last ones of `HUNTED_EARLY` had been spoiled, and stand first.

By digest alone most of them would be elsewhere, and would move names between the lists that work was done with.
"""

WRITTEN_SEEN: Final = (
    "commit-leaver-counts-itself",
    "deadletters-lost-with-worker",
    "dedup-needed-off-by-one",
    "flags-late-is-undone",
    "keepers-patterns-not-watched",
    "patterns-on-the-way-ignored",
    "queue-client-number-reused",
    "replicas-record-keeps-those-that-left",
    "single-active-quiescing-not-counted",
    "single-active-waiting-stays-suspected",
    "stream-commits-earlier-epochs",
    "stream-confirm-one-early",
)
"""These were written when the lists stood, for what hunts did not exercise or judge then, and are in no list."""

ALLOWED: Final = ("cluster/", "harness/systems/metadata")
"""What a mutant may change: the cluster, its client, and the session with which workloads use that."""

_FIELDS: Final = ("what", "source", "shows")
_MISSED: Final = "missed"
_FIELD: Final = re.compile(r"# ([a-z]+): (.+)")
_MORE: Final = "#   "
_CHANGED: Final = re.compile(r"^\+\+\+ b/(\S+)$", re.MULTILINE)


class PatchError(Exception):
    """A patch has no whole header, changes what is no part of the cluster, or does not apply."""


@dataclass(frozen=True)
class Mutant:
    """One mutant.

    Attributes:
        name: of its file, without the ending.
        what: is broken.
        source: of the bug.
        shows: what it makes visible, and to whom.
        files: that it changes.
        missed: why no hunt found it; empty where one did.
    """

    name: str
    what: str
    source: str
    shows: str
    files: tuple[str, ...]
    missed: str = ""

    @property
    def path(self) -> Path:
        """Of its patch."""
        return MUTANTS / f"{self.name}.patch"


def names() -> list[str]:
    """The names of all mutants, sorted."""
    return sorted(path.stem for path in MUTANTS.glob("*.patch"))


def read(name: str) -> Mutant:
    """The mutant of that name.

    Raises:
        PatchError: there is none, or its patch is not in order.
    """
    path = MUTANTS / f"{name}.patch"
    if not path.exists():
        raise PatchError(f"there is no mutant {name!r}: see {MUTANTS.relative_to(ROOT)}.")
    return parsed(name, path.read_text())


def parsed(name: str, text: str) -> Mutant:
    """The mutant whose patch this is.

    Raises:
        PatchError: it is not in order.
    """
    said: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        found = _FIELD.fullmatch(line)
        if found is not None:
            last = found[1]
            said[last] = found[2]
        elif line.startswith(_MORE) and last:
            said[last] += f" {line.removeprefix(_MORE)}"
        else:
            break
    if tuple(said) not in (_FIELDS, (*_FIELDS, _MISSED)):
        wanted = ", ".join(f"# {field}:" for field in _FIELDS)
        raise PatchError(f"{name}: a patch begins with the lines {wanted}, each with its text, and then the diff.")
    files = tuple(_CHANGED.findall(text))
    if not files or not all(file.startswith(ALLOWED) for file in files):
        what = ", ".join(files) or "nothing"
        raise PatchError(f"{name}: it changes {what}, and may change files of {' and '.join(ALLOWED)} only.")
    return Mutant(name, **said, files=files)


def apply(mutant: Mutant, folder: Path) -> None:
    """Apply a mutant's patch to the files below a folder, in which they have their places.

    Raises:
        PatchError: it does not apply.
    """
    done = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", str(mutant.path)],
        cwd=folder,
        # Whatever repository the folder is in has no say in it.
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.resolve().parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        why = "; ".join(line.removeprefix("error: ") for line in done.stderr.splitlines())
        raise PatchError(
            f"{mutant.name} does not apply to the present code any more ({why}). Make the same bug in "
            f"the present code by hand and write its `git diff` into {mutant.path.relative_to(ROOT)}, below the "
            f"header; or remove the file, and say why, if the bug cannot be made any more."
        )


def by_digest(of: Iterable[str]) -> list[str]:
    """Names in the order of their SHA-256: nobody chose it."""
    return sorted(of, key=lambda name: hashlib.sha256(name.encode()).hexdigest())


def unseen(of: Sequence[str]) -> list[str]:
    """Of all names, those that are not looked at before the end.

    First those written late, by digest; then as many as are missing of the others, by digest, but those hunted early.
    """
    late = _late(of)
    return [*late, *_others(of)[: UNSEEN - len(late)]]


def fixed(of: Sequence[str]) -> list[str]:
    """Of all names, those on which single ideas are tried: the ones that follow."""
    begin = UNSEEN - len(_late(of))
    return _others(of)[begin : begin + FIXED]


def _late(of: Sequence[str]) -> list[str]:
    return by_digest(name for name in of if name in WRITTEN_LATE)


def _others(of: Sequence[str]) -> list[str]:
    return by_digest(name for name in of if name not in (*HUNTED_EARLY, *WRITTEN_LATE, *WRITTEN_SEEN))


def listed(file: str) -> list[str]:
    """The names in a list of names; lines that begin with # are comments."""
    lines = (MUTANTS / file).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]
