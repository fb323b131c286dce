"""Which systems can be put under test on this machine: rows of `splitbrain doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Final, NamedTuple

from splitbrain.harness.backends.local.support import namespaces_problem
from splitbrain.harness.campaigns.doctor import Finding
from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.installed import Release, installed
from splitbrain.harness.systems.catalogue import SYSTEMS, build
from splitbrain.results.errors import SplitbrainError

AREA: Final = "system"
UP_TO_DATE: Final = "up to date"


class _Way(NamedTuple):
    """A way to run a system's nodes: whether it works here, and what was found or what would help."""

    works: bool
    words: str


def systems() -> list[Finding]:
    """A finding for each of the systems that splitbrain has: whether nodes can run as processes, and in containers."""
    images = _images()
    return [_of_system(name, build(name).capabilities, images) for name in SYSTEMS]


def _of_system(name: str, can: Capabilities, images: Mapping[str, str] | str) -> Finding:
    ways = [way for way in (_here(can), _in_containers(can, images)) if way is not None]
    works = any(way.works for way in ways)
    advice = "" if works else "One of these is enough."
    return Finding(AREA, name, works, "; ".join(way.words for way in ways), advice)


def _here(can: Capabilities) -> _Way | None:
    """As processes of this machine; None for a system whose nodes run in containers only."""
    if not can.programs:
        return _Way(True, "here: with this interpreter") if can.simulation is not None else None
    absent = {program: package for program, package in can.programs.items() if installed(program) is None}
    if absent:
        packages = " ".join(dict.fromkeys(absent.values()))
        return _Way(False, f"here: there is no {', no '.join(absent)} (apt install {packages})")
    where = ", ".join(str(installed(program)) for program in can.programs)
    release = None if can.release is None else can.release()
    usable, choice = (True, "") if release is None else _choice(release, can)
    problem = namespaces_problem() if can.one_address else None
    words = where if release is None else f"{release.name} at {where}{choice}"
    lacks = "" if problem is None else f", but one node only, without network namespaces: {problem}"
    return _Way(usable and problem is None, f"here: {words}{lacks}")


def _choice(release: Release, can: Capabilities) -> tuple[bool, str]:
    """Whether a test can be about a release, and how it is chosen, or what can be chosen instead."""
    setting = can.settings[release.setting]
    if release.value is None:
        return False, f", of which there are no tests ({release.setting} is {' or '.join(setting.words)})"
    return True, f" (--settings {release.setting}={setting.text(release.value)})"


def _in_containers(can: Capabilities, images: Mapping[str, str] | str) -> _Way | None:
    if can.image is None:
        return None
    if isinstance(images, str):
        return _Way(False, f"in containers: {images}")
    states = {image: images.get(image, "not built") for image in _images_of(can, can.image)}
    words = [
        f"the image {image!r} is {state}{'' if state == UP_TO_DATE else f' (splitbrain images build {image})'}"
        for image, state in states.items()
    ]
    return _Way(UP_TO_DATE in states.values(), f"in containers: {', '.join(words)}")


def _images_of(can: Capabilities, usual: str) -> list[str]:
    """Each image in which nodes run with some setting, the usual one first."""
    if can.image_for is None:
        return [usual]
    tests = [{name: value} for name, setting in can.settings.items() for value in range(len(setting.words))]
    return list(dict.fromkeys([usual, *map(can.image_for, tests)]))


def _images() -> Mapping[str, str] | str:
    """By name how up to date each image is; in one line why that cannot be said."""
    from splitbrain.harness.images.connection import engine
    from splitbrain.harness.images.survey import survey

    try:
        with closing(engine()) as client:
            return {image.name: image.state for image in survey(client)}
    except SplitbrainError as error:
        return str(error).rstrip(".")
