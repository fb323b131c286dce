"""Every error that splitbrain raises on purpose.

    SplitbrainError
    ├── UsageError                  exit 254: the request itself is wrong
    │   ├── UnknownNameError
    │   ├── UnknownNodeError
    │   ├── FaultNotSupportedError
    │   ├── HistoryFormatError
    │   ├── ModelError
    │   ├── RunNotFoundError
    │   └── StoreVersionError
    └── HarnessError                exit 255: the harness, or the machine under it, failed
        ├── ProtocolError
        ├── BackendError
        │   ├── SeveralFailedError
        │   ├── NodeStartError
        │   ├── ContainerEngineError
        │   ├── ImageMissingError
        │   └── ImageBuildError
        ├── NemesisError
        ├── SystemUnderTestError
        ├── SimulationError
        │   └── SimulationDeadlockError
        ├── DamagedRunError
        ├── JudgingStoppedError
        ├── SignalledError
        │   ├── JudgingInterruptedError (a JudgingStoppedError too)
        │   ├── RunEndedError
        │   └── RunNotBegunError
        ├── RemoteStoreError
        │   └── RemoteConnectionError
        └── EngineError

A message is for the person who reads it: what is wrong, where, and what to do about it, in one line.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

EXIT_PASS = 0
EXIT_VIOLATION = 1
EXIT_INCONCLUSIVE = 2
EXIT_USAGE = 254
EXIT_HARNESS_ERROR = 255


class SplitbrainError(Exception):
    """The root of the hierarchy. Catch it to catch every error that splitbrain raises on purpose."""

    exit_code = EXIT_HARNESS_ERROR


class UsageError(SplitbrainError):
    """The request is not valid. Correct the option or the file that the message names."""

    exit_code = EXIT_USAGE


class UnknownNameError(UsageError):
    """A workload, nemesis, checker, model, system, backend or bug of that name does not exist."""

    def __init__(self, kind: str, name: str, known: Iterable[str], where: str = "") -> None:
        """What is missing, what was meant perhaps, and what there is.

        Args:
            kind: what it would be ("bug").
            name: as it was given.
            known: the names that exist.
            where: what it would belong to, as a phrase ("of system 'etcd'").
        """
        names = sorted(known)
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        listed = f"Known: {', '.join(names)}." if names else "There is none at all."
        super().__init__(f"there is no {kind} {name!r}{where and ' '}{where}. {hint}{listed}")
        self.kind = kind
        self.name = name


class UnknownNodeError(UsageError):
    """A node was named that is not in the test."""


class FaultNotSupportedError(UsageError):
    """The backend cannot inject a fault that the test asks for. `splitbrain doctor` lists what works here."""


class ModelError(UsageError):
    """A model and a history do not fit together. The message gives the model, the op and what is wrong."""

    def __init__(self, problem: str, transition: int) -> None:
        super().__init__(" ".join(problem.splitlines()))  # a model's own error may have several
        self.transition = transition


class HistoryFormatError(UsageError):
    """A history file cannot be read. The message gives the file, the place in it and what was expected there."""

    def __init__(self, path: str, problem: str, *, line: int | None = None) -> None:
        place = path if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {problem}")
        self.path = path
        self.line = line


class RunNotFoundError(UsageError):
    """No stored run is where one was expected."""


class StoreVersionError(UsageError):
    """A run was stored by a newer splitbrain. Upgrade splitbrain to read it; nothing was changed."""


class HarnessError(SplitbrainError):
    """The harness itself failed: the run says nothing about the system under test."""


class ProtocolError(HarnessError):
    """A client, generator, nemesis, system or backend broke the contract of its protocol."""


class BackendError(HarnessError):
    """A backend could not do what was requested."""


class SeveralFailedError(BackendError):
    """Several places failed at the same time. The message has all of them; each begins with its place."""

    def __init__(self, failures: Sequence[BackendError]) -> None:
        super().__init__(" ".join(map(str, failures)))
        self.failures = tuple(failures)


class NodeStartError(BackendError):
    """A node did not come up. The message ends with the last lines that it logged."""


class ContainerEngineError(BackendError):
    """No container engine can be used. The message says where it was looked for, what was found, and what to do."""


class ImageMissingError(BackendError):
    """An image is not built, or out of date in a way that takes long to repair. The message has the command."""

    def __init__(self, name: str, problem: str = "is not built") -> None:
        super().__init__(f"image {name} {problem}: run `splitbrain images build {name}`.")
        self.name = name


class ImageBuildError(BackendError):
    """An image could not be built. The message has the step that failed and its last output."""


class NemesisError(HarnessError):
    """A fault could not be injected, verified or healed."""


class SystemUnderTestError(HarnessError):
    """A system could not be set up."""


class SimulationError(HarnessError):
    """A simulated run did what only a real one can: real time, threads, files, sockets; or it ran away.

    The message names the call and the file and line that made it, and what to use instead.
    """


class SimulationDeadlockError(SimulationError):
    """A simulation has no more events, and has not ended. The message names the waiting tasks and places."""


class DamagedRunError(HarnessError):
    """A stored run cannot be judged: a file of it is damaged, missing, or of a newer version. The message names it."""


class JudgingStoppedError(HarnessError):
    """Judging had too little memory, or was interrupted. What was recorded is kept; the message has the command."""


class SignalledError(HarnessError):
    """A signal ended what was under way: a command that ends with this has the exit code of a shell for that signal."""


class JudgingInterruptedError(JudgingStoppedError, SignalledError):
    """Judging was interrupted."""


class RunEndedError(SignalledError):
    """A run was interrupted a third time, and ended at once. Nodes are gone, faults healed, its history is kept."""


class RunNotBegunError(SignalledError):
    """A run was interrupted before its nodes were up: nothing was tested, and there is nothing to judge."""


class EngineError(HarnessError):
    """The checking engine (Spark, Java, the kernels) could not run."""


class RemoteStoreError(HarnessError):
    """A store behind an address cannot be reached, read or written. The message says which, and what to do.

    Nothing is lost: what was recorded is on the machine that recorded it, and a run that was pushed in part is not
    listed. Do the same once more when the cause is gone.
    """


class RemoteConnectionError(RemoteStoreError):
    """The service of a store does not answer, or does not let this user in: no other file of it can be had either."""
