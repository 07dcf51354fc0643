"""Check out and build another commit of this repository in a separate folder."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.core.isolate import ROOT

TOOLS = ("scikit_build_core", "nanobind")
"""Packages that build gattn. If one is missing, pip downloads all of them for the build."""


@contextlib.contextmanager
def built(commit: str) -> Iterator[Path]:
    """Return a folder that contains the package ``gattn`` of a commit, with its C++ kernels."""
    with tempfile.TemporaryDirectory(prefix="gattn-") as folder:
        sources, packages = Path(folder) / "sources", Path(folder) / "packages"
        git("worktree", "add", "--detach", str(sources), commit)
        try:
            has_tools = all(importlib.util.find_spec(name) for name in TOOLS)
            options = ["--no-build-isolation"] if has_tools else []
            command = [
                "-m",
                "pip",
                "install",
                "--no-deps",
                "--quiet",
                *options,
                "--target",
                str(packages),
            ]
            _run([sys.executable, *command, str(sources)])
            yield packages
        finally:
            git("worktree", "remove", "--force", str(sources))


def git(*arguments: str, folder: Path = ROOT) -> str:
    """Return the output of a git command in a folder."""
    return _run(["git", "-C", str(folder), *arguments]).strip()


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout
