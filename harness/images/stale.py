"""Images that earlier checkouts left in the engine, and their removal.

Every change of what goes into an image makes a new tag; the old ones stay, for containers of theirs may run, and
another checkout may be at work beside this one. An image is stale if its repository is that of an image of the
catalogue (or of the Debian below them), this checkout would give it another tag, and it is not the latest, from which
the next build takes the steps that did not change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from http import HTTPStatus
from typing import Any, cast

import docker
import msgspec
from docker.errors import APIError, ImageNotFound
from docker.models.images import Image as EngineImage

from splitbrain.harness.images import debian
from splitbrain.harness.images.build import LATEST, find_image
from splitbrain.harness.images.catalogue import IMAGES, find
from splitbrain.harness.images.connection import ENGINE_FAILURES, one_line
from splitbrain.harness.images.survey import wanted_tags
from splitbrain.results.errors import ContainerEngineError


class StaleImage(msgspec.Struct, frozen=True):
    """An image that this checkout has no use for.

    Attributes:
        name: of the image in the catalogue; "base" also for what it was built from.
        tag: the reference to it in the engine.
        size_bytes: its size with everything below it, which it may share with others.
        kept: what keeps it from being removed (a container, or an image above it); empty if nothing does.
    """

    name: str
    tag: str
    size_bytes: int
    kept: str = ""


def stale_images(client: docker.DockerClient, names: Collection[str] = ()) -> list[StaleImage]:
    """Stale images, those that stand on others before these. Looks only.

    Args:
        client: the engine.
        names: images of the catalogue whose stale images are returned; empty for all. Those of "base" include what they
            were built from.

    Raises:
        UnknownNameError: there is no such image.
        ContainerEngineError: the engine does not say what it has.
        ImageBuildError: the checkout is not complete.
    """
    chosen = {find(name).name for name in names} or set(IMAGES)
    above_first = reversed(list(IMAGES.values()))
    repositories = {image.repository: image.name for image in above_first} | {debian.REPOSITORY: "base"}
    wanted = {*wanted_tags(client).values(), *map(debian.reference, debian.SUITES)}
    try:
        return [stale for stale in _stale(client, repositories, wanted) if stale.name in chosen]
    except ENGINE_FAILURES as error:
        raise ContainerEngineError(f"the Docker engine does not say what images it has: {one_line(error)}") from error


def prune(client: docker.DockerClient, names: Collection[str] = ()) -> list[StaleImage]:
    """Remove stale images that nothing keeps; all that were stale, with what kept those that are still there.

    Args:
        client: the engine.
        names: as for `stale_images`.

    Raises:
        UnknownNameError: there is no such image.
        ContainerEngineError: the engine does not say what it has, or fails.
        ImageBuildError: the checkout is not complete.
    """
    return [each if each.kept else _removed(client, each) for each in stale_images(client, names)]


def _removed(client: docker.DockerClient, stale: StaleImage) -> StaleImage:
    """Remove an image; if the engine now knows a reason against it, that keeps it."""
    try:
        client.images.remove(stale.tag)
    except ImageNotFound:
        return stale
    except ENGINE_FAILURES as error:
        if isinstance(error, APIError) and error.status_code == HTTPStatus.CONFLICT:
            return msgspec.structs.replace(stale, kept=one_line(error))
        raise ContainerEngineError(f"the Docker engine does not remove {stale.tag}: {one_line(error)}") from error
    return stale


def _stale(client: docker.DockerClient, repositories: Mapping[str, str], wanted: set[str]) -> Iterator[StaleImage]:
    keepers = _containers(client)
    stale: list[tuple[str, str, EngineImage]] = []
    for repository, name in repositories.items():
        for image in client.images.list(name=repository):
            tags = [tag for tag in image.tags if tag.rpartition(":")[0] == repository]
            needed = f"{repository}:{LATEST}" in tags or not wanted.isdisjoint(tags)
            if needed or str(image.id) in keepers:
                _keep_below(client, image, tags[0], keepers)
            if not needed:
                stale += [(name, tag, image) for tag in tags]
    for name, tag, image in stale:
        yield StaleImage(name, tag, int(image.attrs["Size"]), keepers.get(str(image.id), ""))


def _containers(client: docker.DockerClient) -> dict[str, str]:
    """By the id of an image a container that was made from it, whether that runs or not."""
    listed = cast("list[dict[str, Any]]", client.api.containers(all=True))
    return {str(each["ImageID"]): f"container {str(each['Names'][0]).lstrip('/')}" for each in listed}


def _keep_below(client: docker.DockerClient, image: EngineImage, tag: str, keepers: dict[str, str]) -> None:
    """Note that all that an image stands on is kept by it."""
    parent = str(image.attrs.get("Parent", ""))
    while parent:
        keepers.setdefault(parent, f"image {tag}")
        found = find_image(client, parent)
        parent = str(found.attrs.get("Parent", "")) if found is not None else ""
