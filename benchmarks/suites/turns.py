"""Comparison of gattn at two commits in two processes, which run alternately.

Both processes run the benchmark code of this tree, and only the package ``gattn`` differs. The
inputs are created once, in this process, and read by both processes. Only public names of the other
commit's gattn are used, so its private names may differ.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import gattn
from benchmarks.core import timing, verify
from benchmarks.core.isolate import ROOT, Process
from benchmarks.core.record import Record
from benchmarks.suites.alone import Alone, HasOneSide

FEWEST = 5
"""Minimum number of rounds of a case, for meaningful quartiles of the ratios."""
APART_IN_16_BITS = 0.03
"""Maximum difference between two outputs that are rounded to 16 bits."""


class Turns:
    """Pair of processes that measure the same cases.

    Args:
        other: folder that contains the other package ``gattn`` with its compiled extension.
        threads: torch's number of threads in each process.
    """

    def __init__(self, other: Path, threads: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.sides = {
            "this": Process(threads=threads),
            "other": Process(threads=threads, gattn=other.resolve()),
        }
        try:
            self.descriptions = {name: side.call(_introduce) for name, side in self.sides.items()}
            self._check_sides()
        except BaseException:
            self.close()
            raise

    def _check_sides(self) -> None:
        """Check that one side is gattn of this tree, and that both sides run on the same kind of
        kernels.
        """
        folder = Path(self.descriptions["this"]["gattn"])
        if folder != ROOT / "gattn":
            raise SystemExit(f"this tree is {ROOT}, but Python imports gattn from {folder}")
        backends = {name: description["backend"] for name, description in self.descriptions.items()}
        if len({backend.startswith("available") for backend in backends.values()}) > 1:
            raise SystemExit(f"only one side has C++ kernels: {backends}")

    def __enter__(self) -> Turns:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        """End both processes, and remove their temporary files."""
        for side in self.sides.values():
            side.close()
        self._folder.cleanup()

    def measure(self, case: HasOneSide, scale: float, seconds: float) -> Record:
        """Check that both sides compute the same results, and then time them alternately.

        Raises:
            CheckFailed: the results differ by more than rounding errors.
        """
        inputs = case.inputs(scale)
        path = self.folder / "inputs.pt"
        torch.save(_fields(inputs), path)
        calls: dict[str, dict[str, int]] = {}
        for name, side in self.sides.items():
            calls[name] = side.call(_prepare, case, type(inputs), str(path))
        check = self._check()
        what = list(calls["this"])
        return {
            "check": check,
            "seconds": {run: self._alternate(run, calls, seconds / len(what)) for run in what},
        }

    def _check(self) -> dict[str, Any]:
        outcomes = []
        for name, side in self.sides.items():
            path = self.folder / f"{name}.pt"
            side.call(_write_outcome, str(path))
            outcomes.append(torch.load(path, weights_only=True))
        ours, theirs = outcomes
        verify.require(ours.keys() == theirs.keys(), f"{set(ours) ^ set(theirs)} on one side only")
        differing = [name for name in ours if not torch.equal(ours[name], theirs[name])]
        narrow = ours["out"].dtype.itemsize == 2
        check = verify.against_peer(ours, theirs, APART_IN_16_BITS if narrow else verify.APART)
        return {"differing": differing, **check}

    def _alternate(
        self, run: str, calls: dict[str, dict[str, int]], seconds: float
    ) -> dict[str, timing.Spread]:
        """Return the times of both sides, and the ratio of this side to the other within each
        round.
        """
        number = max(of_side[run] for of_side in calls.values())

        def sampler(side: Process) -> Callable[[], float]:
            return lambda: side.call(_sample, run, number)

        samplers = {name: sampler(side) for name, side in self.sides.items()}
        samples = timing.take_turns(samplers, seconds, FEWEST)
        summaries = {name: timing.summary(values) for name, values in samples.items()}
        pairs = zip(samples["this"], samples["other"])
        return {**summaries, "ratio": timing.summary([this / other for this, other in pairs])}


def _fields(inputs: Any) -> dict[str, Any]:
    """Return the fields of a data class or a named tuple by name."""
    if dataclasses.is_dataclass(inputs):
        return {field.name: getattr(inputs, field.name) for field in dataclasses.fields(inputs)}
    return inputs._asdict()


# The following functions run in the two processes that are compared.

_now: list[Alone] = []
"""Case that is currently measured."""


def _introduce() -> dict[str, str]:
    """Return the gattn package of this process and its backend."""
    return {
        "gattn": str(Path(gattn.__file__).resolve().parent),
        "backend": gattn.backend_info()["cpu"],
    }


def _prepare(case: HasOneSide, kind: Callable[..., Any], path: str) -> dict[str, int]:
    """Build a case with these inputs; return how often each of its functions is called in a
    turn.
    """
    _now.clear()  # Free the memory of the previous case before the next case allocates memory.
    alone = case.alone(kind(**torch.load(path, weights_only=True)))
    _now.append(alone)
    return {name: timing.calls_a_turn(run) for name, run in alone.runs.items()}


def _write_outcome(path: str) -> None:
    torch.save(_now[0].outcome(), path)


def _sample(run: str, calls: int) -> float:
    return timing.sample(_now[0].runs[run], calls)
