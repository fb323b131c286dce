"""What goes into an image, byte for byte: the build context, and the hash that is the image's tag.

The hash covers the parent's hash, the Dockerfile and every file that it may copy (path, whether executable, contents),
and nothing else: neither times nor owners. So the same checkout gives the same tag everywhere, and an image whose tag
exists need not be built.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from splitbrain.harness.images.catalogue import Image
from splitbrain.results.errors import ImageBuildError

_HASH_DIGITS: Final = 12
_LEFT_OUT: Final = frozenset({"__pycache__"})


@dataclass(frozen=True)
class ContextFile:
    """One file of a build context, named from its root with slashes."""

    path: str
    executable: bool
    contents: bytes


@dataclass(frozen=True)
class Content:
    """What an image is made from.

    Attributes:
        dockerfile: the build's instructions.
        files: what the Dockerfile may copy, ordered by path.
        steps: hash of the parent and the Dockerfile: while it stays, a build finds its slow steps done already.
        hash: hash of everything.
    """

    dockerfile: ContextFile
    files: tuple[ContextFile, ...]
    steps: str
    hash: str

    def archive(self) -> io.BytesIO:
        """The build context as a tar file: `Dockerfile` and the files, with neither times nor owners."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for file in (self.dockerfile, *self.files):
                entry = tarfile.TarInfo("Dockerfile" if file is self.dockerfile else file.path)
                entry.size = len(file.contents)
                entry.mode = 0o755 if file.executable else 0o644
                tar.addfile(entry, io.BytesIO(file.contents))
        buffer.seek(0)
        return buffer


def content(image: Image, parent: str, root: Path) -> Content:
    """What `image` is made from in the checkout at `root`, on a parent of which `parent` is the hash.

    Raises:
        ImageBuildError: a file that belongs to it is missing.
    """
    try:
        dockerfile = _read(root, image.dockerfile)
        files = tuple(_read(root, path) for name in image.files for path in _below(root, name))
    except OSError as error:
        raise ImageBuildError(f"image {image.name}: {error.filename}: {error.strerror}.") from error
    steps = _digest((parent, *_fields(dockerfile)))
    return Content(dockerfile, files, steps, _digest((steps, *(field for file in files for field in _fields(file)))))


def _below(root: Path, name: str) -> Iterator[str]:
    """Paths of the files that `name`, a file or a folder, stands for, ordered."""
    if not (root / name).is_dir():
        yield name
        return
    for path in sorted(path for path in (root / name).rglob("*") if path.is_file()):
        relative = path.relative_to(root)
        if _LEFT_OUT.isdisjoint(relative.parts):
            yield relative.as_posix()


def _read(root: Path, name: str) -> ContextFile:
    path = root / name
    return ContextFile(name, bool(path.stat().st_mode & 0o100), path.read_bytes())


def _fields(file: ContextFile) -> tuple[str | bytes, ...]:
    return file.path, "x" if file.executable else "-", file.contents


def _digest(fields: Iterable[str | bytes]) -> str:
    """A hash of `fields` in which each has its length before it: no two lists of fields run together."""
    digest = hashlib.sha256()
    for field in fields:
        data = field.encode() if isinstance(field, str) else field
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:_HASH_DIGITS]
