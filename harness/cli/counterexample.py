"""The pictures of violations that `splitbrain check` writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from splitbrain.results import drawable
from splitbrain.results.errors import UsageError
from splitbrain.results.quantities import counted
from splitbrain.results.targets import check_target

if TYPE_CHECKING:
    import pyarrow as pa

    from splitbrain.checkers.long_histories import LongHistory
    from splitbrain.checkers.verdict import Verdict
    from splitbrain.results.summarized import SummarizedHistory

SUFFIX: Final = ".counterexample.html"


option = click.option(
    "--picture",
    default=None,
    metavar="PATH",
    help=f"Draw the violation into this file, or into this folder as FILE{SUFFIX}.",
)
"""The option `picture` of a command that can draw pictures."""


def is_drawable(verdict: Verdict) -> bool:
    """Whether there is something to draw."""
    evidence = verdict.evidence
    return verdict.valid == "false" and (drawable.is_drawable(evidence) or drawable.has_witnesses(evidence))


class Pictures:
    """The pictures of one command."""

    def __init__(self, target: str, files: Sequence[str]) -> None:
        """Find a name for the picture of each file.

        Args:
            target: the file to write, or a folder that is there.
            files: the files that are judged.

        Raises:
            UsageError: one file cannot hold the pictures of several histories, the folder is missing, or neither is
                given.
        """
        if not target.strip():
            raise UsageError("--picture names neither a file nor a folder (. is the current one).")
        folder = Path(target)
        self._paths = dict(zip(files, _names(files), strict=True))
        if folder.is_dir():
            self._paths = {file: folder / name for file, name in self._paths.items()}
        elif len(self._paths) > 1:
            raise UsageError(
                f"--picture {target}: there is no such folder, and one file cannot hold the pictures of "
                f"{counted(len(self._paths), 'history', 'histories')}. Make the folder first."
            )
        elif not folder.parent.is_dir():
            raise UsageError(f"--picture {target}: there is no folder {folder.parent}. Make it first.")
        else:
            check_target("--picture", target, of=files[0])
            self._paths = dict.fromkeys(files, folder)

    def draw(self, file: str, history: pa.Table | LongHistory | SummarizedHistory, verdict: Verdict) -> str | None:
        """Write the picture of a verdict on `file`, and return its path; None if there is nothing to draw.

        If the picture cannot be written, a line on standard error says so; the verdict does not change.
        """
        if not is_drawable(verdict):
            return None
        table = _table(history, verdict)
        path = self._paths[file]
        try:
            _write(path, table, verdict, Path(file).name)
        except OSError as error:
            click.echo(f"{path}: the picture cannot be written: {error.strerror}.", err=True)
            return None
        return str(path)


def _table(history: pa.Table | LongHistory | SummarizedHistory, verdict: Verdict) -> pa.Table:
    """The history with all that a picture of this verdict shows."""
    from splitbrain.checkers.long_histories import LongHistory
    from splitbrain.results.findings import all_op_indexes
    from splitbrain.results.summarized import SummarizedHistory

    if isinstance(history, SummarizedHistory):
        return history.with_ops(all_op_indexes(verdict.evidence))
    return history.table() if isinstance(history, LongHistory) else history


def _write(path: Path, history: pa.Table, verdict: Verdict, source: str) -> None:
    """Draw what there is: witnesses of transactions, or an op that fits into no order."""
    if drawable.has_witnesses(verdict.evidence):
        from splitbrain.results.report.isolation import write_isolation

        write_isolation(path, history, verdict.evidence, verdict.sentence, source)
    else:
        from splitbrain.results.report.counterexample import write_counterexample

        write_counterexample(path, history, verdict.evidence, verdict.sentence, source)


def _names(files: Sequence[str]) -> list[Path]:
    """A picture name per file, from the file's name; equal names get a number."""
    found: list[Path] = []
    for file in files:
        path = Path(file).resolve()
        stem = path.name if path.is_dir() else path.stem
        names = (Path(f"{stem}{number}{SUFFIX}") for number in ["", *(f"-{n}" for n in range(2, len(files) + 2))])
        found.append(next(name for name in names if name not in found))
    return found
