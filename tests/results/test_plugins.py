"""The digest of other packages' code changes if and only if that code changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from splitbrain.results import plugins
from splitbrain.results.origin import OWN_CODE, versions

Digest: TypeAlias = Callable[[str], str]

PART = "def part():\n    return 1\n"


@pytest.fixture
def digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Digest:
    """What a new process records that finds this part, in the user's folder."""
    monkeypatch.syspath_prepend(tmp_path)

    def of(place: str) -> str:
        monkeypatch.setattr(plugins, "_code", {})
        monkeypatch.setattr(plugins, "_package", {})
        for name in [name for name in sys.modules if name.startswith("users_")]:
            del sys.modules[name]
        plugins.find("workload", place, ())
        return plugins.code()[place.partition(":")[0].partition(".")[0]]

    return of


def _wrote(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize("init", [True, False], ids=["package", "namespace package"])
def test_any_file_of_a_package_counts(digest: Digest, tmp_path: Path, init: bool) -> None:
    package = tmp_path / "users_package"
    if init:
        _wrote(package / "__init__.py", "")
    _wrote(package / "part.py", PART)
    _wrote(package / "inner" / "more.py", "X = 1\n")
    _wrote(package / "notes.txt", "none")
    first = digest("users_package.part:part")
    _wrote(package / "notes.txt", "other")
    assert digest("users_package.part:part") == first
    _wrote(package / "inner" / "more.py", "X = 2\n")
    assert digest("users_package.part:part") != first


def test_a_lone_module_counts_with_what_it_imports_from_its_folder(digest: Digest, tmp_path: Path) -> None:
    _wrote(tmp_path / "users_part.py", f"from users_near import X\nimport json\n{PART}")
    _wrote(tmp_path / "users_near.py", "def later():\n    import users_lib.deep\n\nX = 1\n")
    _wrote(tmp_path / "users_lib" / "deep.py", "Y = 1\n")
    _wrote(tmp_path / "users_other.py", PART)
    seen = [digest("users_part:part")]
    for changed, text in (
        ("users_part.py", f"from users_near import X\n{PART}"),
        ("users_near.py", "def later():\n    import users_lib.deep\n\nX = 2\n"),
        ("users_lib/deep.py", "Y = 2\n"),
    ):
        _wrote(tmp_path / changed, text)
        seen.append(digest("users_part:part"))
    assert len(set(seen)) == 4
    _wrote(tmp_path / "users_other.py", f"# changed\n{PART}")
    assert digest("users_part:part") == seen[-1]


def test_the_digest_does_not_depend_on_which_parts_were_found_before(digest: Digest, tmp_path: Path) -> None:
    _wrote(tmp_path / "users_part.py", PART)
    _wrote(tmp_path / "users_other.py", PART)
    alone = digest("users_part:part")
    digest("users_other:part")
    plugins.find("workload", "users_part:part", ())
    assert plugins.code()["users_part"] == alone


def test_a_module_beside_installed_packages_counts_alone(
    digest: Digest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "_INSTALLED", {str(tmp_path)})
    _wrote(tmp_path / "users_part.py", f"import users_near\n{PART}")
    _wrote(tmp_path / "users_near.py", "X = 1\n")
    first = digest("users_part:part")
    _wrote(tmp_path / "users_near.py", "X = 2\n")
    assert digest("users_part:part") == first


def test_our_own_code_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_code", {})
    monkeypatch.setattr(plugins, "_package", {})
    plugins.find("nemesis", "splitbrain.nemesis.process:KILL", ())
    assert plugins.code() == {}


def test_a_run_records_the_code_of_the_parts_that_it_names_and_of_no_others(digest: Digest, tmp_path: Path) -> None:
    _wrote(tmp_path / "users_part.py", PART)
    _wrote(tmp_path / "users_other.py", PART)
    own = digest("users_part:part")
    plugins.find("workload", "users_other:part", ())
    document = {"options": {"nemesis": "kill,users_part:part:2.5", "seed": 7}, "checkers": [{"name": "stats"}]}
    assert {name: of for name, of in versions(document).items() if name.startswith(OWN_CODE)} == {
        f"{OWN_CODE}users_part": own
    }
    assert {f"{OWN_CODE}users_part", f"{OWN_CODE}users_other"} <= set(versions())


def test_a_module_of_pythons_own_library_counts_alone() -> None:
    """As the model of a test.json that was changed: all that such a module imports would take minutes to read."""
    assert list(plugins.sources("os").values()) == ["os.py"]
