"""Writes into a wheel from which commit it was built; a run records it (`splitbrain.results.origin`)."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Revision(BuildHookInterface):
    """Adds splitbrain/results/revision.json, where the sources are a checkout of git."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds; `version` is "standard" or "editable"."""
        revision, changes = self._git("rev-parse", "HEAD"), self._git("status", "--porcelain", "--untracked-files=no")
        top = self._git("rev-parse", "--show-toplevel")
        if version == "editable" or not revision or top is None or Path(top) != Path(self.root).resolve():
            return
        self._folder = tempfile.TemporaryDirectory(prefix="splitbrain-build-")
        file = Path(self._folder.name) / "revision.json"
        file.write_text(json.dumps({"revision": revision, "dirty": changes != ""}))
        build_data["force_include"][str(file)] = "splitbrain/results/revision.json"

    def _git(self, *arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", self.root, *arguments], capture_output=True, text=True, check=False)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None
