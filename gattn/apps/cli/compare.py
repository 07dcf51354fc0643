"""The command ``compare`` of ``gattn molecules`` and ``gattn nodes``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from gattn.apps.cli.console import show_differences
from gattn.apps.cli.help import CommandGroup


def add_compare(app: CommandGroup) -> None:
    """Add the command to a group of commands."""

    @app.command()
    def compare(
        runs: Annotated[list[Path], Argument(metavar="RUN RUN...")],
        out: Annotated[Path | None, Option()] = None,
    ) -> None:
        """Compare the errors of trained models on the same test part.

        The table has the difference of each error from that of the first run, its 95 % confidence
        interval, and a p-value that is corrected for the number of comparisons.

        Args:
            runs: Folders of train with the same test part, or with the same folds. The others are
                compared with the first one.
            out: New PNG file with a picture of the differences.

        Raises:
            ValueError: there are fewer than two runs, or they cannot be compared.
            RunError: a folder holds no run, or its predictions were changed.
            OSError: ``out`` exists, or cannot be written.
        """
        from gattn.apps.run.compare import compare_runs, differences_plot

        differences = compare_runs(runs)
        show_differences(differences)
        if out is not None:
            from gattn.files import new_file

            # Only the names of the folders are shown, because paths can be wider than the picture.
            rows = [
                (f"{Path(one.run).name}  {one.target}".strip(), one.difference, one.low, one.high)
                for one in differences
                if not math.isnan(one.p)
            ]
            with new_file(out) as temporary:
                temporary.write_bytes(differences_plot(runs[0].name, rows))
