"""A bit that changes in a file of a run is reported, or has no effect."""

import itertools
import random
import shutil

import pytest

from gattn.apps.run import train
from gattn.apps.serve.server import open_runs
from gattn.apps.serve.settings import ServeSettings
from tests.apps.cli.commands import run_command, runner
from tests.pictures import leave_blank
from tests.zoo import build_once

FLIPS = 3
READ = (
    "model.json", "weights.safetensors", "config.toml", "splits.json", "report.html",
)  # fmt: skip


def flip_bit(path, source):
    """Change one random bit of a file."""
    content = bytearray(path.read_bytes())
    content[source.randrange(len(content))] ^= 1 << source.randrange(8)
    path.write_bytes(content)


@pytest.fixture
def gattn(monkeypatch, capsys):
    leave_blank(monkeypatch)
    return runner(monkeypatch, capsys)


@pytest.mark.parametrize(
    ("run", "name"),
    [("numbers", "predictions.csv"), *itertools.product(["numbers", "graph"], READ)],
)
def test_server_names_each_changed_file_of_a_run_folder(folders, tmp_path, run, name):
    source = random.Random(f"{run} {name}")
    folder = shutil.copytree(folders[run], tmp_path / "run")
    whole = (folder / name).read_bytes()
    for _ in range(FLIPS):
        flip_bit(folder / name, source)
        try:
            (opened,) = open_runs([folder], ServeSettings())
            words = " ".join(opened.notes)
        except ValueError as error:
            words = str(error)
        assert name in words
        (folder / name).write_bytes(whole)


@pytest.fixture(scope="module")
def interrupted(folders, tmp_path_factory):
    """Arguments of a training, and the folder of an uninterrupted and of a stopped run."""
    command = (
        "molecules", "train", folders["numbers"].parent / "data.csv", "--target", "y",
        "--model", "attention", "--epochs", 2, "--width", 16, "--layers", 1,
        "--workers", 1,
    )  # fmt: skip

    def build(folder):
        with pytest.MonkeyPatch.context() as patch:
            leave_blank(patch)
            assert run_command(patch, *command, "--out", folder / "whole") == 0

            def stop(*_):
                raise OSError("the disk is full")

            patch.setattr(train, "_write_run", stop)
            assert run_command(patch, *command, "--out", folder / "parted") != 0

    folder = build_once(tmp_path_factory, "interrupted", build)
    copy = shutil.copytree(folder / "parted", tmp_path_factory.mktemp("parted") / "run")
    return command, folder / "whole", copy


def changed_runs(parted, flips):
    """Yield the files of an interrupted run, each several times with a changed bit."""
    source = random.Random(2)
    for path in sorted(path for path in parted.rglob("*") if path.is_file()):
        content = path.read_bytes()
        for _ in range(flips):
            flip_bit(path, source)
            yield path
            path.write_bytes(content)


def test_training_resumed_from_changed_files_gives_an_error_or_the_same_files(
    interrupted, tmp_path, gattn
):
    command, whole, parted = interrupted
    refused = set()
    for number, path in enumerate(changed_runs(parted, FLIPS)):
        out = tmp_path / str(number)
        shutil.copytree(parted, out)
        code, output = gattn(*command, "--out", out)
        if code:
            assert str(out) in output.replace("\n", "")
            refused.add(path.name)
            continue
        for name in ("weights.safetensors", "predictions.csv", "metrics.json"):
            assert (out / name).read_bytes() == (whole / name).read_bytes(), path
    assert "checkpoint.pt" in refused
