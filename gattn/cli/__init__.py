"""The ``gattn`` command: arguments to calls of the library, errors to one line and exit code 2."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command that ``sys.argv`` asks for, and exit."""
    try:
        from gattn.cli.app import app

        app(prog_name="gattn")
    except KeyboardInterrupt:  # while modules are imported
        _fail("interrupted", INTERRUPTED)
    except SystemExit as end:
        if end.code != INTERRUPTED:
            raise
        _fail("interrupted", INTERRUPTED)  # Typer ends the program, and says nothing
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


def _fail(message: str, code: int = 2) -> None:
    print("gattn:", "; ".join(message.splitlines()), file=sys.stderr)
    sys.exit(code)
