"""Errors of `fail` ops with which a system answered: it read its state, and the state said no."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitbrain.results.calls import Bools
from splitbrain.results.columns import Column, array, flags, numbers
from splitbrain.results.standbys import STANDBY

DECIDED: Final = ("mismatch", "exists", "held", "not the owner")
"""Errors that only a state in common can give, unless a test names others to the checker of quorum-progress."""

SPOKEN: Final = r"^(not_found|precondition_failed|resource_locked|conflict)\b"
"""How errors begin with which a node speaks of a state that may be its own alone
(`splitbrain.harness.contract.brokers.Topology`), or found that other transactions were first: it serves clients, but
that proves no quorum.
"""


def spoke_of_a_state(history: pa.Table) -> Bools:
    """Which rows have an error of either sort."""
    return _rows(history, _of_a_state)


def declined_by_standbys(history: pa.Table) -> Bools:
    """Which rows have the error of a node that does not lead, and refuses what only the leader does."""
    return _rows(history, lambda errors: flags(pc.starts_with(errors, STANDBY)))


def _of_a_state(errors: Column) -> Bools:
    decided = flags(pc.is_in(errors, value_set=array(list(DECIDED), pa.string())))
    return decided | flags(pc.match_substring_regex(errors, SPOKEN))


def _rows(history: pa.Table, of_errors: Callable[[Column], Bools]) -> Bools:
    """What a test of errors says of each row; it is asked once for each different error."""
    encoded: Any = pc.dictionary_encode(history["error"].combine_chunks())
    found = of_errors(encoded.dictionary)
    return np.append(found, False)[numbers(encoded.indices, null=len(found))]
