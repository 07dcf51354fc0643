"""Run cases one after another, and report those that cannot be measured."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator

from benchmarks.core.isolate import Failed
from benchmarks.core.record import Record
from benchmarks.core.verify import CheckFailed


class Runs:
    """Counter of failed cases."""

    def __init__(self) -> None:
        self.failed = 0

    def each(
        self, names: Iterable[str], measure: Callable[[str], Record]
    ) -> Iterator[tuple[str, Record]]:
        """Yield the name and the result of each case that could be measured.

        Cases without their data set are skipped. Cases whose check or process fails are counted.
        """
        for name in names:
            print(f"{name} ...", file=sys.stderr, flush=True)
            try:
                result = measure(name)
            except FileNotFoundError as missing:
                print(f"{name}: skipped, {missing}", flush=True)
                continue
            except (CheckFailed, Failed) as problem:
                self.failed += 1
                what = "check failed" if isinstance(problem, CheckFailed) else "failed"
                print(f"{name}: {what}, not timed: {problem}", flush=True)
                continue
            yield name, result
