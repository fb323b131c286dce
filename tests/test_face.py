"""What `splitbrain` exports: all of it is there, `dir` lists it, and nothing is loaded before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import splitbrain

OF_A_NEMESIS = ("Kind", "Ways", "Injection", "Ledger", "Effect", "carry_out", "NemesisError", "RequestOfNodes", "asked")


@pytest.mark.parametrize("name", splitbrain.__all__)
def test_every_name_leads_to_something(name: str) -> None:
    assert getattr(splitbrain, name) is not None


def test_all_names_are_listed() -> None:
    assert {*splitbrain.__all__} <= {*dir(splitbrain)}
    assert {*OF_A_NEMESIS, "Elections", "Request", "choose", "views", "always"} <= {*splitbrain.__all__}


def test_to_import_it_loads_none_of_its_parts() -> None:
    code = "import sys, splitbrain; dir(splitbrain); print([m for m in sys.modules if m.startswith('splitbrain.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
