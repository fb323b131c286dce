"""Files get a new content at once or not at all, and nothing but files does."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from splitbrain.results.atomic import replace_file


def give(path: Path, text: str = "new") -> None:
    replace_file(path, lambda aside: aside.write_text(text))


def test_a_file_is_made_and_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    give(tmp_path / "file", "first")
    give(tmp_path / "file", "second")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "second"


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "file")
    for text in ("first", "second"):
        give(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "there" / "file").read_text() == text


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    give(tmp_path / "file", "first")

    def fails(aside: Path) -> None:
        aside.write_text("half")
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        replace_file(tmp_path / "file", fails)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["first"]


def socket_at(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


OTHERS: Final[dict[str, Callable[[Path], object]]] = {"pipe": os.mkfifo, "folder": os.mkdir, "socket": socket_at}


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("kind", OTHERS)
def test_nothing_but_a_plain_file_is_ever_replaced(tmp_path: Path, kind: str, linked: bool) -> None:
    """A device that a link led to was replaced by a file: as root that broke /dev/zero for the whole machine."""
    other = tmp_path / "other"
    OTHERS[kind](other)
    before = stat.S_IFMT(other.lstat().st_mode)
    path = tmp_path / "link" if linked else other
    if linked:
        path.symlink_to(other)
    with pytest.raises(OSError, match="not a plain file"):
        give(path)
    assert stat.S_IFMT(other.lstat().st_mode) == before
    assert not [found for found in tmp_path.iterdir() if found.name.startswith(".")]


def test_a_device_is_never_replaced() -> None:
    with pytest.raises(OSError, match="not a plain file"):
        give(Path("/proc/self/root/dev/null"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_link_to_itself_is_not_followed_for_ever(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="not a plain file"):
        give(tmp_path / "loop")
    assert (tmp_path / "loop").is_symlink()
