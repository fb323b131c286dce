"""Errors of `fail` ops with which a system answered: it read its state, and the state said no."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitbrain.results.calls import Bools
from splitbrain.results.columns import Column, array, flags, numbers

DECIDED: Final = ("mismatch", "exists", "held", "not the owner")
"""Errors that only a state in common can give, unless a test names others to the checker of quorum-progress."""

SPOKEN: Final = r"^(not_found|precondition_failed|resource_locked)\b"
"""How errors begin with which a node speaks of a state that may be its own alone
(`splitbrain.harness.contract.sessions.Topology`): it serves clients, but that proves no quorum."""


def spoke_of_a_state(history: pa.Table) -> Bools:
    """Which rows have an error of either sort."""
    encoded: Any = pc.dictionary_encode(history["error"].combine_chunks())
    errors: Column = encoded.dictionary
    decided = flags(pc.is_in(errors, value_set=array(list(DECIDED), pa.string())))
    spoke = decided | flags(pc.match_substring_regex(errors, SPOKEN))
    return np.append(spoke, False)[numbers(encoded.indices, null=len(spoke))]
