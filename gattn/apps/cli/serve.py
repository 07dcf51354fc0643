"""The command ``gattn serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from gattn.apps.cli.console import say
from gattn.apps.cli.options import with_settings
from gattn.apps.serve.settings import ServeSettings


@with_settings(ServeSettings)
def serve(
    runs: Annotated[list[Path], Argument(metavar="RUN...")],
    *,
    settings: dict[str, Any],
) -> None:
    """Serve trained models as a web page and an HTTP API, by default only on this machine.

    The page predicts a molecule that you draw or paste and the molecules of a CSV file, and looks
    up the nodes and the missing links of a network. All predictions are computed on this machine,
    and the server sends no data to other hosts.

    Args:
        runs: Folders of trained models of molecules, nodes or links, or the name of a model of
            gattn: bbb, the blood-brain barrier.

    Raises:
        ValueError: a setting cannot be used, or no run can be loaded.
        OSError: a file cannot be read, or the address cannot be used.
    """
    chosen = ServeSettings(**settings)
    from gattn.apps.serve.server import serve as serve_runs

    serve_runs(runs, chosen, say)
