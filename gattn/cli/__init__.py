"""The ``gattn`` command. It prints an error in one line and then exits with code 2.

If a signal ends the command, it also prints one line. The exit code is 130 after an interrupt
(SIGINT, Ctrl-C) and 143 after SIGTERM, as in shells.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from gattn import __version__
from gattn.files import reason
from gattn.training.threads import sleep_at_barriers

INTERRUPTED, TERMINATED = 130, 143
EXTRAS = {"ray": "ray", **dict.fromkeys(("onnx", "onnxscript", "onnxruntime"), "export")}
"""Dictionary from a module that may be missing to the extra of gattn that installs the module. Any
other missing module belongs to the extra of the command.
"""
WORDS = {INTERRUPTED: "interrupted", TERMINATED: "terminated"}


def main() -> None:
    """Run the ``gattn`` command with the arguments in ``sys.argv`` and exit."""
    if sys.argv[1:] == ["--version"]:
        # The version is printed without Typer, because importing Typer would take most of the time.
        print(f"gattn {__version__}")
        sys.exit(0)
    try:
        with _terminable():
            sleep_at_barriers()
            from gattn.cli.app import app

            app(prog_name="gattn")
    except KeyboardInterrupt:
        # Typer handles interrupts only while a command runs, not while its modules are imported.
        _fail(WORDS[INTERRUPTED], INTERRUPTED)
    except SystemExit as end:
        if end.code not in WORDS:
            raise
        # Typer prints no message when a signal ends the command.
        _fail(WORDS[end.code], end.code)
    except ModuleNotFoundError as error:
        if (error.name or "gattn").startswith("gattn"):
            raise
        command = sys.argv[1] if len(sys.argv) > 1 else ""
        extra = {"nodes": "nodes", "links": "nodes", "serve": "serve"}.get(command, "molecules")
        extra = EXTRAS.get(error.name or "", extra)
        _fail(f'this command needs {error.name}: pip install "gattn[{extra}]"')
    except Exception as error:
        if code := _signal_behind(error):
            _fail(WORDS[code], code)
        if isinstance(error, OSError):
            _fail(reason(error))
        if isinstance(error, ValueError | ImportError | RuntimeError):
            _fail(str(error))
        raise


def _signal_behind(error: BaseException) -> int | None:
    """Return the exit code of the signal that caused an error; return None if no signal caused it.

    A library may raise another error when it cleans up after an interrupt. For example, Optuna's
    journal does so if it is interrupted while it acquires its lock.
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
    """Raise SystemExit on SIGTERM, so that temporary files are deleted and child processes are
    ended.
    """
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
