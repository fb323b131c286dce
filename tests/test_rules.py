"""Every rule that the code cites by number stands in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("checkers", "cluster", "harness", "nemesis", "results", "workloads")
PAGES = ("architecture.md", "queues.md", "streams.md")
CITED = re.compile(r"\b((?:RA|KH|DB|FF|MN|PD|QQ|CQ|CMR|ST)-\d+|D\d{1,2}|Q\d{1,2})\b")
"""D and a number is a rule only where no letter or dot is before it."""


def stated(page: str) -> set[str]:
    """Rules that a page states: the first word of a row of a table."""
    text = (ROOT / "docs" / page).read_text()
    return {found[1] for line in text.splitlines() if (found := re.match(r"\| ([A-Z]+-?\d+)\b", line))}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_rule_that_is_cited_is_stated(package: str) -> None:
    known = {rule for page in PAGES for rule in stated(page)} | stated("verdicts.md")
    lost: list[str] = []
    for path in sorted((ROOT / package).rglob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            lost += [f"{path.relative_to(ROOT)}:{number}: {rule}" for rule in CITED.findall(line) if rule not in known]
    assert lost == []


def test_every_rule_that_is_stated_is_cited() -> None:
    text = "\n".join(path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    cited = set(CITED.findall(text))
    assert {rule for page in PAGES for rule in stated(page)} <= cited
