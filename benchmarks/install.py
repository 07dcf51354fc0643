"""Measurement of the size of a wheel, and of the seconds from ``pip install`` to the first output.

    GATTN_ISAS=all python -m pip wheel . --no-deps --wheel-dir dist
    python -m benchmarks.install dist/gattn-*.whl

The wheel is installed into a new environment without a compiler, which uses torch and PyTorch
Geometric of the Python that runs the benchmark. With ``--into PYTHON``, the wheel is installed into
the environment of another Python that has only torch. In this case pip downloads PyTorch Geometric
and its dependencies, and the packages remain installed. The first output is printed by
``.ci/installed.py``, which compares a layer on the C++ kernels with PyG's layer and the reference.
A JSON line is appended to benchmarks/results/install.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.core import record

INSTALLED = Path(__file__).parents[1] / ".ci" / "installed.py"


def run(*command: str | Path, **environment: str) -> str:
    """Run a command and return its output; raise an error with the output if the command fails."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("GATTN_BACKEND", "PYTHONPATH")}
    done = subprocess.run(
        [str(part) for part in command],
        env={**inherited, **environment},
        cwd=environment.get("PWD"),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def make_environment(home: Path) -> tuple[Path, Path]:
    """Create a fresh environment with all packages of this one.

    Returns:
        The Python of the environment, and the folder of its installed packages.
    """
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    others = {sysconfig.get_path("purelib"), str(Path(torch.__file__).parents[1])}
    Path(site, "others.pth").write_text("\n".join(sorted(others)) + "\n")
    return python, Path(site).resolve()


def install_all(wheel: Path, python: Path) -> None:
    """Install a wheel with its dependencies."""
    run(python, "-m", "pip", "install", wheel)


def install(wheel: Path, python: Path) -> None:
    """Install a wheel without dependencies into the environment of a Python."""
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel
    )


def first_output(python: Path, home: Path, *options: str) -> dict[str, Any]:
    """Return the report of an installation, without a compiler on the path."""
    output = run(python, INSTALLED, *options, PWD=str(home), PATH=str(python.parent))
    return json.loads(output.splitlines()[-1])


def main(arguments: Sequence[str]) -> None:
    """Install each wheel, run a layer, and print bytes and seconds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.install", description=main.__doc__)
    parser.add_argument(
        "wheel", type=Path, nargs="+", help="wheels of gattn to install and measure"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=record.RESULTS / "install.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    parser.add_argument(
        "--into",
        type=Path,
        metavar="PYTHON",
        help="Python of an environment with PyTorch, instead of a fresh one",
    )
    options = parser.parse_args(arguments)
    machine = record.environment("benchmarks.install", [Path(one).name for one in arguments])
    for wheel in options.wheel:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            python = options.into or make_environment(home / "clean")[0]
            start = time.perf_counter()
            (install_all if options.into else install)(wheel.resolve(), python)
            installed = time.perf_counter()
            kernels = first_output(python, home, "--kernels")["info"]["cpu"]
            end = time.perf_counter()
        entry = {
            "wheel": wheel.name,
            "bytes": wheel.stat().st_size,
            "kernels": kernels,
            "dependencies": bool(options.into),
            "install_seconds": installed - start,
            "seconds": end - start,
            "environment": machine,
        }
        record.append(options.output, entry)
        print(f"{wheel.name}: {entry['bytes'] / 1e6:.2f} MB, {end - start:.1f} s, {kernels}")


if __name__ == "__main__":
    main(sys.argv[1:])
