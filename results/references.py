"""Which runs of a store something refers to: those are not removed.

A run refers to the one that it was derived from (`derived_from` in its test.json: a replay, a shrunk plan, the run of a
hunt), and its page to the runs that it links to. Text files in the folder of the store itself refer to every run whose
name stands in them: a list of baselines, a comparison that was saved there, a note.

A run whose test.json cannot be read may be derived from any earlier run of its test with its seed, which a derived run
takes over: so it refers to all of them.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.plainfile import refuse_others
from splitbrain.results.rundir import RunDir
from splitbrain.results.values import NOT_JSON

_NAME: Final = rb"(\d{8}T\d{6}\.\d{3}Z-\d+(?:-\d+)?)(_[0-9a-f]{12})?"
"""The name that a run was recorded with, and the digits that a pushed store adds to it."""
_NAMED: Final = re.compile(rb"(?<![\w.])" + _NAME + rb"(?![\w])")
_LINK: Final = re.compile(rb'"\.\./run=' + _NAME + rb"/")
_TEXTS: Final = frozenset({".html", ".json", ".jsonl", ".md", ".txt", ".csv"})
_TEXT_MAX: Final = 64 << 20


class _Document(msgspec.Struct):
    derived_from: str = ""


def references(store: Path, runs: Iterable[Path]) -> dict[str, list[str]]:
    """By the name of a run, who refers to it: the paths of other runs, and of files in the store's own folder.

    Args:
        store: its folder.
        runs: the folders of its runs.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    folders = [run for run in runs if os.path.lexists(run / "test.json") or RunDir(run).recorded()]
    for run in folders:
        of_run = _of_run(run)
        names = of_run if of_run is not None else {_name(each) for each in folders if _may_be_source(each, run)}
        for name in names - {_name(run)}:
            found[name].append(str(run))
    for path in sorted(store.iterdir()):
        if path.suffix in _TEXTS:
            for name in _names(_NAMED, _content(path)):
                found[name].append(str(path))
    return dict(found)


def _name(run: Path) -> str:
    return run.name.removeprefix("run=")


def _may_be_source(run: Path, of: Path) -> bool:
    return run.parent == of.parent and may_be_source(run.name, of.name)


def may_be_source(name: str, of: str) -> bool:
    """Whether a run of a test may be derived from another one, by their names: the time, and the seed."""
    return name < of and seed_in(name) == seed_in(of)


def seed_in(name: str) -> str:
    """The seed in the name of a run, without the digits that a pushed store adds."""
    return name.partition("Z-")[2].partition("_")[0].partition("-")[0]


def _of_run(run: Path) -> set[str] | None:
    """The names of the runs that a run refers to; None if that cannot be read."""
    try:
        derived = msgspec.json.decode(_content(run / "test.json"), type=_Document).derived_from
    except NOT_JSON:
        return None
    return names_in(derived) | _names(_LINK, _content(run / "report.html"))


def is_certain(by: str) -> bool:
    """Whether what `references` names refers to a run, and not only may: its test.json can be read, or it is a file."""
    run = Path(by)
    return not run.is_dir() or _of_run(run) is not None


def names_in(text: str) -> set[str]:
    """The names of runs that stand in a text. One with the digits of a pushed store stands for the recorded one too:
    `splitbrain pull` brings the run under either name."""
    return _names(_NAMED, text.encode())


def _names(pattern: re.Pattern[bytes], text: bytes) -> set[str]:
    found = [(recorded.decode(), digits.decode()) for recorded, digits in pattern.findall(text)]
    return {recorded for recorded, _ in found} | {f"{recorded}{digits}" for recorded, digits in found}


def _content(path: Path) -> bytes:
    try:
        refuse_others(path)
        with path.open("rb") as file:
            return file.read(_TEXT_MAX)
    except (OSError, HistoryFormatError):
        return b""


def kept(going: Iterable[str], referring: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Those of the runs that are to go which something refers to that stays, and what that is.

    Args:
        going: the folders of the runs that are to go.
        referring: what `references` found.
    """
    gone, stay = set(going), dict[str, str]()
    while True:
        found = {
            run: by for run in gone for by in referring.get(Path(run).name.removeprefix("run="), ()) if by not in gone
        }
        if not found:
            return stay
        stay |= found
        gone -= found.keys()
