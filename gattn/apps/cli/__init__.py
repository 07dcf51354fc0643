"""The ``gattn`` command. It prints an error in one line and then exits with code 2.

If a signal ends the command, it also prints one line. The exit code is 130 after an interrupt
(SIGINT, Ctrl-C) and 143 after SIGTERM, as in shells.
"""

from __future__ import annotations

import sys
from shutil import get_terminal_size

from gattn import __version__
from gattn.apps.cli.signals import INTERRUPTED, WORDS, EndingSignals, signal_behind
from gattn.apps.run.text import divided, without_temporary
from gattn.apps.runtime.threads import sleep_at_barriers
from gattn.files import reason

EXTRAS = {"ray": "ray"}
"""Dictionary from a module that may be missing to the extra of gattn that installs the module. Any
other missing module belongs to the extra of the command.
"""


def main() -> None:
    """Run the ``gattn`` command with the arguments in ``sys.argv`` and exit. An error of the types
    OSError, ValueError, ImportError and RuntimeError is printed as one line, with the exit code 2,
    unless a module of gattn is missing; a signal ends the command with its usual code; the
    traceback of any other exception is shown.
    """
    if sys.argv[1:] == ["--version"]:
        # The version is printed without Typer, because importing Typer would take most of the time.
        print(f"gattn {__version__}")
        sys.exit(0)
    signals = EndingSignals()
    try:
        with signals.installed():
            if sys.stderr.isatty() and _is_start(sys.argv[1:]):
                print("Loading the program and its libraries", file=sys.stderr)
            sleep_at_barriers()
            from gattn.apps.cli.app import app

            app(prog_name="gattn")
    except KeyboardInterrupt:
        # Typer handles interrupts only while a command runs, not while its modules are imported.
        _fail(WORDS[INTERRUPTED], INTERRUPTED)
    except SystemExit as end:
        if end.code not in WORDS:
            raise
        # Typer prints no message when a signal ends the command.
        _fail(WORDS[end.code], end.code)
    except Exception as error:
        if code := signals.code or signal_behind(error):
            _fail(WORDS[code], code)
        if isinstance(error, ModuleNotFoundError):
            if (error.name or "gattn").startswith("gattn"):
                raise
            _fail(f'this command needs {error.name}: pip install "gattn[{_extra(error.name)}]"')
        if isinstance(error, OSError):
            _fail(reason(error))
        if isinstance(error, ValueError | ImportError | RuntimeError):
            _fail(str(error))
        raise


def _is_start(arguments: list[str]) -> bool:
    """Return True if a command runs, which imports libraries for seconds, instead of its help.

    >>> _is_start(["serve", "run"]), _is_start(["nodes", "train", "--help"]), _is_start(["nodes"])
    (True, False, False)
    """
    if "--help" in arguments or "-h" in arguments:
        return False
    return arguments[:1] == ["serve"] or len(arguments) > 2


def _extra(module: str | None) -> str:
    """Return the extra of gattn that installs a missing module, by the name of the module or else
    by the command in ``sys.argv``.
    """
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    extra = {"nodes": "nodes", "links": "nodes", "serve": "serve"}.get(command, "molecules")
    return EXTRAS.get(module or "", extra)


def _fail(message: str, code: int = 2) -> None:
    """Print the message of an error as one line, divided at the width of a terminal, and exit with
    a code.
    """
    line = f"gattn: {'; '.join(without_temporary(message).splitlines())}"
    if sys.stderr.isatty():
        line = divided(line, get_terminal_size().columns)
    print(line, file=sys.stderr)
    sys.exit(code)
