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
COMMAND = ("jinja2", "joblib", "msgspec", "rich", "safetensors", "tomlkit", "tqdm", "typer")
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
    # PyG's message in GATEConv is no override, also if gattn.conversion is not imported.
    "layers": "gattn.models.GAT; assert gattn.nn.GATEConv(8, 8, 3).fused",
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
def test_other_packages_are_imported_only_when_a_public_name_is_first_used() -> None:
    after = dict(zip(STEPS, modules_after(STEPS.values()), strict=True))
    packages = {name.split(".")[0] for name in after["gattn"] - after["nothing"]}
    assert packages - set(sys.stdlib_module_names) == {"gattn"}
    assert imported(after["packages"], HEAVY) == []
    assert imported(after["operators"] - after["torch"], (*PYG, *LIBRARY)) == []
    assert imported(after["layers"] - after["PyG"], (*LIBRARY, *COMPILER)) == []


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


def test_help_and_argument_errors_of_commands_do_not_import_torch(tmp_path: Path) -> None:
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
