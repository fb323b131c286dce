"""Compiled templates are kept, and a cache that is missing, damaged or full costs no page."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2.bccache import Bucket

from splitbrain.results.templates import environment


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a template; the user's cache is beside it."""
    (tmp_path / "page.j2").write_text("{{ word|twice }}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def twice(text: str) -> str:
    return text * 2


def page(folder: Path) -> str:
    return environment([folder], twice=twice).get_template("page.j2").render(word="<a>")


def kept(folder: Path) -> list[Path]:
    return [path for path in (folder / "cache").rglob("*") if path.is_file()]


def test_a_compiled_template_is_kept_and_a_changed_one_is_compiled_again(folder: Path) -> None:
    assert page(folder) == "&lt;a&gt;&lt;a&gt;"
    [file] = kept(folder)
    before = file.stat().st_mtime_ns
    assert page(folder) == "&lt;a&gt;&lt;a&gt;"
    assert file.stat().st_mtime_ns == before
    (folder / "page.j2").write_text("changed {{ word|twice }}")
    assert page(folder).startswith("changed")


def test_a_damaged_file_of_the_cache_is_replaced(folder: Path) -> None:
    page(folder)
    [file] = kept(folder)
    whole = file.read_bytes()
    for content in (b"", whole[:20], whole[: len(whole) // 2], b"nonsense"):
        file.write_bytes(content)
        assert page(folder) == "&lt;a&gt;&lt;a&gt;"


def test_a_folder_that_others_can_write_is_not_used(folder: Path) -> None:
    page(folder)
    [file] = kept(folder)
    file.parent.chmod(0o777)
    file.unlink()
    assert page(folder) == "&lt;a&gt;&lt;a&gt;"
    assert kept(folder) == []


def test_a_full_disk_costs_no_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("jinja2.bccache.FileSystemBytecodeCache.dump_bytecode", full)
    assert page(folder) == "&lt;a&gt;&lt;a&gt;"
    with pytest.raises(OSError, match="No space"):
        full(Bucket)


def test_a_user_without_a_home_gets_pages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cache").write_text("a file in the place of the folder")
    assert page(folder) == "&lt;a&gt;&lt;a&gt;"
