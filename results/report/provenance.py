"""How to run it again, on what it ran, and which files it left."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from splitbrain.results.text import clip

ARTEFACTS_MAX: Final = 200
"""The largest number of files that are listed."""

_OURS: Final = ("report.html", "controller.lock")


def options_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The options in a test.json."""
    return _dict(document.get("options"))


def command_of(document: Mapping[str, Any]) -> str:
    """The command that repeats the run: as stored, else made from the stored options."""
    stored = document.get("command")
    if isinstance(stored, str) and stored:
        return stored
    words = ["splitbrain", "run"]
    for name, value in options_of(document).items():
        if isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != "":
            words += [f"--{name.replace('_', '-')}", f"{value:g}" if isinstance(value, float) else str(value)]
    return shlex.join(words) if len(words) > 2 else ""


def versions_of(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What ran: splitbrain's own sources, the image of the system under test, and versions of what has a say."""
    found: list[tuple[str, str]] = []
    git = _dict(document.get("git"))
    if git.get("revision"):
        changed = " with local changes" if git.get("dirty") else " without local changes"
        found.append(("sources of splitbrain", clip(git["revision"]) + changed))
    image = _dict(document.get("image"))
    if image.get("id"):
        found.append(("image of the system", f"{clip(image.get('tag'))} = {clip(image['id'])}"))
    found += _surroundings(document)
    versions = _dict(document.get("versions"))
    found += [(name, clip(versions[name])) for name in ("python", "platform") if name in versions]
    others = [f"{name} {version}" for name, version in versions.items() if name not in ("python", "platform")]
    return found + ([("packages", clip(", ".join(others), 600))] if others else [])


def _surroundings(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The machine of the controller when the run began, how links were cut, and the tools of faults."""
    found: list[tuple[str, str]] = []
    machine = _dict(document.get("machine"))
    if machine:
        cpus, usable = machine.get("cpus"), machine.get("cpus_usable")
        processors = f"{clip(cpus)} processors" + (f", {clip(usable)} of them usable" if usable != cpus else "")
        user = "root" if machine.get("root") else "not root"
        load = machine.get("load")
        busy = ", ".join(map(str, cast("list[Any]", load)[:3])) if isinstance(load, list) else "unknown"
        found.append(("machine", f"{processors}, {clip(machine.get('memory_mib'))} MiB of memory, {user}"))
        found.append(("load at the start", f"{clip(busy)} (averages of 1, 5 and 15 minutes)"))
    if document.get("links"):
        found.append(("links are cut by", clip(document["links"])))
    tools = [f"{name}: {said}" for name, said in _dict(document.get("tools")).items()]
    return found + ([("tools", clip("; ".join(tools), 600))] if tools else [])


def artefacts_of(folder: Path, written_now: Mapping[str, int]) -> tuple[list[tuple[str, int]], int]:
    """Files of the run with their sizes in bytes, this page aside; and how many more there are.

    Args:
        folder: of the run.
        written_now: files that are written together with the page, with their sizes.
    """
    sizes = dict(written_now)
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not path.name.startswith(".") and name not in _OURS:
            sizes.setdefault(name, path.stat().st_size)
    found = sorted(sizes.items())
    return found[:ARTEFACTS_MAX], max(len(found) - ARTEFACTS_MAX, 0)


def size(count: int) -> str:
    """Bytes in a few letters."""
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


def _dict(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
