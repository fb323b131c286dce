"""Build images, each once: an image whose tag, the hash of what goes into it, exists in the engine is up to date."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import Any, Final

import docker
from docker.errors import APIError, ImageNotFound
from docker.models.images import Image as EngineImage

from splitbrain.harness.images import debian
from splitbrain.harness.images.catalogue import Image, find, in_build_order, lineage, sources
from splitbrain.harness.images.connection import ENGINE_FAILURES, engine, one_line
from splitbrain.harness.images.content import Content, content
from splitbrain.results.errors import ContainerEngineError, ImageBuildError, ImageMissingError

FOUNDATION_LABEL: Final = "splitbrain.foundation"
STEPS_LABEL: Final = "splitbrain.steps"
LATEST: Final = "latest"

_FROM_PACKAGES: Final = "debootstrap"
_SILENCE_S: Final = 300
"""How long a build may say nothing: one package that takes long to unpack, not a dead mirror."""
_KEPT_LINES: Final = 5

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_OF_THE_BUILDER: Final = (" ---> ", "Removing intermediate container ")

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Foundation:
    """The Debian that the base is built from.

    Attributes:
        key: what the base's hash has of it: `debootstrap SUITE`, or a registry's reference with the image's id.
        reference: the image's name in the engine.
        suite: which suite's packages to make it from, where the engine has none of that name; None: it is a registry's.
    """

    key: str
    reference: str
    suite: str | None = None


@dataclass(frozen=True)
class Built:
    """An image that is up to date now.

    Attributes:
        name: the image's name in the catalogue.
        tag: the reference to it in the engine.
        fresh: whether it had to be built.
    """

    name: str
    tag: str
    fresh: bool


def ensure(name: str, client: docker.DockerClient | None = None) -> str:
    """The tag of an image `name` that is up to date with this checkout.

    Where only files of this project changed since the image was built, it is built again, which takes seconds. Packages
    are not installed from here: that takes longer, and needs a network.

    Args:
        name: an image of the catalogue.
        client: the engine to ask; by default one is connected to for this call.

    Raises:
        UnknownNameError: there is no such image.
        ImageMissingError: it, or what it stands on, is not built, or was built from other packages.
        ImageBuildError: its files could not be put into it.
        ContainerEngineError: no engine can be used.
    """
    with ExitStack() as stack:
        client = client or stack.enter_context(closing(engine()))
        tag = ""
        for image, made_of, parent in _wanted(client, name):
            tag = f"{image.repository}:{made_of.hash}"
            if find_image(client, tag) is None:
                _refuse_slow(client, name, image, made_of)
                _run(client, image, made_of, parent, {}, _silent)
        return tag


def refuse_missing(name: str) -> None:
    """Refuse an image that `ensure` would refuse; nothing is built.

    Raises:
        UnknownNameError: there is no such image.
        ImageMissingError: it, or what it stands on, is not built, or was built from other packages.
        ContainerEngineError: no engine can be used.
    """
    with closing(engine()) as client:
        for image, made_of, _ in _wanted(client, name):
            if find_image(client, f"{image.repository}:{made_of.hash}") is None:
                _refuse_slow(client, name, image, made_of)


def _wanted(client: docker.DockerClient, name: str) -> Iterator[tuple[Image, Content, str]]:
    """An image and what it stands on, from the base up: what each is made of, and the tag of the one below it."""
    parent, parent_hash = "", present_foundation(client)
    for image in lineage(name):
        made_of = content(image, foundation_key(image, parent_hash), sources())
        yield image, made_of, parent
        parent, parent_hash = f"{image.repository}:{made_of.hash}", made_of.hash


def build(
    client: docker.DockerClient,
    names: Sequence[str],
    foundation: Foundation,
    progress: Callable[[Image], Progress],
    done: Callable[[Built], None],
    *,
    rebuild: bool = False,
) -> None:
    """Build images and what they stand on, as far as they are not up to date.

    Args:
        client: the engine.
        names: images of the catalogue.
        foundation: what the base is built from.
        progress: called as an image's build begins; what it returns is called with each line that the build says.
        done: called with each image, in build order.
        rebuild: build what is up to date too: packages may have become newer, which no hash shows.

    Raises:
        UnknownNameError: there is no such image.
        ImageBuildError: a step failed. Images that were done before it stay.
    """
    hashes: dict[str | None, str] = {None: foundation.key}
    for image in in_build_order(names):
        made_of = content(image, foundation_key(image, hashes[image.parent]), sources())
        hashes[image.name] = made_of.hash
        tag = f"{image.repository}:{made_of.hash}"
        present = find_image(client, tag)
        fresh = rebuild or present is None
        if present is not None and not fresh:
            present.tag(image.repository, LATEST)
        else:
            say = progress(image)
            if image.parent is not None:
                parent, labels = f"{find(image.parent).repository}:{hashes[image.parent]}", {}
            else:
                below = foundation if image.suite is None else of_packages(image.suite)
                parent, labels = below.reference, {FOUNDATION_LABEL: below.key}
                if below.suite is not None and (rebuild or find_image(client, parent) is None):
                    debian.bootstrap(client, below.suite, say)
            _run(client, image, made_of, parent, labels, say, cached=not rebuild)
            if present is not None:
                _remove_unused(client, present)
        done(Built(image.name, tag, fresh=fresh))


def choose_foundation(client: docker.DockerClient, base: str | None, suite: str | None) -> Foundation:
    """What the base is to be built from: `base`, a registry's image (fetched if it is not in the engine), or Debian's
    packages of `suite`; if neither is given, what the present base was built from, at first trixie's packages.

    Raises:
        ImageBuildError: the registry's image cannot be had.
    """
    if base is not None:
        try:
            image = find_image(client, base) or client.images.pull(*_reference(base))
        except ENGINE_FAILURES as error:
            raise ImageBuildError(f"cannot fetch {base}: {one_line(error)}") from error
        return Foundation(f"{base} {image.id}", base)
    if suite is None:
        key = present_foundation(client)
        word = key.partition(" ")[0]
        if word and word != _FROM_PACKAGES:
            return Foundation(key, word)
        suite = key.removeprefix(f"{_FROM_PACKAGES} ") or debian.DEFAULT_SUITE
    return of_packages(suite)


def of_packages(suite: str) -> Foundation:
    """Debian from the packages of a suite."""
    return Foundation(f"{_FROM_PACKAGES} {suite}", debian.reference(suite), suite)


def foundation_key(image: Image, below: str) -> str:
    """The hash of what an image stands on: that of its own suite, or else `below`, that of its parent or foundation."""
    return below if image.suite is None else of_packages(image.suite).key


def present_foundation(client: docker.DockerClient) -> str:
    """The key of what the engine's latest base was built from; "" if it has no base."""
    base = find_image(client, f"{find('base').repository}:{LATEST}")
    return str(base.labels.get(FOUNDATION_LABEL, "")) if base is not None else ""


# --- one image --------------------------------------------------------------------------------------------------------


def _refuse_slow(client: docker.DockerClient, wanted: str, image: Image, made_of: Content) -> None:
    """Leave it to the user to build what is not a matter of copying files.

    Raises:
        ImageMissingError: it is not.
    """
    latest = find_image(client, f"{image.repository}:{LATEST}")
    if latest is None:
        raise ImageMissingError(wanted)
    if latest.labels.get(STEPS_LABEL) != made_of.steps:
        raise ImageMissingError(
            wanted, "is out of date" if image.name == wanted else f"has an old {image.name} below it"
        )


def _run(
    client: docker.DockerClient,
    image: Image,
    made_of: Content,
    parent: str,
    labels: dict[str, str],
    say: Progress,
    *,
    cached: bool = True,
) -> None:
    """Have the engine build `image`, and tag it with its hash and as the latest."""
    step, failure = "the first step", None
    last: deque[str] = deque(maxlen=_KEPT_LINES)
    try:
        events: Any = client.api.build(
            fileobj=made_of.archive(),
            custom_context=True,
            tag=f"{image.repository}:{made_of.hash}",
            buildargs={"BASE": parent},
            labels={**labels, STEPS_LABEL: made_of.steps},
            nocache=not cached,
            rm=True,
            forcerm=True,
            decode=True,
            timeout=_SILENCE_S,
        )
        for event in events:
            for line in _COLOUR.sub("", str(event.get("stream", ""))).splitlines():
                if line.startswith("Step "):
                    step = line
                    last.clear()
                elif line.strip() and not line.startswith(_OF_THE_BUILDER):
                    last.append(line.strip())
                say(line)
            # The last event; but the stream is read to its end, so that its connection can be used again.
            failure = event.get("error", failure)
        if failure is not None:
            said = " | ".join([*last, str(failure).strip()])
            raise ImageBuildError(f"image {image.name} does not build. {step}: {said}")
        client.images.get(f"{image.repository}:{made_of.hash}").tag(image.repository, LATEST)
    except ENGINE_FAILURES as error:
        raise ImageBuildError(f"image {image.name} does not build. {step}: {one_line(error)}") from error


def _remove_unused(client: docker.DockerClient, replaced: EngineImage) -> None:
    """Remove an image that lost its tag to a newer one, if no container and no other image stands on it."""
    with suppress(APIError):
        client.images.remove(str(replaced.id))


def find_image(client: docker.DockerClient, reference: str) -> EngineImage | None:
    """The image of that name in the engine; None if it has none.

    Raises:
        ContainerEngineError: the engine does not say.
    """
    try:
        return client.images.get(reference)
    except ImageNotFound:
        return None
    except ENGINE_FAILURES as error:
        raise ContainerEngineError(
            f"the Docker engine does not say whether it has {reference}: {one_line(error)}"
        ) from error


def _reference(text: str) -> tuple[str, str]:
    """A registry's reference as name and tag. (A colon before a slash is a port.)"""
    name, colon, tag = text.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (text, LATEST)


def _silent(line: str) -> None:
    """Shows nothing."""
