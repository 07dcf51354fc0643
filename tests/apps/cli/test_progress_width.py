"""Progress bars of the commands in a terminal of 80 columns."""

import io
import re

from rich.console import Console

from gattn.apps.cli import console


def test_progress_bar_of_80_columns_shows_epoch_and_validation_accuracy(monkeypatch):
    out = io.StringIO()
    screen = Console(file=out, width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(console, "NOTES", screen)
    news = "run 3 of 10, epoch 117 of 300: training loss 0.4512, validation accuracy 0.8123"
    with console.watched("training", 10) as on_progress:
        on_progress(10, news)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    assert "━" * 20 in text
    words = text.replace("━", " ").split()
    assert {"117", "accuracy", "0.8123"} <= set(words)
