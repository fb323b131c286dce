"""Where a run comes from: versions, the revision of the sources, the machine."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from splitbrain import results
from splitbrain.results import plugins

OWN_CODE: Final = "code of "
"""How the name of a version begins that is a digest of the code of a part of another package."""

_LIBRARIES: Final = ("splitbrain", "numpy", "numba", "pyarrow", "pandas", "pyspark", "msgspec")

_WEIGHT: Final = re.compile(r":[0-9.]+$")

_TOOLS: Final = {
    "nft": ("nft", "--version"),
    "iptables": ("iptables", "--version"),
    "mkfs.ext4": ("mkfs.ext4", "-V"),
    "etcd": ("etcd", "--version"),
    "ssh": ("ssh", "-V"),
    "docker": ("docker", "--version"),
}
"""Programs, and how to ask them."""


def versions(document: object = None) -> dict[str, str]:
    """Versions of Python and of the libraries that have a say in a result; of parts of other packages, their code.

    Args:
        document: names the parts in any of its strings, as the options of a run do; None for all parts of this process.
    """
    parts = None if document is None else set(_names_in(document))
    found = {"python": platform.python_version(), "platform": platform.platform()}
    found |= {f"{OWN_CODE}{name}": digest for name, digest in plugins.code(parts).items()}
    for library in _LIBRARIES:
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _names_in(document: object) -> Iterator[str]:
    """All strings, those that list names with commas and weights (mine:EXILE:2,kill) name by name."""
    if isinstance(document, str):
        for name in document.split(","):
            yield from (name, _WEIGHT.sub("", name))
    elif isinstance(document, Mapping):
        for value in cast("Mapping[object, object]", document).values():
            yield from _names_in(value)
    elif isinstance(document, Sequence):
        for value in cast("Sequence[object]", document):
            yield from _names_in(value)


def machine() -> dict[str, Any]:
    """The machine on which this process runs, and how busy it is: what a timeout or a slow run may come from.

    Processors and those that this process may use, memory in MiB, the load averages of 1, 5 and 15 minutes, and whether
    this is root.
    """
    return {
        "cpus": os.cpu_count(),
        "cpus_usable": len(os.sched_getaffinity(0)),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "load": [round(load, 2) for load in os.getloadavg()],
        "root": os.geteuid() == 0,
    }


def tools() -> dict[str, str]:
    """What the tools that carry out faults, and systems of other makers that are installed, say of their versions."""
    with ThreadPoolExecutor(len(_TOOLS)) as pool:
        said = pool.map(_version_of, _TOOLS.values())
    return {name: line for name, line in zip(_TOOLS, said, strict=True) if line}


def _version_of(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = f"{done.stdout}\n{done.stderr}".split("\n")
    return next((line.strip()[:120] for line in lines if line.strip()), "") if done.returncode == 0 else ""


def git_revision() -> dict[str, Any] | None:
    """The commit of splitbrain's sources, and whether files differed from it: of the checkout, or as a wheel says.

    None where neither is there.
    """
    package = Path(results.__file__).resolve().parent
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((package / "revision.json").read_bytes(), type=dict[str, Any])  # of a wheel
    home = package.parent
    top = _git(home, "rev-parse", "--show-toplevel")
    if top is None or Path(top) != home:
        return None
    revision = _git(home, "rev-parse", "HEAD")
    if revision is None:
        return None
    changes = _git(home, "status", "--porcelain", "--untracked-files=no")
    return {"revision": revision, "dirty": changes != ""}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            timeout=10,
            check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None
