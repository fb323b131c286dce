"""The first sentence of a report is what the leading signature of its violation stands for."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from splitbrain.harness.backends.sim import SimBackend
from splitbrain.harness.campaigns.compose import compose
from splitbrain.harness.campaigns.hunting.trial import carry_out
from splitbrain.harness.campaigns.nightly.cells import Cell, options_of_cell
from splitbrain.harness.campaigns.record import run_and_judge

CELL = Cell("register", "partition-leader", bug="M23")
OPTIONS = {"nodes": "3", "time_limit": 8, "rate": 50}


@pytest.mark.slow
def test_a_run_a_hunt_and_the_report_begin_with_the_checker_of_the_leading_signature(tmp_path: Path) -> None:
    options = options_of_cell(CELL, OPTIONS, 1)
    trial = carry_out(options)
    found = run_and_judge(compose(options), SimBackend(), tmp_path)
    guilty = {each.checker: each.sentence for each in found.verdicts if each.valid == "false"}
    assert len(guilty) > 1, "one checker would prove nothing"
    leading = found.signatures[0].partition("/")[0]
    assert leading != next(iter(guilty)), "the first checker would lead anyhow"
    assert found.sentences()[0] == trial.sentences[0] == guilty[leading]
    said = re.findall(r'<p class="say">(.*?)</p>', found.report.read_text(), re.DOTALL)
    assert html.unescape(said[0]) == guilty[leading]
