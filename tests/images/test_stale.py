"""Images of earlier checkouts: which are stale, and that only those are removed that nothing needs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import docker
import pytest
from click.testing import CliRunner
from docker.errors import ImageNotFound

from splitbrain.harness.cli.images import command
from splitbrain.harness.images import catalogue, ensure
from splitbrain.harness.images.build import build, choose_foundation, find_image
from splitbrain.harness.images.catalogue import Image
from splitbrain.harness.images.stale import prune, stale_images
from splitbrain.results.errors import UnknownNameError

pytestmark = pytest.mark.usefixtures("base")


def _build(client: docker.DockerClient, name: str) -> str:
    build(client, [name], choose_foundation(client, None, None), lambda image: lambda line: None, lambda built: None)
    return ensure(name, client)


def _change(checkout: Path) -> None:
    with (checkout / "cluster/changed").open("a") as file:
        file.write("again\n")


@pytest.mark.slow
def test_an_image_of_other_files_is_stale_and_goes_and_the_present_one_stays(
    client: docker.DockerClient, scratch: Image, checkout: Path
) -> None:
    old = _build(client, scratch.name)
    assert stale_images(client, [scratch.name]) == []
    _change(checkout)
    assert stale_images(client, [scratch.name]) == [], "the next build begins from the latest"
    new = ensure(scratch.name, client)
    assert [(each.tag, each.kept) for each in stale_images(client, [scratch.name])] == [(old, "")]
    assert [each.tag for each in prune(client, [scratch.name])] == [old]
    assert find_image(client, old) is None
    assert find_image(client, new) is not None
    assert find_image(client, f"{scratch.repository}:latest") is not None
    assert prune(client, [scratch.name]) == []


@pytest.mark.slow
def test_an_image_that_a_container_was_made_from_is_kept_even_if_it_does_not_run(
    client: docker.DockerClient, scratch: Image, checkout: Path
) -> None:
    old = _build(client, scratch.name)
    _change(checkout)
    ensure(scratch.name, client)
    container = client.containers.create(old, ["true"])
    try:
        [kept] = prune(client, [scratch.name])
        assert (kept.tag, kept.kept) == (old, f"container {container.name}")
        assert find_image(client, old) is not None
    finally:
        container.remove()
    assert [each.kept for each in prune(client, [scratch.name])] == [""]
    assert find_image(client, old) is None


@pytest.mark.slow
def test_what_an_image_stands_on_is_kept_with_it_and_goes_after_it(
    client: docker.DockerClient, scratch: Image, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = Image(f"{scratch.name}-above", "stands on it", parent=scratch.name)
    monkeypatch.setitem(catalogue.IMAGES, above.name, above)
    (checkout / above.dockerfile).parent.mkdir()
    (checkout / above.dockerfile).write_text("ARG BASE\nFROM ${BASE}\nLABEL above=1\n")
    try:
        old = _build(client, above.name), ensure(scratch.name, client)
        _change(checkout)
        _build(client, above.name)
        container = client.containers.create(old[0], ["true"])
        try:
            found = prune(client, [scratch.name, above.name])
            reasons = (f"container {container.name}", f"image {old[0]}")
            assert [(each.tag, each.kept) for each in found] == list(zip(old, reasons, strict=True))
        finally:
            container.remove()
        assert [(each.tag, each.kept) for each in prune(client, [scratch.name, above.name])] == [
            (old[0], ""),
            (old[1], ""),
        ]
        assert [find_image(client, tag) for tag in old] == [None, None]
    finally:
        for tag in [tag for found in client.images.list(name=above.repository) for tag in found.tags]:
            with suppress(ImageNotFound):
                client.images.remove(tag)


@pytest.mark.slow
def test_a_dry_run_tells_and_removes_nothing_and_the_list_marks_what_is_stale(
    client: docker.DockerClient, scratch: Image, checkout: Path
) -> None:
    old = _build(client, scratch.name)
    _change(checkout)
    ensure(scratch.name, client)
    told = CliRunner().invoke(command, ["prune", "--dry-run", scratch.name], catch_exceptions=False)
    assert told.stdout == f"would remove {old}\n"
    assert find_image(client, old) is not None
    listed = CliRunner().invoke(command, ["list"], catch_exceptions=False).stdout.splitlines()
    [line] = [line for line in listed if old in line]
    assert line.split()[:2] == [scratch.name, "stale"]
    done = CliRunner().invoke(command, ["prune", scratch.name], catch_exceptions=False)
    assert done.stdout == f"removed {old}\n"
    done = CliRunner().invoke(command, ["prune", scratch.name], catch_exceptions=False)
    assert done.stdout == "nothing is stale\n"


def test_a_name_that_is_no_image_is_refused_before_anything_is_removed(client: docker.DockerClient) -> None:
    with pytest.raises(UnknownNameError, match="there is no image 'hots'"):
        prune(client, ["hots"])
