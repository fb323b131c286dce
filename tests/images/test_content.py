"""The hash that names an image: it changes with what goes into the image, and with nothing else."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from splitbrain.harness.images.catalogue import IMAGES, PACKAGE, Image, in_build_order
from splitbrain.harness.images.content import content
from splitbrain.results.errors import ImageBuildError, UnknownNameError

NODE = IMAGES["node"]


def _hash(root: Path, image: Image = NODE, parent: str = "parent") -> str:
    return content(image, parent, root).hash


def _append(name: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        with (root / name).open("a") as file:
            file.write("\n")

    return change


def _make_executable(root: Path) -> None:
    (root / "cluster/wire.py").chmod(0o755)


def _rename(root: Path) -> None:
    (root / "cluster/wire.py").rename(root / "cluster/wires.py")


@pytest.mark.parametrize(
    "change",
    [
        _append("cluster/wire.py"),
        _append("docker/node/Dockerfile"),
        _append("cluster/new.py"),
        _make_executable,
        _rename,
    ],
    ids=["contents", "dockerfile", "new file", "mode", "name"],
)
def test_the_hash_changes_with_every_input(checkout: Path, change: Callable[[Path], None]) -> None:
    before = _hash(checkout)
    change(checkout)
    assert _hash(checkout) != before


def test_the_hash_changes_with_the_parent(checkout: Path) -> None:
    assert _hash(checkout, parent="one") != _hash(checkout, parent="two")


def test_files_do_not_run_together_in_the_hash(checkout: Path) -> None:
    first, second = checkout / "cluster/aa.py", checkout / "cluster/ab.py"
    first.write_text("x")
    second.write_text("")
    before = _hash(checkout)
    first.write_text("")
    second.write_text("x")
    assert _hash(checkout) != before


def test_times_caches_and_other_images_do_not_change_the_hash(checkout: Path) -> None:
    before = _hash(checkout)
    os.utime(checkout / "cluster/wire.py", (1, 1))
    (checkout / "cluster/__pycache__").mkdir()
    (checkout / "cluster/__pycache__/wire.pyc").write_bytes(b"\0")
    _append("docker/etcd/Dockerfile")(checkout)
    assert _hash(checkout) == before
    assert _hash(PACKAGE) == before


def test_only_a_dockerfile_or_a_parent_makes_the_slow_steps_others(checkout: Path) -> None:
    before = content(NODE, "parent", checkout).steps
    _append("cluster/wire.py")(checkout)
    assert content(NODE, "parent", checkout).steps == before
    assert content(NODE, "other", checkout).steps != before
    _append("docker/node/Dockerfile")(checkout)
    assert content(NODE, "parent", checkout).steps != before


@pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES)
def test_the_context_has_what_the_dockerfile_copies_and_no_more(image: Image) -> None:
    copied = {
        word
        for line in (PACKAGE / image.dockerfile).read_text().splitlines()
        if line.startswith("COPY ")
        for word in line.split()[1:-1]
    }
    assert copied == set(image.files)
    with tarfile.open(fileobj=content(image, "parent", PACKAGE).archive()) as tar:
        names = set(tar.getnames())
    assert "Dockerfile" in names
    for name in copied:
        assert name in names or any(each.startswith(f"{name}/") for each in names)


def test_a_file_that_is_missing_is_named(checkout: Path) -> None:
    (checkout / "docker/host/start").unlink()
    with pytest.raises(ImageBuildError, match=r"^image host: .*docker/host/start: No such file or directory\.$"):
        content(IMAGES["host"], "parent", checkout)


def test_parents_are_built_before_children_and_once() -> None:
    assert [image.name for image in in_build_order(["node", "etcd", "base"])] == ["base", "node", "etcd"]


def test_an_unknown_image_is_a_usage_error() -> None:
    with pytest.raises(UnknownNameError, match=r"there is no image 'nod'\. Did you mean 'node'"):
        in_build_order(["nod"])
