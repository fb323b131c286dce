"""How a run's clocks are put in words."""

from __future__ import annotations

from splitbrain.harness.campaigns.words import inexact_clocks
from splitbrain.results.clocks import Clocks


def test_only_hosts_whose_clocks_are_not_known_to_a_millisecond_are_named() -> None:
    line = inexact_clocks(Clocks(errors_s={"n1": 0.0, "n2": 0.0023, "n3": 0.001, "n4": 0.5}))
    assert line is not None
    assert line.startswith("clocks  n2 ±2.3 ms, n4 ±500.0 ms:")


def test_nothing_is_said_of_clocks_that_are_known() -> None:
    assert inexact_clocks(Clocks(errors_s={"n1": 0.001})) is None
    assert inexact_clocks(Clocks()) is None
