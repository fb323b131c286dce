"""A run whose reads are stale is not linearizable; everything that shows the verdict says what is left of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import answer, only_run, splitbrain

STALE = ["--backend", "sim", "--bug", "M23", "--nemesis", "partition-leader,partition-minority-leader", "--seed", "1"]
SENTENCE = "The run is still sequentially consistent"


@pytest.mark.slow
def test_stale_reads_of_a_deposed_leader_are_sequentially_consistent_and_all_pages_say_so(tmp_path: Path) -> None:
    store = tmp_path / "store"
    done = splitbrain("run", "--json", *STALE, "--time-limit", "6", "--interval", "2", "--store", str(store))
    assert done.returncode == 1
    [verdict] = [each for each in answer(done)["verdicts"] if each["checker"] == "linearizable"]
    assert SENTENCE in verdict["sentence"]
    found = verdict["evidence"]["models"]
    assert (found["violated"], found["surviving"]) == (["linearizability"], ["sequential consistency"])
    page = (only_run(store) / "report.html").read_text()
    banner = page[page.index("<header") : page.index("</header>")]
    assert "<b>Broken:</b> linearizability" in banner
    assert "<b>Strongest that survives:</b> sequential consistency." in banner
    assert "<b>Not checked:</b>" not in banner
    history = str(only_run(store) / "history.parquet")
    [checked] = answer(again := splitbrain("check", "--json", history))
    assert again.returncode == 1
    assert checked["evidence"]["models"] == found
    assert SENTENCE in splitbrain("check", history).stdout
