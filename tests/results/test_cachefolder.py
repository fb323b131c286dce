"""What is kept for a user is run later: no other user may be able to write there."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbrain.results.cachefolder import kept_for_user


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_a_new_folder_is_for_its_user_alone(cache: Path) -> None:
    folder = kept_for_user("kernels", "x")
    assert folder is not None
    assert folder == cache / "splitbrain" / "kernels" / "x"
    assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_can_write_is_not_used(cache: Path, mode: int) -> None:
    folder = cache / "splitbrain" / "kernels"
    folder.mkdir(parents=True)
    folder.chmod(mode)
    assert kept_for_user("kernels") is None


@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_a_folder_that_others_can_only_read_is_used(cache: Path, mode: int) -> None:
    folder = cache / "splitbrain" / "kernels"
    folder.mkdir(parents=True)
    folder.chmod(mode)
    assert kept_for_user("kernels") == folder


def test_a_folder_of_another_user_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept_for_user("kernels") is not None
    monkeypatch.setattr("os.getuid", lambda: 4711)
    assert kept_for_user("kernels") is None


def test_without_a_place_there_is_none(cache: Path) -> None:
    (cache / "splitbrain").write_text("a file is in the way")
    assert kept_for_user("kernels") is None


def test_a_relative_cache_home_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kept_for_user("kernels") == tmp_path / ".cache" / "splitbrain" / "kernels"
