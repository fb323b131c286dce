"""Which images there are, and which of them are up to date with this checkout. Looks only; builds nothing."""

from __future__ import annotations

from typing import Literal

import docker
import msgspec

from splitbrain.harness.images.build import LATEST, find_image, foundation_key, present_foundation
from splitbrain.harness.images.catalogue import IMAGES, Image, sources
from splitbrain.harness.images.content import content


class ImageState(msgspec.Struct, frozen=True):
    """An image of the catalogue, and what the engine has of it.

    Attributes:
        name: as given to `images build`.
        summary: one line on what it is for.
        state: `up to date`; `out of date`: the engine has one that was built from other files; or `not built`.
        tag: the reference to the image that the engine has; None if it has none.
        size_bytes: its size with everything below it.
        built_at: when it was built, ISO 8601.
    """

    name: str
    summary: str
    state: Literal["up to date", "out of date", "not built"]
    tag: str | None = None
    size_bytes: int = 0
    built_at: str = ""


def wanted_tags(client: docker.DockerClient) -> dict[str, str]:
    """The tag of every image of the catalogue, by name, as this checkout builds it, parents before children.

    Raises:
        ImageBuildError: the checkout is not complete.
    """
    hashes: dict[str | None, str] = {None: present_foundation(client)}
    for image in IMAGES.values():
        below = foundation_key(image, hashes[image.parent])
        hashes[image.name] = content(image, below, sources()).hash
    return {name: f"{image.repository}:{hashes[name]}" for name, image in IMAGES.items()}


def survey(client: docker.DockerClient) -> list[ImageState]:
    """The state of every image of the catalogue, parents before children.

    Raises:
        ImageBuildError: the checkout is not complete.
    """
    return [_state(client, IMAGES[name], tag) for name, tag in wanted_tags(client).items()]


def _state(client: docker.DockerClient, image: Image, tag: str) -> ImageState:
    found, state = find_image(client, tag), "up to date"
    if found is None:
        tag = f"{image.repository}:{LATEST}"
        found, state = find_image(client, tag), "out of date"
    if found is None:
        return ImageState(image.name, image.summary, "not built")
    return ImageState(image.name, image.summary, state, tag, int(found.attrs["Size"]), str(found.attrs["Created"]))
