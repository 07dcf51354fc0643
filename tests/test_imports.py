"""Imports of each start of gattn: a package is imported when it is first needed."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from gattn.apps.molecules import MoleculeRegressor

COMPILER = ("torch._dynamo", "torch._inductor", "torch.onnx", "sympy")
PYG = ("torch_geometric", *COMPILER)
DATA = ("matplotlib", "networkx", "pandas", "pyarrow", "rdkit", "scipy", "sklearn")
COMMAND = (
    "jinja2",
    "joblib",
    "msgspec",
    "optuna",
    "rich",
    "safetensors",
    "tomlkit",
    "tqdm",
    "typer",
)
LIBRARY = (*DATA, *COMMAND, "triton", "gattn.kernels.triton")
HEAVY = (*DATA, *PYG, "numpy", "safetensors", "torch", "triton")

REPORT = """
import atexit, json, sys
atexit.register(lambda: print("modules:", json.dumps(sorted(sys.modules))))
"""


@cache
def modules_after(code: str, *arguments: str) -> set[str]:
    """Return the names in ``sys.modules`` when a new interpreter has run the code."""
    command = [sys.executable, "-c", REPORT + code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    last = done.stdout.splitlines()[-1]
    assert last.startswith("modules: "), done.stderr
    return set(json.loads(last.removeprefix("modules: ")))


def imported(modules: set[str], packages: tuple[str, ...]) -> list[str]:
    return [name for name in packages if name in modules]


def test_import_of_gattn_imports_no_other_package() -> None:
    before = modules_after("")
    packages = {name.split(".")[0] for name in modules_after("import gattn") - before}
    assert packages - set(sys.stdlib_module_names) == {"gattn"}


@pytest.mark.parametrize(
    "code",
    [
        "import gattn.nn, gattn.data, gattn.draw, gattn.graphs, gattn.models, gattn.transforms",
        "import gattn.apps.links, gattn.apps.molecules, gattn.apps.nodes",
        "import gattn.sampling, gattn.structure",
        "import gattn.testing",
        "from gattn.data import dataset_names; dataset_names()",
    ],
)
def test_packages_do_not_import_torch(code: str) -> None:
    assert imported(modules_after(code), HEAVY) == []


def test_operators_import_torch_without_pyg() -> None:
    modules = modules_after(
        "import gattn; gattn.Graph, gattn.functional.gat_attention, gattn.backend_info()\n"
        "from gattn.graphs import *; from gattn.sampling import *; from gattn.structure import *"
    )
    assert "torch" in modules
    assert imported(modules - modules_after("import torch"), (*PYG, *LIBRARY)) == []


@pytest.mark.slow  # The test is slow, because it imports PyG in two processes.
def test_layers_import_pyg_and_nothing_else() -> None:
    """PyG imports torch's compiler and other packages; gattn imports none beside them."""
    pyg = modules_after("import torch_geometric.nn")
    modules = modules_after("import gattn; gattn.nn.GATConv, gattn.models.GAT")
    assert "torch_geometric" in modules
    assert imported(modules - pyg, (*LIBRARY, *COMPILER)) == []


PREDICT = """
import sys
from gattn.apps.molecules.runs.predict import predict_table
predict_table(*sys.argv[1:])
"""


def test_prediction_of_molecules_imports_torch_and_rdkit(tmp_path: Path) -> None:
    smiles = ["C" * n + "O" for n in range(1, 25)]
    model = MoleculeRegressor(epochs=1, width=16, heads=2).fit(smiles, range(24))
    model.save(tmp_path / "model")
    table = tmp_path / "table.csv"
    table.write_text("smiles\nCCO\nc1ccccc1\n")
    modules = modules_after(PREDICT, str(tmp_path / "model"), str(table), str(tmp_path / "out.csv"))
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3
    unexpected = {*PYG, *LIBRARY} - {"msgspec", "rdkit", "safetensors"}
    assert imported(modules - modules_after("import torch"), tuple(unexpected)) == []


TRAIN = """
import sys
from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.molecules.runs.train import train_run
from gattn.apps.molecules.settings import MoleculeSettings
model = MoleculeSettings(epochs=1, width=16, heads=2, trees=int(sys.argv[3]))
train_run(RunSettings(data=sys.argv[1], target=("y",), model=model), sys.argv[2])
"""


@pytest.mark.parametrize("trees", [0, 10])
def test_training_of_molecules_imports_no_compiler(trees: int, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    rows = [f"{'C' * n}O,{n * n / 7}" for n in range(1, 41)]
    table.write_text("\n".join(["smiles,y", *rows]))
    modules = modules_after(TRAIN, str(table), str(tmp_path / "run"), str(trees))
    assert (tmp_path / "run" / "report.html").exists()
    assert imported(modules, PYG) == []
    # Only the training of trees imports scikit-learn, which imports pandas if it is installed, in
    # the background of the network's training. pandas imports pyarrow if it is installed.
    libraries = imported(modules, ("joblib", "pandas", "pyarrow", "scipy", "sklearn"))
    assert bool(libraries) == bool(trees)


RUN = "import sys; sys.argv[0] = 'gattn'; from gattn.apps.cli import main; main()"


def test_version_imports_no_other_package() -> None:
    modules = modules_after(RUN, "--version")
    assert imported(modules, (*HEAVY, *COMMAND)) == []


@pytest.mark.parametrize(
    "arguments",
    [
        "--help",
        "--nothing",
        "molecules train --help",
        "molecules train data.csv --out run --width 3",
        "molecules predict --help",
        "molecules predict run",
        "nodes train --help",
        "nodes train edges.csv --out run --nothing",
        "nodes predict --help",
        "links train --help",
        "links predict --help",
    ],
)
def test_help_and_errors_of_arguments_do_not_import_torch(arguments: str) -> None:
    assert imported(modules_after(RUN, *arguments.split()), HEAVY) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train none.csv --target y --out run", "none.csv: No such file or directory"),
        ("train data.csv --target z --out run", "name the column of labels with --target"),
        ("train data.csv --target y --smiles s --out run", "name the column of SMILES with --smi"),
        ("train data.csv --target y --test none.csv --out run", "none.csv: No such file"),
        ("predict none data.csv --out p.csv", "none does not contain a trained model"),
        ("predict none data.csv more.csv --out p/", "none does not contain a trained model"),
        ("predict bbb none.csv --out p.csv", "none.csv: No such file or directory"),
        ("predict bbb data.csv --smiles s --out p.csv", "name the column of SMILES with --smiles"),
        ("explain bbb none.csv --out why", "none.csv: No such file or directory"),
        ("embed none data.csv --out e.npy", "none does not contain a trained model"),
        ("evaluate bbb data.csv --target z", "name the column of labels with --target"),
        ("check none.csv", "none.csv: No such file or directory"),
        ("check data.csv --smiles s", "name the column of SMILES with --smiles"),
        ("check data.csv --test none.csv", "none.csv: No such file or directory"),
    ],
)
def test_errors_of_input_files_do_not_import_torch(
    arguments: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data.csv").write_text("smiles,y\nCCO,1\n")
    command = [sys.executable, "-c", REPORT + RUN, "molecules", *arguments.split()]
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    modules = set(json.loads(done.stdout.splitlines()[-1].removeprefix("modules: ")))
    assert imported(modules, (*DATA, *PYG, "safetensors", "torch", "triton")) == []
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]
