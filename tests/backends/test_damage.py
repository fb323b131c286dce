"""Damage to files: drawn by a seed, within what was asked for, and healed where it can be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from splitbrain.harness.backends.agent.damage import Rot, rot, truncate, wipe

FILES = {"log": 3000, "sub/state": 10, "empty": 0, "telemetry": 5000}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, size in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(index % 251 for index in range(size)))
    (tmp_path / "link").symlink_to(tmp_path / "log")
    return tmp_path


def contents(folder: Path) -> Mapping[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def test_rot_flips_one_bit_in_each_of_so_many_sectors_and_tells_where(data: Path) -> None:
    before = contents(data)
    places = rot(str(data), 5, seed=7, spared=["telemetry"])
    assert len({(name, offset // 512) for name, offset, _ in places}) == 5
    expected = {name: bytearray(content) for name, content in before.items()}
    for name, offset, mask in places:
        assert mask.bit_count() == 1
        expected[name][offset] ^= mask
    assert contents(data) == expected
    assert contents(data)["telemetry"] == before["telemetry"]


def test_the_last_sector_of_a_file_rots_only_when_all_others_have(data: Path) -> None:
    places = rot(str(data), 100, seed=1, spared=["telemetry"])
    assert len(places) == 7, "six sectors of one file and one of another hold data"
    assert [name for name, _, _ in places].index("log") < 6
    assert (places[-1][0], places[-1][1] // 512) == ("log", 5)


def test_the_same_seed_does_the_same_damage_and_another_one_another(data: Path) -> None:
    first = rot(str(data), 3, seed=1)
    rot_undone = rot(str(data), 3, seed=1)
    assert first == rot_undone
    assert rot(str(data), 3, seed=2) != first


def test_rot_heals_except_where_the_node_wrote_since(data: Path) -> None:
    before = contents(data)
    decay = Rot(str(data), 6, seed=3, spared=["telemetry", "sub/state"])
    assert contents(data) != before
    name, offset, _ = decay.places[0]
    with (data / name).open("r+b") as file:
        file.seek(offset)
        file.write(b"\xff")
    assert decay.heal() == 5
    after = contents(data)
    assert [at for at in range(3000) if after["log"][at] != before["log"][at]] == [offset]


def test_rot_heals_where_files_are_gone_or_shorter(data: Path) -> None:
    decay = Rot(str(data), 100, seed=3)
    (data / "sub/state").unlink()
    (data / "log").write_bytes(b"")
    assert decay.heal() == len(decay.places) - 7


def test_truncation_cuts_within_the_last_sector(data: Path) -> None:
    for seed in range(20):
        before = contents(data)
        for name, size, left in truncate(str(data), 1, seed, spared=["telemetry"]):
            assert size == len(before[name])
            assert (size - 1) // 512 * 512 <= left < size
            assert contents(data)[name] == before[name][:left]
        assert contents(data)["telemetry"] == before["telemetry"]


def test_no_more_files_are_truncated_than_have_content(data: Path) -> None:
    assert sorted(name for name, _, _ in truncate(str(data), 100, 1)) == ["log", "sub/state", "telemetry"]


def test_a_wipe_leaves_nothing_but_the_directory_and_what_is_spared(data: Path) -> None:
    (data / "sub/deeper").mkdir()
    (data / "sub/elsewhere").symlink_to("/")
    assert wipe(str(data), spared=["telemetry", "sub/state"]) == 2
    assert sorted(str(path.relative_to(data)) for path in data.rglob("*")) == ["sub", "sub/state", "telemetry"]
    assert wipe(str(data)) == 2
    assert list(data.iterdir()) == []
    assert wipe(str(data)) == 0
