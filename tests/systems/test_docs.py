"""docs/ names the operations and the capabilities that systems have, as the code does."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.systems import catalogue as systems

DOCS = Path(__file__).parents[2] / "docs"


def in_code(cell: str) -> set[str]:
    """The words of a cell that are in code."""
    return set(re.findall(r"`([^`]+)`", cell))


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the table that begins so, line by line, its heading first."""
    text = (DOCS / page).read_text()
    table = text[text.index(heading) :].split("\n\n", 1)[0]
    return [line.strip("|").split(" | ") for line in table.splitlines() if "---" not in line]


@pytest.mark.parametrize("name", systems.SYSTEMS)
def test_the_operations_of_each_system_are_listed(name: str) -> None:
    heading, *lines = rows("systems.md", "| | `metadata` |")
    [listed] = [line for line in lines if line[0].strip() == "operations"]
    [place] = [place for place, cell in enumerate(heading) if in_code(cell) == {name}]
    assert in_code(listed[place]) == systems.operations(name)


def test_every_capability_is_described() -> None:
    _, *lines = rows("extending.md", "| field of `Capabilities` |")
    described = [field for line in lines for field in in_code(line[0])]
    assert sorted(described) == sorted(field.name for field in dataclasses.fields(Capabilities))
