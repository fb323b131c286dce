"""Images by name: which there are, what each stands on, and what of this project goes into it.

An image's Dockerfile is docker/NAME/Dockerfile. It takes its parent as the build argument BASE, and everything that it
copies is named from the root of the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from splitbrain.results.errors import ImageBuildError, UnknownNameError

PACKAGE: Final = Path(__file__).parents[2]
"""The installed package: it has the Dockerfiles and the files that they copy."""


@dataclass(frozen=True)
class Image:
    """An image that `splitbrain images build` can build.

    Attributes:
        name: as given to `images build`; the image is called splitbrain-NAME.
        summary: one line on what it is for.
        parent: the image it is built from; None for the base, which is built from Debian itself.
        files: files and folders of the package that its Dockerfile copies.
        folder: below docker/, where its Dockerfile is; empty for its name.
        suite: of a base, the suite of Debian whose packages it is always made from; None: what the build chooses.
    """

    name: str
    summary: str
    parent: str | None = "base"
    files: tuple[str, ...] = ()
    folder: str = ""
    suite: str | None = None

    @property
    def repository(self) -> str:
        """The image's name in the engine."""
        return f"splitbrain-{self.name}"

    @property
    def dockerfile(self) -> str:
        """The path of its Dockerfile, from the root of the package."""
        return f"docker/{self.folder or self.name}/Dockerfile"


_ALL: Final = (
    Image("base", "Debian with Python, iproute2 and procps", parent=None),
    Image("node", "a node of the metadata cluster", files=("cluster",)),
    Image("etcd", "etcd and etcdctl as Debian packages them"),
    Image("postgresql", "PostgreSQL as Debian packages it"),
    Image("rabbitmq", "RabbitMQ as Debian packages it"),
    Image("base-bookworm", "Debian bookworm, for older releases", parent=None, folder="base", suite="bookworm"),
    Image("rabbitmq-3.10", "RabbitMQ 3.10, of bookworm", parent="base-bookworm", folder="rabbitmq"),
    Image("redis", "Redis and its Sentinel as Debian packages them"),
    Image("zookeeper", "ZooKeeper as Debian packages it"),
    Image(
        "host",
        "a machine with sshd and sudo, for the ssh backend",
        files=("docker/host/start", "docker/host/sshd.conf"),
    ),
)

IMAGES: Mapping[str, Image] = {image.name: image for image in _ALL}


def find(name: str) -> Image:
    """The image of that name.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in IMAGES:
        raise UnknownNameError("image", name, IMAGES)
    return IMAGES[name]


def lineage(name: str) -> list[Image]:
    """The image and its base images, the lowest first.

    Raises:
        UnknownNameError: there is none of that name.
    """
    image = find(name)
    return [*(lineage(image.parent) if image.parent is not None else []), image]


def usual() -> list[str]:
    """The names of the images that are built where none is named: those on the Debian that the build chooses."""
    return [name for name in IMAGES if all(image.suite is None for image in lineage(name))]


def in_build_order(names: Sequence[str]) -> list[Image]:
    """What has to be built to have `names`, parents before children, each once.

    Raises:
        UnknownNameError: there is no image of one of these names.
    """
    return list(dict.fromkeys(image for name in names for image in lineage(name)))


def sources() -> Path:
    """Where the Dockerfiles and what they copy are.

    Raises:
        ImageBuildError: splitbrain was installed without them.
    """
    if not (PACKAGE / "docker").is_dir():
        raise ImageBuildError(
            f"there are no Dockerfiles in {PACKAGE}: reinstall splitbrain, from a wheel or from a checkout."
        )
    return PACKAGE
