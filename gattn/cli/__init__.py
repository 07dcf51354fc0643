"""The ``gattn`` command: arguments to calls of the library, errors to one line and exit code 2.

A signal that ends the command is one line, too, and the shell's code of it: 130 after an interrupt
(SIGINT, ^C), 143 after SIGTERM, by which other programs stop one.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED, TERMINATED = 130, 143
WORDS = {INTERRUPTED: "interrupted", TERMINATED: "terminated"}


def main() -> None:
    """Run the command that ``sys.argv`` asks for, and exit."""
    try:
        with _terminable():
            from gattn.cli.app import app

            app(prog_name="gattn")
    except KeyboardInterrupt:  # while modules are imported
        _fail(WORDS[INTERRUPTED], INTERRUPTED)
    except SystemExit as end:
        if end.code not in WORDS:
            raise
        _fail(WORDS[end.code], end.code)  # Typer ends the program, and says nothing
    except ModuleNotFoundError as error:
        if (error.name or "gattn").startswith("gattn"):
            raise
        extra = "nodes" if "nodes" in sys.argv[1:2] else "molecules"
        _fail(f'this command needs {error.name}: pip install "gattn[{extra}]"')
    except Exception as error:
        if code := _signal_behind(error):
            _fail(WORDS[code], code)
        if isinstance(error, OSError) and error.strerror and error.filename:
            _fail(f"{error.filename}: {error.strerror}")
        if isinstance(error, OSError | ValueError | ImportError | RuntimeError):
            _fail(str(error))
        raise


def _signal_behind(error: BaseException) -> int | None:
    """The exit code of the signal during whose handling an error was raised, or None.

    A library that cleans up after an interrupt may fail at it and raise an error of its own:
    Optuna's journal does, for a lock that the interrupt left half taken.
    """
    context: BaseException | None = error
    while context is not None:
        if isinstance(context, KeyboardInterrupt):
            return INTERRUPTED
        if isinstance(context, SystemExit) and context.code == TERMINATED:
            return TERMINATED
        context = context.__cause__ or context.__context__
    return None


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM raise, as an interrupt does: files are put in order, other processes end."""
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)


def _fail(message: str, code: int = 2) -> None:
    print("gattn:", "; ".join(message.splitlines()), file=sys.stderr)
    sys.exit(code)
