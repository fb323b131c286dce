"""Predicate reads in a closed universe: `G2`, `G-single` and the like with antidependencies of predicates.

A predicate read returns what matches, so that the versions that it selected of other objects are not seen. In a closed
universe they can be inferred: all objects and all of their versions are known, and if only one version of an object
does not match, a predicate read that does not show the object selected that version. The idea, the form of the ops and
the predicates are those of Elle's `elle.closed-predicate`:

    init  {"x": 1, "y": 2}          the first op: what the universe has at the beginning; it is trusted
    txn   [["insert", "x", 1],      puts an object where there is none
           ["delete", "x"],
           ["w", "x", 2],           sets its value
           ["r", "x", 2],           finds its value; null if there is none
           ["rp", "true", {"x": 1, "y": 2}]]   finds all objects that match

A predicate is `"true"` (all that exist), `["=", 2]`, or `["mod", 2, 0]` (what leaves 0 divided by 2). The version
before an object is inserted ("unborn") and the one after it was deleted ("dead") match no predicate.

If each object is changed at most once, the order of all versions is known. Of an object that is changed more often only
the first version has a known place, and its key is listed as open.
"""

from splitbrain.checkers.transactions.predicates.inference import infer_predicates
from splitbrain.checkers.transactions.predicates.universe import Universe, universe_of
from splitbrain.checkers.transactions.predicates.verify import predicate_problems
from splitbrain.checkers.transactions.predicates.witness import PredicateWitnesses

__all__ = ["PredicateWitnesses", "Universe", "infer_predicates", "predicate_problems", "universe_of"]
