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
    except OSError as error:
        of_system = error.strerror and error.filename  # otherwise the message is gattn's own
        _fail(f"{error.filename}: {error.strerror}" if of_system else str(error))
    except (ValueError, ImportError, RuntimeError) as error:
        _fail(str(error))


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
