"""Imports of each start of gattn: a package is imported when it is first needed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

COMPILER = ("torch._dynamo", "torch._inductor", "torch.onnx", "sympy")
PYG = ("torch_geometric", *COMPILER)
DATA = ("matplotlib", "networkx", "pandas", "pyarrow", "rdkit", "scipy", "sklearn")
COMMAND = (
    "jinja2",
    "joblib",
    "msgspec",
    "rich",
    "safetensors",
    "tomlkit",
    "tqdm",
    "typer",
)
LIBRARY = (*DATA, *COMMAND, "triton", "gattn.kernels.triton")
HEAVY = (*DATA, *PYG, "numpy", "safetensors", "torch", "triton")

STEPS = {
    "nothing": "",
    "gattn": "import gattn",
    "packages": (
        "import gattn.nn, gattn.data, gattn.draw, gattn.graphs, gattn.models, gattn.transforms\n"
        "import gattn.apps.links, gattn.apps.molecules, gattn.apps.nodes\n"
        "import gattn.sampling, gattn.structure, gattn.testing\n"
        "gattn.data.dataset_names()"
    ),
    "torch": "import torch",
    "operators": (
        "gattn.Graph, gattn.functional.gat_attention, gattn.backend_info()\n"
        "from gattn.graphs import *; from gattn.sampling import *; from gattn.structure import *"
    ),
    "PyG": "import torch_geometric.nn",
    "layers": "gattn.nn.GATConv, gattn.models.GAT",
}
"""Code that one interpreter runs, step by step."""

EXECUTE = """
import json, sys
for code in map(json.loads, sys.argv[1:]):
    exec(code)
    print(json.dumps(sorted(sys.modules)))
"""


def modules_after(code: Iterable[str]) -> list[set[str]]:
    """Return the names in ``sys.modules`` after each piece of code in one new interpreter."""
    command = [sys.executable, "-c", EXECUTE, *map(json.dumps, code)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [set(json.loads(line)) for line in lines.splitlines() if line.startswith("[")]


def imported(modules: set[str], packages: tuple[str, ...]) -> list[str]:
    return [name for name in packages if name in modules]


@pytest.mark.slow
def test_a_package_is_imported_when_it_is_first_needed() -> None:
    after = dict(zip(STEPS, modules_after(STEPS.values()), strict=True))
    packages = {name.split(".")[0] for name in after["gattn"] - after["nothing"]}
    assert packages - set(sys.stdlib_module_names) == {"gattn"}
    assert imported(after["packages"], HEAVY) == []
    assert imported(after["operators"] - after["torch"], (*PYG, *LIBRARY)) == []
    assert imported(after["layers"] - after["PyG"], (*LIBRARY, *COMPILER)) == []


MOLECULES = """
from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.molecules.runs.predict import predict_table
from gattn.apps.molecules.runs.train import train_run
from gattn.apps.molecules.settings import MoleculeSettings
model = MoleculeSettings(epochs=1, width=16, heads=2, trees=10)
train_run(RunSettings(data="table.csv", target=("y",), model=model), "run")
predict_table("run", "table.csv", "out.csv")
"""


@pytest.mark.slow
def test_training_and_prediction_of_molecules_import_no_compiler(tmp_path: Path) -> None:
    rows = [f"{'C' * n}O,{n * n / 7}" for n in range(1, 41)]
    (tmp_path / "table.csv").write_text("\n".join(["smiles,y", *rows]))
    (modules,) = modules_after([f"import os; os.chdir({str(tmp_path)!r})\n{MOLECULES}"])
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 41
    assert imported(modules, PYG) == []


RUN = """
import contextlib, io, json, sys
from gattn.apps.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["gattn", *arguments]
    texts = io.StringIO()
    with contextlib.redirect_stdout(texts), contextlib.redirect_stderr(texts):
        try:
            main()
        except SystemExit as end:
            code = end.code
    print(json.dumps([code or 0, texts.getvalue(), sorted(sys.modules)]))
"""


def outcomes(commands: list[str], folder: Path) -> dict[str, tuple[int, str, set[str]]]:
    """Run commands in one new interpreter; return code, output and modules after each of them."""
    lists = json.dumps([command.split() for command in commands])
    lines = subprocess.run(
        [sys.executable, "-c", RUN, lists], capture_output=True, text=True, check=True, cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    ).stdout.splitlines()  # fmt: skip
    return {
        command: (code, text, set(modules))
        for command, (code, text, modules) in zip(commands, map(json.loads, lines), strict=True)
    }


def test_help_and_errors_of_arguments_do_not_import_torch(tmp_path: Path) -> None:
    codes = {
        "--version": 0,
        "--help": 0,
        "--nothing": 2,
        "molecules train --help": 0,
        "molecules train data.csv --out run --width 3": 2,
        "molecules predict --help": 0,
        "molecules predict run": 2,
        "nodes train --help": 0,
        "nodes train edges.csv --out run --nothing": 2,
        "nodes predict --help": 0,
        "links train --help": 0,
        "links predict --help": 0,
    }
    for command, (code, _, modules) in outcomes(list(codes), tmp_path).items():
        assert code == codes[command], command
        assert imported(modules, HEAVY) == [], command
        if command == "--version":
            assert imported(modules, COMMAND) == []


def test_errors_of_input_files_do_not_import_torch(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("smiles,y\nCCO,1\n")
    messages = {
        "train none.csv --target y --out run": "none.csv: No such file or directory",
        "train data.csv --target z --out run": "name the column of labels with --target",
        "train data.csv --target y --smiles s --out run": "name the column of SMILES with --smi",
        "train data.csv --target y --test none.csv --out run": "none.csv: No such file",
        "predict none data.csv --out p.csv": "none does not contain a trained model",
        "predict none data.csv more.csv --out p/": "none does not contain a trained model",
        "predict bbb none.csv --out p.csv": "none.csv: No such file or directory",
        "predict bbb data.csv --smiles s --out p.csv": "the column of SMILES with --smiles",
        "explain bbb none.csv --out why": "none.csv: No such file or directory",
        "embed none data.csv --out e.npy": "none does not contain a trained model",
        "evaluate bbb data.csv --target z": "name the column of labels with --target",
        "check none.csv": "none.csv: No such file or directory",
        "check data.csv --smiles s": "name the column of SMILES with --smiles",
        "check data.csv --test none.csv": "none.csv: No such file or directory",
    }
    commands = [f"molecules {command}" for command in messages]
    for (command, (code, text, modules)), message in zip(
        outcomes(commands, tmp_path).items(), messages.values(), strict=True
    ):
        assert code == 2, command
        assert message in text, command
        assert imported(modules, (*DATA, *PYG, "safetensors", "torch", "triton")) == [], command
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]
