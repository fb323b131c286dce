"""`splitbrain doctor` says of each system how it can be put under test here, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from splitbrain.harness.campaigns import doctor_systems
from splitbrain.harness.systems.catalogue import SYSTEMS
from splitbrain.harness.systems.zookeeper import settings

ABSENT = "not built (splitbrain images build redis)"
BUILT: dict[str, str] = dict.fromkeys(("node", "etcd", "postgresql", "rabbitmq"), "up to date")


def rows(
    monkeypatch: pytest.MonkeyPatch,
    images: Mapping[str, str] | str,
    programs: frozenset[str] = frozenset(),
    problem: str | None = None,
) -> dict[str, tuple[bool, str]]:
    """What is said of each system on a machine with these images and programs."""

    def which(name: str) -> str | None:
        return f"/usr/bin/{name}" if name in programs else None

    monkeypatch.setattr(doctor_systems, "_images", lambda: images)
    monkeypatch.setattr("shutil.which", which)
    monkeypatch.setattr(doctor_systems, "namespaces_problem", lambda: problem)
    found = doctor_systems.systems()
    assert [row.item for row in found] == list(SYSTEMS)
    return {row.item: (row.works, row.detail) for row in found}


def test_a_system_works_by_its_programs_or_by_its_image(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rows(monkeypatch, BUILT, frozenset({"redis-server", "redis-sentinel"}))
    assert found["redis"] == (
        True,
        f"here: /usr/bin/redis-server, /usr/bin/redis-sentinel; in containers: the image 'redis' is {ABSENT}",
    )
    assert found["etcd"] == (
        True,
        "here: there is no etcd (apt install etcd-server); in containers: the image 'etcd' is up to date",
    )
    assert found["metadata"][0]


def test_a_system_with_neither_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rows(monkeypatch, {}, frozenset({"redis-server"}))
    assert not found["redis"][0]
    assert "there is no redis-sentinel (apt install redis-sentinel)" in found["redis"][1]


def test_without_an_engine_a_system_that_needs_containers_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("splitbrain.harness.systems.rabbitmq.settings.BINARY", "/nowhere/rabbitmq-server")
    found = rows(monkeypatch, "no engine answers", frozenset())
    assert found["rabbitmq"] == (
        False,
        "here: there is no /nowhere/rabbitmq-server (apt install rabbitmq-server); in containers: no engine answers",
    )
    assert found["metadata"] == (True, "here: with this interpreter; in containers: no engine answers")


def test_a_program_that_is_a_file_must_be_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "JAR", "/nowhere/zookeeper.jar")
    monkeypatch.setattr(settings, "LOGGER", __file__)
    found = rows(monkeypatch, {}, frozenset({"java"}))
    assert not found["zookeeper"][0]
    assert "here: there is no /nowhere/zookeeper.jar (apt install libzookeeper-java)" in found["zookeeper"][1]


def test_a_system_with_an_image_for_each_release_names_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    works, detail = rows(monkeypatch, {"rabbitmq-3.10": "up to date"})["rabbitmq"]
    assert works
    assert detail.endswith(
        "in containers: the image 'rabbitmq' is not built (splitbrain images build rabbitmq), "
        "the image 'rabbitmq-3.10' is up to date"
    )


def rabbitmq(
    monkeypatch: pytest.MonkeyPatch, folder: Path, release: str, problem: str | None = None
) -> tuple[bool, str]:
    """What is said of RabbitMQ where that release is installed, as by Debian's package, in a folder."""
    program = folder / "lib" / f"rabbitmq_server-{release}" / "sbin" / "rabbitmq-server"
    program.parent.mkdir(parents=True)
    program.touch()
    (folder / "rabbitmq-server").symlink_to(program)
    monkeypatch.setattr("splitbrain.harness.systems.rabbitmq.settings.BINARY", f"{folder}/rabbitmq-server")
    return rows(monkeypatch, "no engine answers", problem=problem)["rabbitmq"]


def test_the_release_that_is_installed_is_named_with_the_setting_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = f"RabbitMQ 3.10.8 at {tmp_path}/rabbitmq-server (--settings release=3.10)"
    assert rabbitmq(monkeypatch, tmp_path, "3.10.8") == (
        True,
        f"here: {here}; in containers: no engine answers",
    )


def test_a_release_of_which_there_are_no_tests_does_not_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    works, detail = rabbitmq(monkeypatch, tmp_path, "3.12.1")
    assert not works
    assert "RabbitMQ 3.12.1 at" in detail
    assert "of which there are no tests (release is 4.0 or 3.10)" in detail


def test_a_system_whose_nodes_need_network_namespaces_does_not_work_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    works, detail = rabbitmq(monkeypatch, tmp_path, "3.10.8", "the kernel has none")
    assert not works
    assert "one node only, without network namespaces: the kernel has none" in detail
