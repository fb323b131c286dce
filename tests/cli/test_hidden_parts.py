"""A part of another package that no name leads to, or that one of two packages brings, is no silent surprise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from splitbrain.results import plugins
from splitbrain.results.errors import UsageError
from tests.cli.support import answer, splitbrain


def install(folder: Path, package: str, *names: str) -> None:
    """Put a package there that brings workloads of these names."""
    (folder / f"{package}.py").write_text("def part():\n    return None\n")
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    entries = "".join(f"{name} = {package}:part\n" for name in names)
    (info / "entry_points.txt").write_text(f"[splitbrain.workloads]\n{entries}")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder from which packages are installed."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "_code", {})
    monkeypatch.setattr(plugins, "_package", {})
    plugins.installed.cache_clear()
    yield tmp_path
    plugins.installed.cache_clear()


def test_a_part_with_the_name_of_a_built_in_one_is_listed_as_hidden(folder: Path) -> None:
    install(folder, "first_of_ours", "register", "shop")
    done = splitbrain("list", "workloads", "--json", cwd=folder)
    listed = answer(done)["workloads"]
    assert "each key must be linearizable" in listed["register"]
    assert listed["shop"].endswith("(package first_of_ours, first_of_ours:part)")
    (warning,) = done.stderr.splitlines()
    assert warning == (
        "warning: the workload 'register' (package first_of_ours, first_of_ours:part) is hidden: splitbrain has a "
        "workload of that name. Give its entry point another name, or name it as first_of_ours:part."
    )


def test_a_name_that_two_packages_give_is_refused_with_both(folder: Path) -> None:
    install(folder, "first_of_ours", "shop", "till")
    install(folder, "second_of_ours", "shop")
    with pytest.raises(UsageError, match=r"workload 'shop' is brought by two packages: .*first_.*; .*second_of_ours"):
        plugins.find("workload", "shop", ())
    assert plugins.find("workload", "till", ()) is plugins.find("workload", "first_of_ours:part", ())
