"""Every mutant can be made of the present code, says what it is, and is in the lists where the rule puts it."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def tool(name: str) -> Any:
    """A module of tools/."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(ROOT / "tools"))  # pyright: ignore[reportUnknownMemberType]
        return importlib.import_module(name)


patches, mutants, hunts = tool("patches"), tool("mutants"), tool("hunts")
NAMES: list[str] = patches.names()

HEADER = "# what: a\n# source: own\n# shows: b (crashes)\n"
DIFF = "--- a/cluster/retry.py\n+++ b/cluster/retry.py\n@@ -1 +1 @@\n-old\n+new\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_patch_applies_to_the_present_code_and_leaves_python(name: str, tmp_path: Path) -> None:
    mutant = patches.read(name)
    before: dict[str, str] = {}
    for file in mutant.files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, tmp_path / file)
        before[file] = (tmp_path / file).read_text()
    patches.apply(mutant, tmp_path)
    for file, text in before.items():
        changed = (tmp_path / file).read_text()
        assert changed != text
        compile(changed, file, "exec")


def test_there_are_enough_mutants_for_every_list() -> None:
    assert len(NAMES) >= 62


def test_the_unseen_ones_and_the_fixed_ones_follow_from_the_names_and_the_exceptions() -> None:
    advice = "a mutant came or went: write the names anew, in this order"
    assert patches.listed("unseen.txt") == patches.unseen(NAMES), advice
    assert patches.listed("fixed.txt") == patches.fixed(NAMES), advice
    assert not set(patches.listed("unseen.txt")) & set(patches.listed("fixed.txt"))


def test_the_exceptions_are_mutants_and_those_hunted_early_are_in_no_list() -> None:
    early, late = {*patches.HUNTED_EARLY, *patches.WRITTEN_SEEN}, set(patches.WRITTEN_LATE)
    assert early | late <= set(NAMES)
    assert not early & late
    assert not early & {*patches.listed("unseen.txt"), *patches.listed("fixed.txt")}
    assert early <= set(mutants.chosen("seen", []))


def test_those_written_late_stand_first_among_the_unseen_and_others_follow_by_digest() -> None:
    late = patches.by_digest(patches.WRITTEN_LATE)
    others = patches.by_digest(set(NAMES) - {*late, *patches.HUNTED_EARLY, *patches.WRITTEN_SEEN})
    wanted = patches.UNSEEN - len(late)
    assert wanted >= 0
    assert patches.listed("unseen.txt") == [*late, *others[:wanted]]
    assert patches.listed("fixed.txt") == others[wanted : wanted + patches.FIXED]
    without = [name for name in NAMES if name != late[0]]
    assert patches.unseen(without) == [*late[1:], *others[: wanted + 1]]
    assert patches.fixed(without) == others[wanted + 1 : wanted + 1 + patches.FIXED]


def test_a_patch_that_does_not_apply_is_named_with_what_to_do(tmp_path: Path) -> None:
    mutant = patches.read(NAMES[0])
    for file in mutant.files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("other code\n")
    with pytest.raises(patches.PatchError, match=rf"{NAMES[0]} does not apply .* by hand .*{NAMES[0]}\.patch"):
        patches.apply(mutant, tmp_path)


def test_a_header_may_go_on_in_further_lines() -> None:
    mutant = patches.parsed("x", "# what: a\n#   b\n# source: own\n# shows: c\n#   d\n#   e\n" + DIFF)
    assert (mutant.what, mutant.source, mutant.shows) == ("a b", "own", "c d e")
    assert mutant.files == ("cluster/retry.py",)


@pytest.mark.parametrize("header", ["", "# what: a\n# shows: b\n", "# source: own\n# what: a\n# shows: b\n"])
def test_a_patch_without_its_header_is_refused(header: str) -> None:
    with pytest.raises(patches.PatchError, match="x: a patch begins with"):
        patches.parsed("x", header + DIFF)


@pytest.mark.parametrize("file", ["checkers/engine.py", "harness/cli/hunt.py"])
def test_a_patch_of_what_judges_is_refused(file: str) -> None:
    with pytest.raises(patches.PatchError, match=file):
        patches.parsed("x", HEADER + DIFF.replace("cluster/retry.py", file))


def answer(*findings: dict[str, str]) -> dict[str, Any]:
    """The answer of a hunt with these findings."""
    figures = {"cpu_s": 12.34, "simulated_s": 1800.0, "runs": 7}
    return {"findings": list(findings), "smaller": None, "figures": figures, "git": None}


def finding(outcome: str, kind: str) -> dict[str, str]:
    """A finding."""
    return {"outcome": outcome, "kind": kind, "command": "splitbrain run --seed 7 --store /tmp/x"}


def test_only_a_violation_that_a_checker_names_counts_and_everything_is_kept() -> None:
    found = hunts.hunt_of(answer(finding("violation", "crashes: node-crash")), "hunt")
    assert (found.found, found.kind, found.command) == (True, "crashes: node-crash", "splitbrain run --seed 7")
    broken = hunts.hunt_of(answer(finding("harness error", "a worker died")), "hunt")
    assert (broken.found, broken.outcome, broken.kind) == (False, "harness error", "a worker died")
    nothing = hunts.hunt_of(answer(), "hunt")
    assert (nothing.found, nothing.command, nothing.cpu_s, nothing.runs) == (False, "hunt", 12.3, 7)
    other = hunts.hunt_of(answer(finding("violation", "crashes: node-crash")), "hunt", ["durability"])
    assert not other.found


def test_the_page_shows_all_labels_side_by_side_and_the_unseen_ones_apart() -> None:
    first, second, hidden = NAMES[:3]
    yes = hunts.hunt_of(answer(finding("violation", "set: lost")), "hunt")
    no = hunts.hunt_of(answer(), "hunt")
    found = {"before": {first: no, second: yes}, "after": {first: yes, second: yes, hidden: no}}
    lines: list[str] = mutants.page(found, {first: patches.read(first)}, [hidden]).splitlines()
    assert "- before: found 1 of 2, in 12.3 CPU s at the median ()" in lines
    assert "- after: found 2 of 2, in 12.3 CPU s at the median (); of the unseen ones found 0 of 1" in lines
    assert f"| `{first}` | {patches.read(first).what} | not in 12.3 | 12.3 |" in lines
    assert f"| `{second}` | removed since | 12.3 | 12.3 |" in lines
    assert f"| `{hidden}` (unseen) | removed since |  | not in 12.3 |" in lines
    assert f"| `{first}` | yes | 12.3 | 0.5 | 7 | set: lost |  | `splitbrain run --seed 7` |" in lines


def test_draws_that_are_compared_on_the_fixed_ones_have_a_table_together() -> None:
    fixed = patches.listed("fixed.txt")
    other = next(name for name in NAMES if name not in fixed)
    yes, no = hunts.hunt_of(answer(finding("violation", "set: lost")), "hunt"), hunts.hunt_of(answer(), "hunt")
    of_one, of_other = dict.fromkeys(fixed, yes), {**dict.fromkeys(fixed, yes), fixed[0]: no}
    whole = {"before": {**of_one, other: yes}, "one alone": of_one, "none": of_other}
    lines = mutants.page(whole, {}, [], fixed).splitlines()
    at = lines.index("## The fixed ones, by draws")
    assert lines[at + 2 : at + 4] == [
        f"- one alone: found {len(fixed)} of {len(fixed)}, in 12.3 CPU s at the median ()",
        f"- none: found {len(fixed) - 1} of {len(fixed)}, in 12.3 CPU s at the median ()",
    ]
    assert f"| `{fixed[0]}` | 12.3 | not in 12.3 |" in lines[at:]
    assert len([line for line in lines if line.startswith("## ")]) == 2, "and one for the draw that was hunted whole"


def test_the_page_says_why_no_hunt_found_a_mutant() -> None:
    explained = next(name for name in NAMES if patches.read(name).missed)
    other = next(name for name in NAMES if not patches.read(name).missed)
    yes, no = hunts.hunt_of(answer(finding("violation", "set: lost")), "hunt"), hunts.hunt_of(answer(), "hunt")
    known = {name: patches.read(name) for name in (explained, other)}
    lines = mutants.page({"before": {explained: no, other: yes}, "after": {other: no}}, known, []).splitlines()
    at = lines.index("## What no hunt found, and why")
    assert lines[at + 2 : at + 4] == [f"- `{explained}`: {known[explained].missed}", ""]
    assert f"- `{other}`: not explained yet" in mutants.page({"now": {other: no}}, known, []).splitlines()
    assert "## What no hunt found, and why" not in mutants.page({"now": {other: yes}}, known, []).splitlines()


def test_each_mutant_that_no_hunt_found_says_why_and_no_other_one() -> None:
    unseen = patches.listed("unseen.txt")
    missed = [name for name in mutants.never_found(mutants.read()) if name in NAMES]
    assert [name for name in missed if not patches.read(name).missed] == []
    found = {name for hunts in mutants.read().values() for name, hunt in hunts.items() if hunt.found}
    assert [name for name in NAMES if name in found and name not in unseen and patches.read(name).missed] == []


def test_the_unseen_ones_are_hunted_only_if_they_are_asked_for() -> None:
    unseen = patches.listed("unseen.txt")
    assert set(mutants.chosen("seen", [])) == set(NAMES) - set(unseen)
    assert mutants.chosen("unseen", []) == unseen
    assert not set(mutants.chosen("fixed", [])) & set(unseen)
    seen = mutants.chosen("seen", [])[0]
    assert mutants.chosen("seen", [seen]) == [seen]
    with pytest.raises(SystemExit, match=f"{unseen[0]}: not to be hunted before the end"):
        mutants.chosen("seen", [seen, unseen[0]])
    assert mutants.chosen("unseen", unseen[:1]) == unseen[:1]


def test_a_copy_has_the_code_and_shares_what_is_compiled_only_where_nothing_is_changed(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    mutants.copy(folder, ["cluster/raft/log.py"])
    assert (folder / "splitbrain" / "cluster").resolve() == folder / "cluster"
    assert (folder / "cluster" / "raft" / "log.py").read_bytes() == (ROOT / "cluster" / "raft" / "log.py").read_bytes()
    assert not (folder / "cluster" / "raft" / "log.py").is_symlink()
    assert (folder / "checkers" / "__pycache__").resolve() == ROOT / "checkers" / "__pycache__"
    assert not (folder / "cluster" / "raft" / "__pycache__").exists()
