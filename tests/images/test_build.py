"""Building images: what is up to date is left alone, what changed is built, and what fails is said in one line."""

from __future__ import annotations

import dataclasses
import fcntl
import os
from pathlib import Path

import docker
import pytest
from docker.errors import ImageNotFound

from splitbrain.harness.images import build as building
from splitbrain.harness.images import catalogue, debian, ensure
from splitbrain.harness.images.build import Built, Foundation, build, choose_foundation, foundation_key
from splitbrain.harness.images.catalogue import Image, lineage
from splitbrain.harness.images.survey import survey, wanted_tags
from splitbrain.results.errors import ImageBuildError, ImageMissingError

pytestmark = pytest.mark.usefixtures("base")


def _build(client: docker.DockerClient, *names: str) -> list[Built]:
    done: list[Built] = []
    build(client, names, choose_foundation(client, None, None), lambda image: lambda line: None, done.append)
    return done


def _said_by(client: docker.DockerClient, tag: str, *command: str) -> str:
    """What a command says in a container. (Its log is complete once it has ended; one that is followed may not be.)"""
    container = client.containers.create(tag, list(command))
    try:
        container.start()
        container.wait()
        return container.logs().decode()
    finally:
        container.remove(force=True)


def test_an_image_is_built_once(
    client: docker.DockerClient, scratch: Image, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _build(client, scratch.name)
    monkeypatch.setattr(client.api, "build", None)
    second = _build(client, scratch.name)
    assert [(each.name, each.fresh) for each in first] == [("base", False), (scratch.name, True)]
    assert [(each.name, each.fresh) for each in second] == [("base", False), (scratch.name, False)]
    assert first[0].tag == base
    assert client.images.get(first[1].tag).id == client.images.get(f"{scratch.repository}:latest").id


@pytest.mark.slow
def test_an_image_is_built_anew_when_that_is_asked_for(
    client: docker.DockerClient, scratch: Image, checkout: Path, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (checkout / scratch.dockerfile).open("a") as file:
        file.write("RUN cat /proc/sys/kernel/random/uuid > /made\n")
    # Without a parent, so that no base is built anew with it.
    alone = dataclasses.replace(scratch, parent=None)
    monkeypatch.setitem(catalogue.IMAGES, scratch.name, alone)
    done: list[Built] = []
    ids: list[str | None] = []
    for rebuild in (False, False, True):
        foundation = Foundation("test", base)
        build(client, [alone.name], foundation, lambda image: lambda line: None, done.append, rebuild=rebuild)
        ids.append(client.images.get(done[-1].tag).id)
    assert [each.fresh for each in done] == [True, False, True]
    assert len({each.tag for each in done}) == 1
    assert ids[0] == ids[1] != ids[2]
    with pytest.raises(ImageNotFound):
        client.images.get(str(ids[0]))


@pytest.mark.slow
def test_an_image_whose_files_changed_is_built_again_by_itself(
    client: docker.DockerClient, scratch: Image, checkout: Path
) -> None:
    _build(client, scratch.name)
    before = ensure(scratch.name, client)
    assert ensure(scratch.name, client) == before
    (checkout / "cluster/greeting").write_text("hello")
    after = ensure(scratch.name, client)
    assert after != before
    assert _said_by(client, after, "cat", "/opt/splitbrain/cluster/greeting") == "hello"


def test_an_image_that_is_not_built_is_not_built_by_itself(client: docker.DockerClient, scratch: Image) -> None:
    with pytest.raises(ImageMissingError) as refused:
        ensure(scratch.name, client)
    assert str(refused.value) == (f"image {scratch.name} is not built: run `splitbrain images build {scratch.name}`.")
    assert not client.images.list(name=scratch.repository)


def test_an_image_whose_packages_changed_is_not_built_by_itself(
    client: docker.DockerClient, scratch: Image, checkout: Path
) -> None:
    _build(client, scratch.name)
    with (checkout / scratch.dockerfile).open("a") as file:
        file.write("RUN true\n")
    with pytest.raises(ImageMissingError, match="is out of date: run `splitbrain images build"):
        ensure(scratch.name, client)


def test_an_image_on_an_old_base_is_not_built_by_itself(
    client: docker.DockerClient, scratch: Image, checkout: Path
) -> None:
    _build(client, scratch.name)
    with (checkout / "docker/base/Dockerfile").open("a") as file:
        file.write("RUN true\n")
    with pytest.raises(ImageMissingError, match="has an old base below it: run `splitbrain images build"):
        ensure(scratch.name, client)


@pytest.mark.slow
def test_the_survey_tells_up_to_date_from_out_of_date_and_not_built(
    client: docker.DockerClient, scratch: Image, checkout: Path
) -> None:
    def state() -> str:
        return next(each.state for each in survey(client) if each.name == scratch.name)

    assert state() == "not built"
    _build(client, scratch.name)
    assert state() == "up to date"
    (checkout / "cluster/greeting").write_text("hello")
    assert state() == "out of date"


@pytest.mark.parametrize(
    ("instruction", "problem"),
    [
        (
            "RUN echo going; exit 3",
            r"Step 3/\d : RUN echo going; exit 3: going \| The command .* code: 3$",
        ),
        ("COPY nowhere /", r"Step 3/\d : COPY nowhere /: .*nowhere"),
        ("NONSENSE", "unknown instruction: NONSENSE"),
    ],
)
def test_a_broken_dockerfile_is_one_line(
    client: docker.DockerClient, scratch: Image, checkout: Path, instruction: str, problem: str
) -> None:
    # The first step of all: what a failed build has done before stays in the engine, without a name.
    (checkout / scratch.dockerfile).write_text(f"ARG BASE\nFROM ${{BASE}}\n{instruction}\n")
    with pytest.raises(ImageBuildError, match=problem) as failed:
        _build(client, scratch.name)
    assert str(failed.value).startswith(f"image {scratch.name} does not build. ")
    assert str(failed.value).isprintable()
    assert not client.images.list(name=scratch.repository)
    with pytest.raises(ImageMissingError):
        ensure(scratch.name, client)


def test_a_base_that_no_registry_has_is_one_line(client: docker.DockerClient) -> None:
    with pytest.raises(ImageBuildError, match=r"^cannot fetch 127\.0\.0\.1:1/debian:none: ") as failed:
        choose_foundation(client, "127.0.0.1:1/debian:none", None)
    assert "\n" not in str(failed.value)


def test_a_base_of_a_registrys_is_another_base_until_another_is_chosen(
    client: docker.DockerClient, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = choose_foundation(client, base, None)
    assert chosen == Foundation(f"{base} {client.images.get(base).id}", base)
    monkeypatch.setattr(building, "present_foundation", lambda client: chosen.key)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert choose_foundation(client, None, None) == chosen
    assert choose_foundation(client, None, "bookworm").key == "debootstrap bookworm"


def test_debian_is_not_made_where_debootstrap_fails(
    client: docker.DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "debootstrap"
    program.write_text("#!/bin/sh\necho I: Retrieving Release\necho E: no such mirror >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    said: list[str] = []
    with pytest.raises(
        ImageBuildError, match=r"^debootstrap of trixie failed: Retrieving Release \| E: no such mirror$"
    ):
        debian.bootstrap(client, "trixie", said.append)
    assert said == ["Retrieving Release", "E: no such mirror"]


def test_what_a_killed_build_left_goes_and_what_is_in_use_stays(
    client: docker.DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debian, "_WORKPLACE", tmp_path)
    left, used = tmp_path / "splitbrain-debian-left", tmp_path / "splitbrain-debian-used"
    for folder in (left, used):
        (folder / "proc").mkdir(parents=True)
    program = tmp_path / "debootstrap"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    descriptor = os.open(used, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(ImageBuildError):
            debian.bootstrap(client, "trixie", lambda line: None)
    finally:
        os.close(descriptor)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["debootstrap", "splitbrain-debian-used"]


def test_a_container_of_node_runs_the_cluster(client: docker.DockerClient) -> None:
    try:
        tag = ensure("node", client)
    except ImageMissingError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    assert _said_by(client, tag, "python3", "-m", "splitbrain.cluster", "--help").startswith(
        "usage: python -m splitbrain.cluster --node NAME"
    )


@pytest.mark.slow
def test_the_node_image_builds_from_packages(client: docker.DockerClient, scratch: Image, checkout: Path) -> None:
    recipe = (checkout / "docker/node/Dockerfile").read_text()
    # A step that no build has done before, so that nothing after it is found done already.
    fresh = recipe.replace("FROM ${BASE}\n", f"FROM ${{BASE}}\nENV FRESH={scratch.name}-{os.urandom(4).hex()}\n")
    (checkout / scratch.dockerfile).write_text(fresh)
    tag = _build(client, scratch.name)[-1].tag
    assert "usage: python -m splitbrain.cluster" in _said_by(
        client, tag, "python3", "-m", "splitbrain.cluster", "--help"
    )
    assert "libfaketimeMT.so.1" in _said_by(client, tag, "sh", "-c", "ls /usr/lib/*/faketime")
    assert [image.name for image in lineage(scratch.name)] == ["base", scratch.name]


def test_images_of_an_older_debian_stand_on_its_packages_and_not_on_what_a_build_chooses(
    client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tags(foundation: str) -> dict[str, str]:
        monkeypatch.setattr("splitbrain.harness.images.survey.present_foundation", lambda client: foundation)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        return wanted_tags(client)

    one, other = tags("debootstrap trixie"), tags("debian:trixie-slim sha256:1")
    assert {name for name in one if one[name] == other[name]} == {"base-bookworm", "rabbitmq-3.10"}
    assert set(one) - set(catalogue.usual()) == {"base-bookworm", "rabbitmq-3.10"}
    assert foundation_key(catalogue.find("base-bookworm"), "debootstrap trixie") == "debootstrap bookworm"
