"""Pretraining of the encoder from small packages."""

import gzip
import random
import zipfile

import pytest
import torch
from rdkit import Chem

from benchmarks.molecules import moleculeace, pretrain
from benchmarks.molecules.pretraining_data import (
    GROUPS,
    PretrainingBatches,
    join_molecules,
    molecules,
    prepare,
)
from gattn.apps.molecules.foundation import read_foundation

DRUGS = [
    "CC(C)NCC(O)COc1cccc2ccccc12", "CN1CCC(CC1)Oc1ccc(cc1)C(=O)NC1CC1",
    "O=C(NCc1ccccn1)c1ccc(F)cc1",
    "COc1ccc(CCNC(=O)c2ccco2)cc1", "CCN(CC)C(=O)Cc1csc(N)n1", "Cc1ccc(NC(=O)CN2CCOCC2)cc1",
]  # fmt: skip


@pytest.fixture
def wheels(tmp_path):
    folder = tmp_path / "wheels"
    folder.mkdir()
    table = "\n".join(["SMILES,SPLIT", *(f"{text},train" for text in DRUGS)])
    rows = [
        "1\t1\tC2H6O\t46\tCCO\tx",
        "2\t2\tC\t12\tC1CC\tx",
        "3\t3\tHF\t20\tF\tx",
        "4\t4\tC\t16\tC\tx",
    ]
    contents = {
        "molsets-0.1": {"moses/dataset/data/train.csv.gz": gzip.compress(table.encode())},
        "chemicals-0.2": {"a/chemical identifiers pubchem large.tsv": "\n".join(rows).encode()},
    }
    for name, files in contents.items():
        package, version = name.split("-")
        facts = f"Name: {package}\nVersion: {version}\nLicense: MIT\n"
        with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as archive:
            archive.writestr(f"{name}.dist-info/METADATA", facts)
            for path, content in files.items():
                archive.writestr(path, content)
    return folder


def test_molecules_are_read_and_joined(wheels):
    smiles, sources = molecules(wheels, 2, 2, seed=0)
    assert [(s.package, s.version, s.licence, s.smiles) for s in sources] == [
        ("molsets", "0.1", "MIT", 6), ("chemicals", "0.2", "MIT", 3),
    ]  # fmt: skip
    assert {"CCO", "C1CC", "C"} <= set(smiles)
    assert "F" not in smiles
    assert smiles == molecules(wheels, 2, 2, seed=0)[0]
    with pytest.raises(SystemExit, match="has no wheel of molsets"):
        molecules(wheels.parent, 1, 1, seed=0)


def test_joined_molecules_are_larger_and_valid():
    joined = join_molecules(DRUGS[:3], DRUGS[3:], random.Random(0))
    assert 1 <= len(joined) <= 3
    for text in joined:
        molecule = Chem.MolFromSmiles(text)
        assert "*" not in text
        assert "." not in text
        assert molecule.GetNumAtoms() >= 18
    assert join_molecules(["C"], ["CCO"], random.Random(0)) == []


def test_targets_are_standardised_and_in_the_order_of_the_batch():
    inputs, targets = prepare([*DRUGS, "not a molecule"])
    assert len(inputs) == len(DRUGS)
    batches = PretrainingBatches(inputs, targets, torch.arange(len(inputs)))
    _, y, _ = batches.batch(torch.arange(len(inputs)))
    assert y.shape == (len(DRUGS), sum(GROUPS.values()))
    assert y.abs().max() <= 6
    torch.testing.assert_close(y.mean(0), torch.zeros(y.shape[1]), atol=1e-4, rtol=0)
    _, reverse, _ = batches.batch(torch.arange(len(inputs)).flip(0))
    torch.testing.assert_close(reverse.flip(0), y)


def test_the_same_command_gives_the_same_weights(wheels, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pretrain, "HELD_OUT", 2)
    options = ["--molecules", "2", "--joined", "2", "--epochs", "2", "--width", "16"]
    for name in ("first", "second"):
        pretrain.main([str(wheels), "--work", str(tmp_path / name), *options])
    first, second = (read_foundation(tmp_path / name) for name in ("first", "second"))
    assert first.settings.width == 16
    assert all(torch.equal(first.tensors[name], second.tensors[name]) for name in first.tensors)
    card = (tmp_path / "first" / "card.md").read_text("utf-8")
    assert "| `molsets` 0.1 | MIT | 6 |" in card
    assert str(tmp_path) not in card
    assert "processor time" in capsys.readouterr().out


def test_tables_compare_the_networks_with_and_without_the_encoder():
    errors = [
        {"stacked": 0.7, "stacked/attention": 0.9},
        {"stacked": 0.6, "stacked/attention": 0.8},
    ]
    rows = [
        {"dataset": name, "seed": 0, "from_foundation": source, "rmse": rmse}
        for name in ("A", "B")
        for source, rmse in zip(("", "encoder-128"), errors)
    ]
    alone = [{"dataset": "C", "seed": 0, "rmse": errors[0]}]
    # A later record without the encoder was measured with other components.
    later = [{"dataset": "A", "seed": 0, "rmse": errors[1]}]
    lines = moleculeace.pretrained_table(rows + alone + later).splitlines()
    assert lines[2] == "| A | 0.900 | 0.800 | 0.700 | 0.600 |"
    assert lines[-1] == "| mean of 2 sets | 0.900 | 0.800 | 0.700 | 0.600 |"
