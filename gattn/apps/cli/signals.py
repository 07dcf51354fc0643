"""End of a command by a signal. One SIGINT or SIGTERM is enough, also during imports."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED, TERMINATED = 130, 143
WORDS = {INTERRUPTED: "interrupted", TERMINATED: "terminated"}


class EndingSignals:
    """Handlers that raise KeyboardInterrupt on SIGINT, and on SIGTERM SystemExit, so that temporary
    files are deleted and child processes are ended.

    If a signal arrives while C code of torch or NumPy imports a module, this code may clear the
    exception, and the command would continue. The object is therefore also a finder in
    ``sys.meta_path``: the next import of another module raises the exception again. It does not do
    so while the first exception is propagated, because cleanup may import modules, too.

    Attributes:
        code: the exit code of the last signal; 0 before one arrives.
    """

    def __init__(self) -> None:
        self.code = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Install the handlers for a ``with`` block.

        If SIGINT is ignored, as in a job that a shell script runs in the background, it remains
        so.
        """
        handlers = {signal.SIGTERM: self.terminate}
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            handlers[signal.SIGINT] = self.interrupt
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)
            for number, handler in before.items():
                signal.signal(number, handler)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT."""
        self.code = INTERRUPTED
        raise KeyboardInterrupt

    def terminate(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGTERM."""
        self.code = TERMINATED
        raise SystemExit(TERMINATED)

    def find_spec(self, *_: object) -> None:
        """Raise the exception of a signal again if an import cleared it.

        The import system calls this method before it searches for a module.
        """
        is_lost = self.code and not signal_behind(sys.exc_info()[1])
        if is_lost and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt if self.code == INTERRUPTED else SystemExit(self.code)


def signal_behind(error: BaseException | None) -> int:
    """Return the exit code of the signal that caused an error; return 0 if no signal caused it.

    A library may raise another error when it cleans up after an interrupt.
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return INTERRUPTED
        if isinstance(error, SystemExit) and error.code == TERMINATED:
            return TERMINATED
        error = error.__cause__ or error.__context__
    return 0
