"""What a correct object does, one op at a time: sequential models, in plain Python.

A model has an initial state and a step. Any object with the members of `Model` will do, given as `module:attribute`.
States must be hashable and are compared with `==`. Values come in hashable form (`frozen`): JSON lists as tuples, JSON
objects as `JsonObject`.

The *value* of an op is that of its invocation, the *result* that of its completion; the result of a crashed op is
`UNKNOWN`. The docstring of each model says what its functions take and return. An op that certainly did not happen is
a `fail`: no model sees it.
"""

from splitbrain.checkers.models.catalogue import model, names, parameter
from splitbrain.checkers.models.counters import Counter, UniqueIds
from splitbrain.checkers.models.key_values import KeyValue
from splitbrain.checkers.models.locks import FencedMutex, Mutex, OwnerMutex, ReentrantMutex, Semaphore
from splitbrain.checkers.models.model import (
    IMPOSSIBLE,
    UNKNOWN,
    Addition,
    AdditiveModel,
    Assignment,
    AssignmentModel,
    Facts,
    JsonObject,
    JsonScalar,
    Model,
    Special,
    State,
    apart,
    frozen,
)
from splitbrain.checkers.models.nondeterministic import NondeterministicModel
from splitbrain.checkers.models.queues import FifoQueue, PriorityQueue, Stack, UnorderedQueue
from splitbrain.checkers.models.registers import CasRegister, CreateOnce, MultiRegister, ReadModes, Register
from splitbrain.checkers.models.sets import GrowSet, Set
from splitbrain.checkers.models.validation import examined

__all__ = [
    "IMPOSSIBLE",
    "UNKNOWN",
    "Addition",
    "AdditiveModel",
    "Assignment",
    "AssignmentModel",
    "CasRegister",
    "Counter",
    "CreateOnce",
    "Facts",
    "FencedMutex",
    "FifoQueue",
    "GrowSet",
    "JsonObject",
    "JsonScalar",
    "KeyValue",
    "Model",
    "MultiRegister",
    "Mutex",
    "NondeterministicModel",
    "OwnerMutex",
    "PriorityQueue",
    "ReadModes",
    "ReentrantMutex",
    "Register",
    "Semaphore",
    "Set",
    "Special",
    "Stack",
    "State",
    "UniqueIds",
    "UnorderedQueue",
    "apart",
    "examined",
    "frozen",
    "model",
    "names",
    "parameter",
]
