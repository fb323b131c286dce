"""Transactions that are translated in bulk become what the parser makes of them; all else is left to the parser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.results.arrow import array
from splitbrain.results.formats.edn_text import json_of
from splitbrain.results.formats.edn_transactions import translated

NUMBERS = st.integers(-(10**17), 10**17).map(str)
KEYS = NUMBERS | st.sampled_from(['"x"', '"5"', '"nil"', '"true"', '"a.b_c-d"', '""', ":x", ":nil", ":some-key"])
SPACES = st.sampled_from([" ", ", ", ","])
FUNCTIONS = st.sampled_from([":append", ":r", ":w", ":compare-and-set"])


def joined(parts: st.SearchStrategy[list[str]]) -> st.SearchStrategy[str]:
    return st.tuples(parts, SPACES).map(lambda both: f"[{both[1].join(both[0])}]")


RESULTS = NUMBERS | joined(st.lists(NUMBERS, max_size=4)) | st.just("nil")
MOPS = joined(st.tuples(FUNCTIONS, KEYS, RESULTS).map(list))
TRANSACTIONS = joined(st.lists(MOPS, min_size=1, max_size=4))


@given(st.lists(TRANSACTIONS, min_size=1, max_size=5))
def test_every_transaction_in_the_usual_form_is_translated_as_the_parser_does_it(texts: list[str]) -> None:
    assert translated(array(texts)).to_pylist() == [json_of(text) for text in texts]


@given(TRANSACTIONS, st.data())
def test_a_text_that_one_character_changed_is_translated_alike_or_left_alone(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + data.draw(st.sampled_from(' ,:"[](){}\\;#nil-0+Nx')) + text[at + 1 :]
    (found,) = translated(array([changed])).to_pylist()
    assert found is None or found == json_of(changed)


@pytest.mark.parametrize(
    "text", ['[[:append "a b" 1]]', "[[:r 1 -0]]", "[[:r 1 01]]", "[[:r 1 [nil]]]", "[]", "[[:r x nil]]", "3", "nil"]
)
def test_what_is_written_in_another_way_is_left_to_the_parser(text: str) -> None:
    assert translated(array([text])).to_pylist() == [None]
