#!/usr/bin/env python3
"""Hunt the mutants in tests/mutants, and write docs/mutants.md: what was found, by which checkers, how soon.

usage: tools/mutants.py [--label LABEL] [--only fixed|seen|unseen|all] [--missing] [--idea IDEA] [NAME...]
                                                                       hunt these mutants
       tools/mutants.py --write                                       write the page again, and hunt nothing

Each mutant is hunted in a copy of the code in which its patch is applied, with the default draw and from seed 1, until
a checker names a violation or the budget of CPU seconds is used up (--budget, 240). Without names and --only all are
hunted but the unseen ones: these must be asked for with --only, also by name. docs/mutants.json keeps what was found
under a label, such as before and after; a later hunt of the same mutant under that label replaces its entry, and
--missing leaves out those that have one. --idea hunts with one idea of the draw alone, or with none (tools/ideas.py).
--jobs hunts run at a time (2), each on one core. What was found is shrunk for --shrink-budget CPU seconds (120).
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import patches
from hunts import COLUMNS, Hunt, ask, cells, head, hunt_of, row, side_by_side
from patches import ROOT, Mutant, PatchError

DATA: Final = ROOT / "docs" / "mutants.json"
PAGE: Final = ROOT / "docs" / "mutants.md"

PACKAGE: Final = "splitbrain"
SETS: Final = ("fixed", "seen", "unseen", "all")

ENTRY: Final = """
import sys
from pathlib import Path
import splitbrain.cluster
import splitbrain.harness
here = Path(sys.argv.pop(1)).resolve()
for package in (splitbrain.cluster, splitbrain.harness):
    assert Path(package.__file__).resolve().is_relative_to(here), f"{package.__file__} runs, and not the copy in {here}"
if sys.argv[1] == "--idea":
    from ideas import only
    only(sys.argv[2])
    del sys.argv[1:3]
from splitbrain.harness.cli.main import main
main()
"""
"""What stands for the command `splitbrain` in a copy: it sees that the copy is what runs."""

HEAD: Final = """# Mutants, and what finds them

Written by `tools/mutants.py`: do not edit it. Each mutant is a bug of the metadata cluster, or of its client, that is
not a switch: a patch in `tests/mutants`, which says where it comes from and what it shows. Each was hunted with the
default draw, from seed 1 until a checker named a violation or its budget of CPU seconds was used up. CPU seconds are
those of one busy machine, which may be slow: compare them with each other only. To run a finding again, apply the patch
(`git apply`), run the command, and take the patch back (`git apply -R`).
"""

Results: TypeAlias = dict[str, dict[str, Hunt]]
"""By label and by name."""


# --- hunting ----------------------------------------------------------------------------------------------------------


def copy(folder: Path, changed: Sequence[str]) -> None:
    """Copy the code of splitbrain to a folder.

    Folders in which no file is to be changed share what is compiled of them with the original, above all the kernels of
    the checkers, which take half a minute. Python and `splitbrain.checkers.kernel_cache` use it for equal sources only.
    """
    shutil.copytree(ROOT / PACKAGE, folder / PACKAGE, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    touched = {Path(file).parent for file in changed}
    for link in sorted((ROOT / PACKAGE).iterdir()):
        if not link.is_symlink():
            continue
        source = link.resolve()
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        for place in sorted({path.parent for path in source.rglob("*.py")}):
            if place.relative_to(ROOT) not in touched:
                compiled = place / "__pycache__"
                compiled.mkdir(exist_ok=True)
                (folder / compiled.relative_to(ROOT)).symlink_to(compiled, target_is_directory=True)


def hunt(mutant: Mutant, options: Sequence[str], revision: str, idea: str | None = None) -> Hunt:
    """Hunt one mutant on one core; with an idea of `ideas.IDEAS`, with that alone.

    Raises:
        PatchError: its patch does not apply.
        SystemExit: the hunt gave no answer.
    """
    with tempfile.TemporaryDirectory(prefix="mutant-") as temporary:
        code = Path(temporary) / "code"
        copy(code, mutant.files)
        patches.apply(mutant, code)
        answer = ask(
            ["--seed", "1", "--jobs", "1", "--no-canary", "--store", str(Path(temporary) / "store"), *options],
            program=(sys.executable, "-P", "-c", ENTRY, str(code), *(() if idea is None else ("--idea", idea))),
            environment={**os.environ, "PYTHONPATH": os.pathsep.join([str(code), str(Path(__file__).parent)])},
        )
    return msgspec.structs.replace(hunt_of(answer, "splitbrain hunt --seed 1"), revision=revision)


def revision() -> str:
    """The commit of the code that is copied, with a plus if files differ from it; empty outside of a repository."""
    said = [
        subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
        for words in (("rev-parse", "--short=10", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
    ]
    if any(done.returncode for done in said):
        return ""
    return said[0].stdout.strip() + ("+" if said[1].stdout.strip() else "")


# --- results ----------------------------------------------------------------------------------------------------------


def read() -> Results:
    """What earlier hunts found."""
    return msgspec.json.decode(DATA.read_bytes(), type=Results) if DATA.exists() else {}


def keep(found: Results) -> None:
    """Write data and page."""
    ordered = {label: dict(sorted(hunts.items())) for label, hunts in found.items()}
    DATA.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")
    PAGE.write_text(page(ordered, _known(), patches.listed("unseen.txt"), patches.listed("fixed.txt")))


def _known() -> dict[str, Mutant]:
    return {name: patches.read(name) for name in patches.names()}


def page(
    every: Results, known: Mapping[str, Mutant], unseen: Sequence[str], fixed: Collection[str] = frozenset()
) -> str:
    """The page in Markdown: sums by label, all labels side by side, and a table for each.

    Labels under which only `fixed` ones were hunted, which compare draws, have one table together.
    """
    found = {label: hunts for label, hunts in every.items() if not hunts.keys() <= set(fixed)}
    compared = {label: hunts for label, hunts in every.items() if label not in found}
    lines = [HEAD]
    for label, hunts in found.items():
        seen = {name: hunt for name, hunt in hunts.items() if name not in unseen}
        apart = {name: hunt for name, hunt in hunts.items() if name in unseen}
        lines += [f"- {label}: {_sum(seen)}" + (f"; of the unseen ones {_sum(apart)}" if apart else "")]
    named = sorted({name for hunts in found.values() for name in hunts})
    lines += ["", *head("mutant", "what is broken", *(f"{label}, CPU s" for label in found))]
    for name in named:
        mark = " (unseen)" if name in unseen else ""
        what = known[name].what if name in known else "removed since"
        lines.append(row(f"`{name}`{mark}", what, *(_short(hunts.get(name)) for hunts in found.values())))
    if compared:
        lines += _comparison(compared)
    if missed := never_found(every):
        lines += ["", "## What no hunt found, and why", ""]
        lines += [f"- `{name}`: {(name in known and known[name].missed) or 'not explained yet'}" for name in missed]
    for label, hunts in found.items():
        lines += ["", f"## {label}", "", *head("mutant", *COLUMNS)]
        lines += [row(f"`{name}`", cells(hunt)) for name, hunt in hunts.items()]
    return "\n".join(lines) + "\n"


def _comparison(found: Results) -> list[str]:
    """A row for each mutant, and a column for each draw; sums above it."""
    names = sorted({name for hunts in found.values() for name in hunts})
    lines = ["", "## The fixed ones, by draws", "", *(f"- {label}: {_sum(hunts)}" for label, hunts in found.items())]
    lines += ["", *head("mutant", *(f"{label}, CPU s" for label in found))]
    return [*lines, *(row(f"`{name}`", *(_short(hunts.get(name)) for hunts in found.values())) for name in names)]


def never_found(found: Results) -> list[str]:
    """The names of those that were hunted, and found by no hunt, sorted."""
    hunted = {name for hunts in found.values() for name in hunts}
    return sorted(hunted - {name for hunts in found.values() for name, hunt in hunts.items() if hunt.found})


def _sum(hunts: Mapping[str, Hunt]) -> str:
    taken = [hunt.cpu_s for hunt in hunts.values() if hunt.found]
    of = f"found {len(taken)} of {len(hunts)}"
    revisions = ", ".join(dict.fromkeys(hunt.revision for hunt in hunts.values()))
    return f"{of}, in {statistics.median(taken):.1f} CPU s at the median ({revisions})" if taken else of


def _short(hunt: Hunt | None) -> str:
    if hunt is None:
        return ""
    return f"{hunt.cpu_s}" if hunt.found else f"not in {hunt.cpu_s}"


# --- the command ------------------------------------------------------------------------------------------------------


def chosen(only: str, named: Sequence[str]) -> list[str]:
    """The names of the mutants that are asked for.

    Raises:
        SystemExit: one is named that is unseen, and these are not asked for.
    """
    there, unseen = patches.names(), patches.listed("unseen.txt")
    if named:
        hidden = [name for name in named if name in unseen]
        if hidden and only not in ("unseen", "all"):
            raise SystemExit(
                f"{', '.join(hidden)}: not to be hunted before the end; if that is now, add --only unseen."
            )
        return list(named)
    of_set = {
        "fixed": patches.listed("fixed.txt"),
        "seen": [name for name in there if name not in unseen],
        "unseen": unseen,
        "all": there,
    }
    return of_set[only]


def main(words: Sequence[str]) -> None:
    """Hunt what is asked for; keep each result as soon as it is there."""
    given = _parser().parse_args(words)
    found = read()
    if given.write:
        keep(found)
        return
    of_label = found.setdefault(given.label, {})
    wanted = [name for name in chosen(given.only, given.names) if not (given.missing and name in of_label)]
    shrinking = ["--shrink-budget", f"{given.shrink_budget:g}"] if given.shrink else ["--no-shrink"]
    options = ["--budget", f"{given.budget:g}", *shrinking]
    at = revision()
    try:
        mutants = [patches.read(name) for name in wanted]
        for mutant, result in side_by_side(lambda each: hunt(each, options, at, given.idea), mutants, given.jobs):
            _print(mutant, result)
            of_label[mutant.name] = result
            keep(found)
    except PatchError as error:
        raise SystemExit(str(error)) from error


def _print(mutant: Mutant, result: Hunt) -> None:
    word = "found" if result.found else "NOT FOUND"
    print(f"{mutant.name:40} {word:9} {result.cpu_s:6.1f} s  {result.kind}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(usage=(__doc__ or "").partition("usage: ")[2].partition("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--budget", type=float, default=240.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--label", default="now")
    parser.add_argument("--only", choices=SETS, default="seen")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--idea")
    parser.add_argument("--shrink-budget", type=float, default=120.0)
    parser.add_argument("--no-shrink", dest="shrink", action="store_false")
    parser.add_argument("--write", action="store_true")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
