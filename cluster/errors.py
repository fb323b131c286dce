"""Every error that the metadata cluster raises on purpose.

    ClusterError
    ├── NodeError                       the node must not go on
    │   ├── ArgumentError               its command line is wrong
    │   ├── FormationError              it found no cluster that it could be a part of
    │   └── StorageError                its data directory cannot be used
    │       ├── CorruptStorageError     what had been made durable is damaged
    │       ├── WrongNodeError          the directory belongs to another node
    │       └── LaterVersionError       its log is of a later version than the node supports
    ├── DiscoveryError                  a backend of peer discovery failed
    ├── InvalidPathError                a path that no tree can have
    ├── UnknownMessageError             an index of a classic queue is asked about a message that it does not hold
    ├── ConversionRefusedError          files of classic queues may not be converted now
    └── ClientError                     a request got no result; `definite` says what that means
        ├── RefusedError                definite: the request did not happen and never will
        │   ├── NodeNotFoundError
        │   ├── QueueNotFoundError
        │   ├── MismatchingNodeError          in `splitbrain.cluster.client`
        │   ├── PossiblyMatchingManyNodesDeniedError
        │   ├── TransactionAbortedError
        │   ├── StoreRefusedError
        │   ├── MigrationRefusedError
        │   ├── QueueConversionRefusedError
    │   ├── InvalidRequestError
        │   ├── ChangeRefusedError
        │   └── UnavailableError
        └── OutcomeUnknownError         indefinite: its outcome is unknown

A message is for the person who reads it: what is wrong, where, and what to do about it, in one line.
"""

from __future__ import annotations

from typing import Any, ClassVar


class ClusterError(Exception):
    """The root of the hierarchy. Catch it to catch every error that the cluster raises on purpose."""


class NodeError(ClusterError):
    """The node cannot start, or must not go on. The message says what to do before it is started again."""


class ArgumentError(NodeError):
    """The node's command line is wrong. Correct the argument that the message names."""


class FormationError(NodeError):
    """The node has no data and found no cluster that it could be a part of, in all its attempts (PD-3).

    It founded none alone. The message says what was missing: start enough of the other nodes, and it again.
    """


class StorageError(NodeError):
    """The node's data directory cannot be used."""


class CorruptStorageError(StorageError):
    """Something that the node had made durable is damaged or gone.

    The node refuses to start, because it may have promised to the others what it can no longer read: a vote, or an
    entry that was counted as replicated. Replace the node with a new one, or restore its whole directory.

    Attributes:
        file: what is damaged.
        byte: where, or shortly before it.
        what: what is wrong there.
    """

    def __init__(self, message: str, file: str = "", byte: int = 0, what: str = "") -> None:
        super().__init__(message)
        self.file = file
        self.byte = byte
        self.what = what or message


class WrongNodeError(StorageError):
    """The data directory belongs to a node of another name. Start that node with it, or give this one its own."""


class LaterVersionError(StorageError):
    """A version of the state machine is in the node's log, or in its state, that the node does not support.

    It was started with an earlier program than before, or with a lower `--machine-version`. A version that is in force
    never goes back: start the node with the later one again.
    """


class FeatureFlagError(NodeError):
    """A feature flag is enabled in the cluster that the node's program does not know, or that fails on the node.

    A flag that was enabled stays enabled: start the node with a later program.
    """


class DiscoveryError(ClusterError):
    """A backend of peer discovery failed, or what it says makes no sense. A node without data asks it again."""


class InvalidPathError(ClusterError):
    """A path is not of the form /a/b/c. Names are separated by single slashes and are not empty."""


class UnknownMessageError(ClusterError):
    """The index of a classic queue does not hold a message of this sequence id, or it is acknowledged already."""


class ConversionRefusedError(ClusterError):
    """Files of classic queues may not be converted now; none was changed.

    Attributes:
        reason: "alarm" (ask again once it is cleared), "threshold" (ask again when there is less to convert) or
            "unknown" (no such transformation) or "not_enabled" (begin it first).
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class FunctionRefusedError(ClusterError):
    """A function cannot be registered: its result may differ between members, or its name is taken."""


class CorruptExportError(ClusterError):
    """What is to be imported is no export of a tree, is cut short, or is damaged; nothing was imported."""


class ClientError(ClusterError):
    """A request got no result.

    Attributes:
        definite: whether it is certain that the request did not happen and never will.
        term: the consensus term in which the answer was given, None where there was no answer.
        is_result: whether it is what the command comes to, by an entry of the log: so a copy with the same ref, sent
            before or after it, comes to the same (KH-9).
    """

    definite: ClassVar[bool]
    is_result: bool = False

    def __init__(self, message: str, term: int | None = None) -> None:
        super().__init__(message)
        self.term = term


class RefusedError(ClientError):
    """The request certainly did not happen, and never will."""

    definite = True


class NodeNotFoundError(RefusedError):
    """The path leads to no tree node, and the request needs one."""


class QueueNotFoundError(RefusedError):
    """There is no queue of that name, or it was deleted, or the consumer was cancelled. Declare the queue first."""


class PossiblyMatchingManyNodesDeniedError(RefusedError):
    """The path is a pattern, and the request works on exactly one tree node. Give the path of that one."""


class TransactionAbortedError(RefusedError):
    """The function of a transaction ended it; nothing of it was applied.

    Attributes:
        reason: what the function gave as the reason.
    """

    def __init__(self, message: str, term: int | None, reason: Any) -> None:
        super().__init__(message, term)
        self.reason: Any = reason


class StoreRefusedError(RefusedError):
    """The store refused the request by its rules; nothing was changed.

    Attributes:
        reason: the rule's name: "keep_while_conditions_not_met", "projection_already_exists", "unknown_function", ...
            (`splitbrain.cluster.tree.messages.Refusal`).
    """

    def __init__(self, message: str, term: int | None, reason: str) -> None:
        super().__init__(message, term)
        self.reason = reason


class FlagNotEnabledError(RefusedError):
    """This request did not enable a feature flag; what it depends on may be enabled.

    Attributes:
        reason: "unknown_flag", "experimental" (say that this is meant), "not_synchronised" (ask again), "missing_nodes"
            (start them), "unsupported" (start a later program there), "busy" or "undone" (ask again).
    """

    def __init__(self, message: str, term: int | None, reason: str) -> None:
        super().__init__(message, term)
        self.reason = reason


class MigrationRefusedError(RefusedError):
    """Entities are not moved to the tree, or not back to the tables. The message says why, and what to do."""


class QueueConversionRefusedError(RefusedError):
    """A node may not convert files of classic queues now; none was changed.

    Attributes:
        reason: as of `ConversionRefusedError`.
    """

    def __init__(self, message: str, term: int | None, reason: str) -> None:
        super().__init__(message, term)
        self.reason = reason


class InvalidRequestError(RefusedError):
    """The node could not make sense of the request, or it or its answer is larger than a node takes or sends."""


class ChangeRefusedError(RefusedError):
    """The members do not change so, or not now: a change begins when the one before it is committed.

    Attributes:
        reason: "change_not_permitted" (ask again), "already_member", "was_member", "not_member" or "last_member"; of
            a transfer of leadership "not_member", "non_voter", "not_up_to_date" or "transfer_under_way" (ask again) or
            "version_not_supported" (start that node with a later program); of the members of a queue those of
            `splitbrain.cluster.queueclient.changes`.
    """

    def __init__(self, message: str, term: int | None, reason: str) -> None:
        super().__init__(message, term)
        self.reason = reason


class UnavailableError(RefusedError):
    """The request was not proposed: no leader was known in time, leadership was lost, or the connection was broken."""


class OutcomeUnknownError(ClientError):
    """The request was sent to the cluster and no answer came: it may have happened, or may still happen."""

    definite = False


class MisfitError(OutcomeUnknownError):
    """An answer came that cannot be one to the request: the node mixed up its replies."""
