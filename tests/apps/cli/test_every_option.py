"""Every command runs with every option that its application declares."""

import csv
import shlex
from typing import Any

import networkx
import pytest
import typer
import uvicorn
from rdkit import Chem

from gattn.apps.cli.app import app
from gattn.apps.cli.options import METAVARS
from tests.apps.cli.commands import run_command
from tests.pictures import leave_blank

TINY = "--epochs 1 --width 8 --heads 1 --layers 1 --dropout 0.1 --threads 1"
MOLECULES = "--epochs 1 --width 8 --layers 1 --threads 1 --model attention --workers 1"
CALLS: dict[str, list[str]] = {
    "molecules train": [
        "table.csv --target y --target z --smiles smiles --split random --workers 1 "
        "--task regression --weight-column weight --also test.csv --also-target z "
        "--descriptors-columns size --encoding utf-8 "
        "--epochs 1 --batch-size 16 --width 8 --layers 1 --coverage 0.5 "
        "--learning-rate 0.01 --standardize neutral --config table.toml "
        "--folds 0 --replicates 1 --seed 3 --ensemble 1 --relation-column relation --out m",
        f"table.csv --target kind {MOLECULES} --test test.csv --out classes",
        f"table.csv --target z {MOLECULES} --validation test.csv --split time --time year "
        "--loss-function mae --error-column size --out absolute",
        "table.csv --target z --model attention --workers 1 --from-foundation encoder-128 "
        "--epochs 1 --out foundation",
        f"table.csv --target z --smiles smiles --smiles solvent {MOLECULES} --out pair",
        f"reactions.csv --smiles smiles --target y --reaction {MOLECULES} --out reactions",
        f"lists.csv --atom-target mass {MOLECULES} --out lists",
        f"lists.csv --bond-target order {MOLECULES} --out bonds",
        f"table.csv --target z {MOLECULES} --folds 2 --replicates 2 --out folds",
    ],
    "molecules predict": [
        "m table.csv --out predicted.csv --smiles smiles "
        "--encoding utf-8 --coverage 0.5 --workers 1 --neighbors 1",
        "classes table.csv test.csv --out shards --workers 1 --where 'y > 3' --top 3 --by=-y "
        "--keep y --rows-per-shard 16 --shard 0/1 --engine local",
    ],
    "molecules explain": [
        "m table.csv --out explained --smiles smiles --workers 1 "
        "--target y --pictures 1 --encoding utf-8",
        "classes test.csv --out why --workers 1 --class c --pictures 1",
    ],
    "molecules evaluate": [
        "m new.csv --out evaluated --target y --target z --smiles smiles --workers 1 "
        "--encoding utf-8 --coverage 0.5",
    ],
    "molecules compare": ["folds folds --out folds.png"],
    "molecules check": [
        "table.csv --target y --smiles smiles --encoding utf-8 --test test.csv "
        "--split column:part --out checked",
    ],
    "nodes train": [
        f"edges.csv --nodes nodes.csv --label group {TINY} --config edges.toml --features size "
        "--task classification --split column:part --edge-features weight --edge-weight weight "
        "--source source --target target --edge-type kind --encoding utf-8 --missing NA --runs 1 "
        "--workers 1 --coverage 0.5 --patience 1 --out n",
        f"edges.csv --nodes nodes.csv --label group {TINY} --time year --out times",
        f"edges.csv --nodes nodes.csv --label group {TINY} --memory 1MB --out sampled",
        f"--nodes people=nodes.csv --edges people-knows-people=edges.csv --label group {TINY} "
        "--label-type people --out typed",
    ],
    "nodes compare": ["n n --out nodes.png"],
    "nodes predict": [
        "n edges.csv --nodes nodes.csv --out n.csv --source source --target target "
        "--encoding utf-8 --missing NA --coverage 0.5",
        "typed --nodes people=nodes.csv --edges people-knows-people=edges.csv --out tables.csv",
    ],
    "nodes explain": [
        "n edges.csv n3 --nodes nodes.csv --out node --neighbors 2 --encoding utf-8 --missing NA "
        "--source source --target target",
    ],
    "links train": [
        f"edges.csv --nodes nodes.csv --features size {TINY} --config edges.toml --encoding utf-8 "
        "--edge-features weight --edge-weight weight --edge-type kind --missing NA --split random "
        "--source source --target target --validation-fraction 0.1 --test-fraction 0.2 "
        "--negatives 3 --patience 1 --out l",
        f"edges.csv {TINY} --time year --out l-times",
        f"edges.csv {TINY} --bipartite --out l-two",
    ],
    "links predict": [
        "l edges.csv --nodes nodes.csv --out l.csv --top 3 --encoding utf-8 --missing NA "
        "--source source --target target",
        "l-two edges.csv --bipartite --out l-two.csv",
    ],
    "links explain": [
        "l edges.csv n0 n1 --nodes nodes.csv --out l-why --neighbors 2 --encoding utf-8 "
        "--missing NA --source source --target target",
        "l-two edges.csv 'source n0' 'target n39' --bipartite --out l-two-why",
    ],
    "serve": [
        "classes --host 127.0.0.1 --port 0 --token-file token.txt --max-megabytes 1 --max-rows 9 "
        "--max-atoms 50 --max-characters 200 --timeout 5 --queue 2 --workers 1 "
        "--allowed-host models.example.org",
    ],
}  # fmt: skip
"""Calls of each command, whose later ones read the results of earlier ones. The values of other
options come from their declared types; they are added to the first call.
"""


def commands(command: Any, path: str = "") -> Any:
    """Yield the name and the declaration of each command of a Typer application."""
    for name, one in getattr(command, "commands", {}).items():
        yield from commands(one, f"{path} {name}".strip())
    if not hasattr(command, "commands"):
        yield path, command


COMMANDS = dict(commands(typer.main.get_command(app)))


def generated(option: Any) -> list[str]:
    """Return a flag, or an option with a value of its type."""
    (flag, *_), metavar = option.opts, option.metavar or ""
    if option.type_descriptor.annotation is bool:
        return [flag]
    value = metavar.strip("[]").split("|")[0] if metavar.startswith("[") else "1"
    is_known = metavar.startswith("[") or metavar in METAVARS.values()
    assert is_known, f"{flag} is a new option: add a call with an example value"
    return [f"{flag}={value}"]


def calls_of(name: str) -> list[list[str]]:
    """Return the arguments of each call of a command, which together have all its options."""
    calls = [shlex.split(text) for text in CALLS[name]]
    passed = {word.split("=")[0] for call in calls for word in call}
    for option in COMMANDS[name].params:
        if option.name == "help_all":  # It prints the help instead of running the command.
            continue
        if option.opts[0].startswith("--") and not passed & {*option.opts, *option.secondary_opts}:
            calls[0] += generated(option)
    return calls


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Folder of small tables of molecules and of a network."""
    folder = tmp_path_factory.mktemp("options")
    texts = [f"{'C' * n}{end}" for n in range(1, 13) for end in ("O", "N", "Cl")]
    atoms = [Chem.MolFromSmiles(text).GetNumAtoms() for text in texts]

    def write(name, header, rows):
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([header.split(), *rows])

    header = "smiles y z kind weight size year solvent relation part"
    rows = [
        (text, n + i % 3, n, "abc"[i % 3], 1 + i % 2, n, 2000 + i, "O", "=",
         ("train", "val", "test")[i % 3])
        for i, (text, n) in enumerate(zip(texts, atoms))
    ]  # fmt: skip
    write("table.csv", header, rows)
    write("test.csv", header, [(f"{'C' * (i + 1)}Br", *row[1:]) for i, row in enumerate(rows[:9])])
    write("new.csv", header, [(f"{'C' * (i + 1)}I", *row[1:]) for i, row in enumerate(rows)])
    rows = [(f"{'C' * n}[CH2:1][OH:2]>>{'C' * n}[CH:1]=[O:2]", n) for n in range(24)]
    write("reactions.csv", "smiles y", rows)
    chains = {n: "".join(f"[CH2:{i}]" for i in range(1, n + 1)) for n in range(3, 27)}
    lists = [(chain, [*range(n)], [*range(n - 1)]) for n, chain in chains.items()]
    write("lists.csv", "smiles mass order", lists)
    graph = networkx.planted_partition_graph(2, 20, 0.3, 0.02, seed=0)
    parts = ["train", "val", "test", "train"]
    nodes = [(f"n{i}", i % 7, "ab"[i >= 20], parts[i % 4], 2000 + i) for i in graph]
    write("nodes.csv", "id size group part year", nodes)
    edges = [
        (f"n{a}", f"n{b}", 1 + i % 3, "xy"[i % 2], 2000 + i) for i, (a, b) in enumerate(graph.edges)
    ]
    write("edges.csv", "source target weight kind year", edges)
    (folder / "token.txt").write_text("0123456789abcdef0123456789abcdef\n")
    (folder / "table.toml").write_text("""threads = 1
unit = "nM"
[model]
dropout = 0.1
""")
    (folder / "edges.toml").write_text("threads = 1\n")
    return folder


def test_table_of_example_calls_covers_every_command_and_every_option():
    assert CALLS.keys() == COMMANDS.keys()
    for name in CALLS:
        calls_of(name)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_command_runs_with_each_of_its_options(inputs, monkeypatch, capsys):
    leave_blank(monkeypatch)
    monkeypatch.chdir(inputs)
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    faults = []
    for name in CALLS:
        for call in calls_of(name):
            try:
                code = run_command(monkeypatch, *name.split(), *call)
            except Exception as error:
                code = repr(error)
            words = capsys.readouterr()
            # With --strict, the code 1 means that there are findings.
            if code and not (code == 1 and "--strict" in call):
                faults.append(f"{name} {shlex.join(call)}: {code} {words.err[-300:]}")
    assert not faults, "\n\n".join(faults)
