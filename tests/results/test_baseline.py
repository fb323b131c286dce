"""The baseline file: what an entry covers and for how long, and that each mistake in it is refused with its line."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from splitbrain.results.baseline import Baseline, Known, entry_text
from splitbrain.results.errors import UsageError
from splitbrain.results.signatures import Signature

TODAY = date(2026, 5, 1)
ENTRY = """format = 1

[[known]]
signature = "set/lost/-/kill"
with = ["quorum-progress/*"]
issue = "https://example.org/17"
owner = "ann"
expires = 2026-05-01
"""
LOST = Signature.parse("set/lost/-/kill")


def _load(tmp_path: Path, text: str) -> Baseline:
    path = tmp_path / "known.toml"
    path.write_text(text, encoding="utf-8")
    return Baseline.load(path)


def test_an_entry_covers_its_signature_and_what_it_lists_beside_it_and_nothing_else(tmp_path: Path) -> None:
    baseline = _load(tmp_path, ENTRY)
    beside, other = Signature.parse("quorum-progress/Q2/-/kill"), Signature.parse("crashes/node-crash/-/kill")
    assert baseline.look_up([LOST], TODAY).known
    assert baseline.look_up([LOST, beside], TODAY).known
    found = baseline.look_up([LOST, beside, other], TODAY)
    assert (found.known, found.uncovered) == (False, (other,))
    assert found.entry is not None
    assert baseline.look_up([beside, LOST], TODAY).uncovered == (beside, LOST)
    assert not baseline.look_up([Signature.parse("set/lost/-/pause")], TODAY).known


def test_an_entry_counts_on_its_last_day_and_the_day_after_what_it_stood_for_is_new_again(tmp_path: Path) -> None:
    baseline = _load(tmp_path, ENTRY)
    assert not baseline.look_up([LOST], TODAY).expired
    found = baseline.look_up([LOST], date(2026, 5, 2))
    assert (found.known, found.expired, found.uncovered) == (False, True, (LOST,))
    assert found.entry is not None
    assert found.entry.issue == "https://example.org/17"


def test_two_entries_cover_a_run_that_shows_both(tmp_path: Path) -> None:
    two = ENTRY + ENTRY.partition("\n\n")[2].replace("set/lost/-/kill", "crashes")
    with pytest.raises(UsageError, match=r"known.toml, line 10: 'crashes' is no signature"):
        _load(tmp_path, two)
    two = two.replace('"crashes"', '"crashes/node-crash"')
    assert _load(tmp_path, two).look_up([LOST, Signature.parse("crashes/node-crash/-/kill")], TODAY).known


def test_neither_the_list_of_another_entry_nor_one_that_has_expired_covers_anything() -> None:
    later, crash, other = date(2026, 5, 2), "crashes/node-crash", "votes/voted-twice"
    baseline = Baseline(
        [
            Known(signature=str(LOST), issue="#1", owner="ann", expires=later),
            Known(signature=crash, issue="#2", owner="ann", expires=TODAY, beside=(other,)),
        ]
    )
    shown = [LOST, Signature.parse(f"{crash}/-/kill"), Signature.parse(f"{other}/leader/kill")]
    assert baseline.look_up(shown, TODAY).uncovered == (shown[2],)
    assert baseline.look_up(shown[1:], TODAY).known
    assert baseline.look_up(shown, later).uncovered == (shown[1], shown[2])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("owner = ", "ownr = ", "line 7: Object contains unknown field `ownr`. Correct its name"),
        ('owner = "ann"\n', "", "line 3: Object missing required field `owner`. Add it."),
        ('owner = "ann"', 'owner = " "', "line 7: the owner is empty"),
        ("2026-05-01", '"soon"', "line 8: Invalid"),
        ("2026-05-01", "2026-13-01", "is not TOML"),
        ("format = 1", "format = 9", "line 1: format 9 is not known"),
        ('["quorum-progress/*"]', '["x"]', "line 5: 'x' is no signature"),
        ('["quorum-progress/*"]', "3", "line 5: Expected `array`, got `int`"),
        ("[[known]]", "[[knwn]]", "line 3: Object contains unknown field `knwn`"),
        ("[[known]]", "[known]", "line 3: Expected `array`, got `object`"),
    ],
)
def test_a_mistake_is_refused_with_its_line_and_what_to_do(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in ENTRY
    with pytest.raises(UsageError) as refused:
        _load(tmp_path, ENTRY.replace(old, new))
    assert says in str(refused.value)
    assert "known.toml" in str(refused.value)


def test_a_signature_twice_a_folder_and_no_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"line 10: the entry of line 3 has this signature too"):
        _load(tmp_path, ENTRY + ENTRY.partition("\n\n")[2])
    with pytest.raises(UsageError, match="cannot be read"):
        Baseline.load(tmp_path)
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        Baseline.load(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'note = "\xff"')
    with pytest.raises(UsageError, match="not UTF-8"):
        Baseline.load(tmp_path / "latin.toml")


def test_an_entry_that_is_offered_covers_the_violation_once_it_is_filled_in(tmp_path: Path) -> None:
    shown = [LOST, Signature.parse("quorum-progress/Q2/-/kill"), Signature.parse("quorum-progress/Q2/-/none")]
    text = entry_text(shown, TODAY)
    with pytest.raises(UsageError, match="the issue is empty"):
        _load(tmp_path, text)
    filled = text.replace('issue = ""', 'issue = "#1"').replace('owner = ""', 'owner = "ann"')
    assert _load(tmp_path, filled).look_up(shown, TODAY).known
