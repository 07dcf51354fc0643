"""Cases one after another: those that cannot be measured are named, and the next one begins."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator

from benchmarks.core.isolate import Failed
from benchmarks.core.record import Record
from benchmarks.core.verify import CheckFailed


class Runs:
    """Counts what failed."""

    def __init__(self) -> None:
        self.failed = 0

    def each(
        self, names: Iterable[str], measure: Callable[[str], Record]
    ) -> Iterator[tuple[str, Record]]:
        """Each case that could be measured, with what was found.

        A case whose data set is not there is skipped; one that fails its check, or whose process
        fails, is counted.
        """
        for name in names:
            print(f"{name} ...", file=sys.stderr, flush=True)
            try:
                found = measure(name)
            except FileNotFoundError as missing:
                print(f"{name}: skipped, {missing}", flush=True)
                continue
            except (CheckFailed, Failed) as problem:
                self.failed += 1
                what = "check failed" if isinstance(problem, CheckFailed) else "failed"
                print(f"{name}: {what}, not timed: {problem}", flush=True)
                continue
            yield name, found
