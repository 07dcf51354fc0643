"""Records of measurements as JSON lines, with versions, hardware, commit and command."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import gattn

RESULTS = Path(__file__).parents[1] / "results"
PACKAGES = ("torch", "torch_geometric", "numpy")

Record = dict[str, Any]


def environment(module: str, arguments: Sequence[str]) -> Record:
    """Return the versions, hardware, commit and command that a measurement depends on.

    Args:
        module: name of the module that was run by ``python -m``.
        arguments: arguments of the command line.
    """
    return {
        "command": shlex.join(["python", "-m", module, *arguments]),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "commit": commit(),
        "versions": {
            "gattn": gattn.__version__,
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
        "backend": gattn.backend_info()["cpu"],
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def cpu_model() -> str:
    """Return the name of the processor."""
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """Return the commit of the checkout, with a plus if tracked files are modified."""

    def git(*arguments: str) -> str:
        if shutil.which("git") is None:
            return ""
        done = subprocess.run(
            ["git", *arguments], cwd=RESULTS.parent, capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "../gattn", ".")
    changed = [line for line in changed.splitlines() if "/results/" not in line]
    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("+" if changed else "")


def append(path: Path, record: Record) -> None:
    """Append a record to a file, and replace a last line that is incomplete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text() if path.exists() else ""
    if whole_lines(text) != text:
        path.write_text(whole_lines(text))
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def whole_lines(text: str) -> str:
    """Return the text without an incomplete last line of an interrupted run."""
    return text[: text.rfind("\n") + 1]


def every(path: Path) -> list[Record]:
    """Return all records of a file."""
    return [json.loads(line) for line in whole_lines(path.read_text()).splitlines()]


def newest(path: Path) -> dict[str, Record]:
    """Return the last record of each case, in the order of the file."""
    return {entry["case"]: entry for entry in every(path)}
