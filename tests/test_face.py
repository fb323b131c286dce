"""What `splitbrain` exports: all of it is there, `dir` lists it, and nothing is loaded before it is used."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import splitbrain

OF_A_NEMESIS = ("Kind", "Ways", "Injection", "Ledger", "Effect", "carry_out", "NemesisError", "RequestOfNodes", "asked")

GENERATORS = (
    *("mix", "rate", "stagger", "limit", "time_limit", "phases", "each_process", "reserve"),
    *("sequential_keys", "concurrent_keys", "until_ok", "final"),
)
OF_A_MODEL = ("AssignmentModel", "Facts", "IMPOSSIBLE", "JsonObject", "NondeterministicModel", "UNKNOWN")
ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", splitbrain.__all__)
def test_every_name_leads_to_something(name: str) -> None:
    assert getattr(splitbrain, name) is not None


def test_all_names_are_listed() -> None:
    assert {*splitbrain.__all__} <= {*dir(splitbrain)}
    wanted = {*OF_A_NEMESIS, *GENERATORS, *OF_A_MODEL, "Elections", "Request", "choose", "views", "verify", "always"}
    assert wanted <= {*splitbrain.__all__}
    assert {*splitbrain.__all__} == {*splitbrain._HOME}  # pyright: ignore[reportPrivateUsage]


def test_every_generator_that_the_guide_names_is_exported() -> None:
    guide = (ROOT / "docs" / "extending.md").read_text()
    _, _, rest = guide.partition("Generators are pure values: ")
    named = re.findall(r"`(\w+)`", rest.partition(".")[0])
    assert named == list(GENERATORS)


def test_every_part_that_the_guide_names_is_exported() -> None:
    """The guide says so: of a class that it names in its text, or in a table, its module need not be searched for."""
    guide = re.sub(r"```.*?```", "", (ROOT / "docs" / "extending.md").read_text(), flags=re.DOTALL)
    named = set(re.findall(r"\b[A-Z]\w*[a-z]\w*", " ".join(re.findall(r"`([^`]+)`", guide))))
    parts = re.compile(r"^class (\w+)\b", re.MULTILINE)
    folders = ("harness/contract", "checkers/models")
    defined = {
        name for folder in folders for path in (ROOT / folder).glob("*.py") for name in parts.findall(path.read_text())
    }
    assert named & defined <= {*splitbrain.__all__}


@pytest.mark.parametrize(
    "path",
    [*sorted(ROOT.glob("examples/own_*.py")), *sorted(ROOT.glob("harness/campaigns/starters/[!_]*.py"))],
    ids=lambda path: path.name,
)
def test_what_is_exported_is_imported_from_there(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("splitbrain."):
            deeper = [f"{node.module}.{each.name}" for each in node.names]
            exported = [f"splitbrain.{home}.{name}" for name, home in splitbrain._HOME.items()]  # pyright: ignore[reportPrivateUsage]
            assert not {*deeper} & {*exported}


def test_to_import_it_loads_none_of_its_parts() -> None:
    code = "import sys, splitbrain; dir(splitbrain); print([m for m in sys.modules if m.startswith('splitbrain.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
