"""gattn molecules predict with several inputs: shards, interruptions, jobs, selections, errors."""

import csv
import gzip
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.apps.cli.commands import run_command
from tests.apps.cli.molecule_table import read_rows

ROOT = Path(__file__).parents[3]
PARTS = ["CCO", "CCN", "c1ccccc1", "CC(=O)O", "CCCCCl", "CCOCC", "NCCO", "bad(", ""]
FAST = ("--workers", "1", "--rows-per-shard", "50")


def make_rows(count, seed=0):
    rng = random.Random(seed)
    return [(rng.choice(PARTS) + "C" * rng.randrange(9), f"id{i}") for i in range(count)]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Folder of files in all formats, two of them without rows."""
    folder = tmp_path_factory.mktemp("screen") / "in"
    (folder / "sub").mkdir(parents=True)
    rows = make_rows(430)
    (folder / "a.csv").write_text(
        "name,smiles,extra\n" + "".join(f"{n},{s},1\n" for s, n in rows[:120]) + "x,C,1,2,3\n"
    )
    with gzip.open(folder / "sub/b.csv.gz", "wt") as file:
        file.write("smiles;name\n" + "".join(f"{s};{n}\n" for s, n in rows[120:220]))
    with gzip.open(folder / "c.smi.gz", "wt") as file:
        file.write("".join(f"{s or 'C'} {n}\n" for s, n in rows[220:330]))
    columns = {"smiles": [s for s, _ in rows[330:]], "name": [n for _, n in rows[330:]]}
    pq.write_table(pa.table(columns), folder / "d.parquet", row_group_size=30)
    (folder / "empty.csv").touch()
    (folder / "header.csv").write_text("smiles,name\n")
    return folder


def shard_rows(out):
    return [row for path in sorted(out.glob("shards/*.csv")) for row in read_rows(path)]


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def whole(folder, inputs, tmp_path_factory):
    """Folder of a screening of all inputs in one job."""
    out = tmp_path_factory.mktemp("whole") / "out"
    with pytest.MonkeyPatch.context() as patch:
        assert run_command(patch, "molecules", "predict", folder / "numbers", inputs,
                           "--out", out, *FAST) == 0  # fmt: skip
    return out


def test_screening_of_several_files_gives_the_same_predictions_as_predict_for_one_table(
    folder, inputs, whole, tmp_path, gattn
):
    rows, table = shard_rows(whole), tmp_path / "all.csv"
    assert len(rows) == 431
    assert list(rows[0])[:4] == ["input", "row", "smiles", "name"]
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([["smiles"], *([row["smiles"]] for row in rows)])
    options = ["--out", tmp_path / "out.csv", "--workers", 1]
    code, output = gattn("predict", folder / "numbers", table, *options)
    assert code == 0, output
    assert sum(bool(row["error"]) for row in rows) > 50
    for row, one in zip(rows, read_rows(tmp_path / "out.csv"), strict=True):
        if "cells but the header has" in row["error"]:
            assert (row["input"], row["name"]) == (str(inputs / "a.csv"), "x")
            continue
        assert row["error"] == one["error"]
        for name in ("prediction", "std", "similarity"):
            numbers = [float(each[name] or "nan") for each in (row, one)]
            assert numbers[0] == pytest.approx(numbers[1], rel=1e-4, nan_ok=True)


def test_screening_by_two_jobs_writes_the_same_files_as_one_job(
    folder, inputs, whole, tmp_path, gattn
):
    out = tmp_path / "out"
    for job, message in (("1/2", "5 shards of other jobs are not finished"), ("0/2", "431 rows")):
        code, output = gattn(
            "predict", folder / "numbers", inputs, "--out", out, *FAST, "--shard", job
        )
        assert code == 0, output
        assert message in output
    assert files(out) == files(whole)


def test_screening_repeats_only_damaged_or_missing_shards(folder, inputs, whole, tmp_path,
                                                                   gattn):  # fmt: skip
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    (out / "shards/000001.csv").write_text("damaged")
    (out / "shards/000002.json").unlink()
    (out / "shards/.000002.csv.ab.partial").write_text("half")
    (out / "summary.json").unlink()
    times = {path: path.stat().st_mtime_ns for path in out.glob("shards/*")}
    code, output = gattn("predict", folder / "numbers", inputs, "--out", out, *FAST)
    assert code == 0, output
    assert files(out) == files(whole)
    changed = {path.name for path, time in times.items()
               if path.exists() and path.stat().st_mtime_ns != time}  # fmt: skip
    assert changed == {"000001.csv", "000001.json", "000002.csv"}


def test_screening_options_top_where_and_by_select_and_rank_rows(
    folder, inputs, whole, tmp_path, gattn
):
    out = tmp_path / "out"
    code, output = gattn("predict", folder / "numbers", inputs, "--out", out, *FAST, "--top", 7,
                         "--where", "similarity > 0.3 and not prediction < 3",
                         "--by", "-std")  # fmt: skip
    assert code == 0, output
    rows = [row for row in shard_rows(whole) if not row["error"]]
    chosen = [r for r in rows if float(r["similarity"]) > 0.3 and float(r["prediction"]) >= 3]
    expected = sorted(chosen, key=lambda row: float(row["std"]))[:7]
    assert read_rows(out / "top.csv") == expected
    assert len(chosen) > 7
    written = shard_rows(out)
    assert all(row in chosen for row in written)
    assert json.loads((out / "summary.json").read_text())["top"] == 7
    assert "7 written" in output


def test_option_top_ranks_rows_of_a_classifier_by_the_probability_of_a_class(
    folder, inputs, tmp_path, gattn
):
    out = tmp_path / "out"
    code, output = gattn("predict", folder / "classes", inputs / "a.csv", "--out", out, *FAST,
                         "--top", 5, "--keep", "extra",
                         "--where", "prediction == 'idle'")  # fmt: skip
    assert code == 0, output
    rows = read_rows(out / "top.csv")
    values = [float(row["probability_idle"]) for row in rows]
    assert len(values) == 5
    assert values == sorted(values, reverse=True)
    assert list(rows[0])[:5] == ["input", "row", "smiles", "extra", "prediction"]


def test_screening_into_shards_of_another_model_or_other_settings_or_inputs_raises_error(
    folder, inputs, whole, tmp_path, gattn
):
    copy = tmp_path / "in"
    shutil.copytree(inputs, copy)
    for change, message in (
        (["--coverage", 0.5], "coverage is 0.9 in the folder and 0.5 in this command"),
        (["--where", "std > 1"], "where is '' in the folder and 'std > 1' in this command"),
        (["--keep", ""], "keep is ['name'] in the folder and [] in this command"),
    ):
        code, output = gattn("predict", folder / "numbers", inputs, "--out", whole, *FAST, *change)
        assert code == 2
        assert f"{whole} contains the shards of another screening ({message}): choose" in output
    for run, path, message in (
        ("classes", inputs, "the model is different"),
        ("numbers", inputs / "a.csv", f"the input {inputs / 'c.smi.gz'} is different"),
        ("numbers", copy, f"the input {inputs / 'a.csv'} is different"),
    ):
        keep = ("--keep", "name") if path == inputs / "a.csv" else ()
        code, output = gattn("predict", folder / run, path, "--out", whole, *FAST, *keep)
        assert code == 2
        assert message in output
    changed = tmp_path / "changed"
    code, _ = gattn("predict", folder / "numbers", copy, "--out", changed, *FAST)
    assert code == 0
    with (copy / "a.csv").open("a") as file:
        file.write("new,CCO,1\n")
    code, output = gattn("predict", folder / "numbers", copy, "--out", changed, *FAST)
    assert code == 2
    assert f"the input {copy / 'a.csv'} is different" in output


def test_invalid_options_of_a_screening_exit_with_an_error(folder, inputs, tmp_path, gattn):
    for arguments, message in (
        (["--where", "activity > 7"], "where: no column 'activity'; the columns are input, row"),
        (["--where", "prediction"], "where: must be a condition"),
        (["--by", "std"], "by ranks the rows of --top, which is not set"),
        (["--shard", "2/2"], "shard must be I/N with I from 0 to N-1, for example 0/4; got '2/2'"),
        (["--keep", "nothing"], "must have one column 'nothing' to keep; its other columns are"),
        (["--threads", 2], "threads must be 0 or 1 if --out is a folder"),
        (["--engine", "dask"], "'local', 'ray'; got 'dask'"),
    ):
        code, output = gattn(
            "predict", folder / "numbers", inputs, "--out", tmp_path / "o", *arguments
        )
        assert code == 2
        assert message in " ".join(output.split())
        assert not (tmp_path / "o").exists()


def test_screening_into_a_folder_with_other_files_or_a_damaged_manifest_exits_with_an_error(
    folder, inputs, tmp_path, gattn
):
    (tmp_path / "note.txt").write_text("mine")
    code, output = gattn("predict", folder / "numbers", inputs, "--out", tmp_path, *FAST)
    assert (code, f"{tmp_path} is not empty and has no manifest.json" in output) == (2, True)
    code, output = gattn("predict", folder / "numbers", inputs, "--out", tmp_path / "o.csv", *FAST)
    assert (code, "--out must be a folder" in output) == (2, True)
    code, output = gattn("predict", folder / "numbers", inputs, "--out", tmp_path / "note", *FAST)
    (tmp_path / "note/manifest.json").write_text("{")
    code, output = gattn("predict", folder / "numbers", inputs, "--out", tmp_path / "note", *FAST)
    assert (code, "manifest.json is damaged" in output) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["out.xlsx", "out.json", "out.csv.bz2", "out.parquet.gz"])
def test_screening_into_a_folder_named_like_a_file_requires_a_final_slash(
    folder, inputs, tmp_path, gattn, name
):
    call = ("predict", folder / "numbers", inputs / "d.parquet", *FAST, "--out")
    code, output = gattn(*call, tmp_path / name)
    assert (code, f"{name}/ instead of" in output) == (2, True)
    assert not (tmp_path / name).exists()
    assert gattn(*call, f"{tmp_path / name}/")[0] == 0
    assert (tmp_path / name / "manifest.json").exists()


def test_screening_after_kills_and_a_full_disk_writes_the_same_files_as_without_them(
    folder, inputs, tmp_path
):
    script = ROOT / "tests/apps/molecules/screening/killed.py"
    # Five shards of two formats are enough, because the script screens them about forty times.
    few = tmp_path / "in"
    few.mkdir()
    for name in ("a.csv", "d.parquet"):
        shutil.copy(inputs / name, few)
    done = subprocess.run(
        [sys.executable, script, folder / "numbers", few, tmp_path],
        capture_output=True, text=True, check=False, timeout=250,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    full, counts = done.stdout.splitlines()
    assert full == f"{tmp_path / 'full/shards/000000.csv'}: File too large"
    assert int(counts.split()[0]) >= 2, "most kills came too late"


@pytest.mark.slow
def test_screening_with_ray_writes_the_same_files_as_without_ray(
    folder, inputs, whole, tmp_path, gattn
):
    pytest.importorskip("ray")
    out = tmp_path / "out"
    options = ["--workers", 2, "--rows-per-shard", 50, "--engine", "ray"]
    code, output = gattn("predict", folder / "numbers", inputs, "--out", out, *options)
    assert code == 0, output
    assert files(out) == files(whole)
