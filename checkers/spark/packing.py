"""What executors of a cluster need and may lack, in one archive: our package, what it imports, and modules of yours.

Spark unpacks an archive into the folder in which an executor works, before its Python starts. A folder, not a zip to
import from: compiled libraries cannot be imported from a zip, and the digest of the code that judges is of files.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import tarfile
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from typing import IO, Final, cast

import msgspec

from splitbrain.results.atomic import replace_file
from splitbrain.results.errors import HarnessError, UsageError

LIBRARIES: Final = (
    "llvmlite",
    "msgspec",
    "numba",
    "numpy",
    "pandas",
    "pyarrow",
    "python-dateutil",
    "pytz",
    "six",
    "tzdata",
)
"""What checkers import, and PySpark to exchange Arrow tables. Executors have PySpark itself."""

FOLDER: Final = "splitbrain-packed"
"""The folder into which Spark unpacks the archive."""

SUFFIX: Final = ".tar.gz"

_LEFT_OUT: Final = frozenset({"__pycache__", "tests", "include"})
_LEFT_OUT_SUFFIXES: Final = frozenset({".pyc", ".pyi", ".pxd", ".h", ".hpp", ".nbi", ".nbc"})
_LEVEL: Final = 1


class Packed(msgspec.Struct, frozen=True):
    """An archive.

    Attributes:
        path: where it is.
        size_bytes: of the archive.
        contents: names of what is in it, with versions.
    """

    path: str
    size_bytes: int
    contents: list[str]

    @property
    def properties(self) -> dict[str, str]:
        """The properties of Spark that hand it over."""
        return {"spark.archives": f"{self.path}#{FOLDER}", "spark.executorEnv.PYTHONPATH": FOLDER}


def pack(target: Path, modules: Sequence[str] = (), *, only_ours: bool = False) -> Packed:
    """Write the archive.

    Args:
        target: its path; it ends in .tar.gz.
        modules: modules or packages of checkers and models of one's own.
        only_ours: without libraries: executors have them, in the same versions.

    Raises:
        UsageError: the name of the archive is none for Spark, or a module is not there.
        HarnessError: it cannot be written.
    """
    if not target.name.endswith(SUFFIX):
        raise UsageError(f"{str(target)!r}: Spark unpacks by the name's end: name a file that ends in {SUFFIX}.")
    files: dict[str, Path] = dict(_of_package("splitbrain"))
    contents = ["splitbrain"]
    for name in modules:
        files |= dict(_of_package(name))
        contents.append(name)
    for name in () if only_ours else LIBRARIES:
        try:
            found = distribution(name)
        except PackageNotFoundError:  # an optional dependency of another
            continue
        files |= dict(_of_distribution(name))
        contents.append(f"{name} {found.version}")
    try:
        replace_file(target, lambda aside: _write(files, aside))
    except OSError as error:
        raise HarnessError(f"{target} cannot be written: {error.strerror}. Choose another place.") from error
    return Packed(str(target.absolute()), target.stat().st_size, contents)


def _of_package(name: str) -> Iterator[tuple[str, Path]]:
    """The files of a package or a module that this process can import, by their place in the archive."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None or "." in name:
        raise UsageError(f"--module {name!r}: there is no module of this name here. Name it as in 'import {name}'.")
    if not spec.submodule_search_locations:
        assert spec.origin is not None
        yield Path(spec.origin).name, Path(spec.origin)
        return
    for location in spec.submodule_search_locations:
        root = Path(location)
        for folder, folders, names in os.walk(root, followlinks=True):  # in a checkout ours is a folder of links
            folders[:] = sorted(each for each in folders if each not in _LEFT_OUT)
            for each in sorted(names):
                path = Path(folder) / each
                if path.suffix not in _LEFT_OUT_SUFFIXES and path.is_file():
                    yield f"{name}/{path.relative_to(root).as_posix()}", path


def _of_distribution(name: str) -> Iterator[tuple[str, Path]]:
    found = distribution(name)
    for file in found.files or ():
        place, path = PurePosixPath(str(file)), Path(str(found.locate_file(file)))
        if ".." in place.parts or _LEFT_OUT & {*place.parts} or place.suffix in _LEFT_OUT_SUFFIXES:
            continue
        if path.is_file():
            yield str(place), path


def _write(files: dict[str, Path], target: Path) -> None:
    with (
        target.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, mtime=0, fileobj=file) as packed,
        tarfile.open(fileobj=cast("IO[bytes]", packed), mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for place, path in sorted(files.items()):
            archive.add(path.resolve(), place, recursive=False)
