"""Measurement of the time and memory for computing model inputs from SMILES.

    python -m benchmarks.molecules.featurise            # a minute
    python -m benchmarks.molecules.featurise --side rdkit --molecules 4000 --workers 1
    python -m benchmarks.molecules.featurise --side scikit-fingerprints --workers 1

Reads the SMILES of HIV (below GATTN_DATA) repeatedly; one in a hundred is invalid. The sides
compute the following inputs:

    gattn                 graphs, Morgan counts and descriptors, as models read them
    rdkit                 the same numbers, atom by atom and descriptor by descriptor with RDKit
    scikit-fingerprints   Morgan counts alone; it makes no graphs

Wall time needs an idle machine; CPU time is less sensitive. A JSON line goes to
benchmarks/results/featurise.jsonl.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.core import record
from gattn.apps.molecules.inputs import make_pieces
from gattn.apps.molecules.model_inputs import MoleculeInputs
from gattn.apps.tables.csv_table import open_table
from gattn.data import atom_features, bond_features, data_root, get_dataset
from gattn.data.molecules.counts import COUNTS, morgan_counter
from gattn.data.molecules.descriptors import descriptor_row
from gattn.data.molecules.plain import plain
from gattn.data.molecules.smiles import MAX_ATOMS, parse_or_reason

Totals = tuple[int, int, int]
"""Type of the total numbers of rows, of invalid rows and of atoms."""


def main(arguments: Sequence[str]) -> None:
    """Parse SMILES piece by piece, and print the rate and the peak memory."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.molecules.featurise", description=main.__doc__
    )
    parser.add_argument(
        "--side",
        choices=SIDES,
        default="gattn",
        help="library that computes the features (default: %(default)s)",
    )
    parser.add_argument(
        "--molecules",
        type=int,
        default=40_000,
        help="number of SMILES to parse (default: %(default)s)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=2,
        help="number of processes that parse SMILES (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=record.RESULTS / "featurise.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    options = parser.parse_args(arguments)
    start, used = time.perf_counter(), processor_seconds()
    rows, bad, atoms = SIDES[options.side](spoilt_texts(options.molecules), options)
    seconds, used = time.perf_counter() - start, processor_seconds() - used
    result = {
        "case": f"featurise/{options.workers} workers",
        "side": options.side,
        "rows": rows,
        "bad": bad,
        "atoms_per_molecule": round(atoms / (rows - bad), 1),
        "seconds": seconds,
        "processor_us_per_row": 1e6 * used / rows,
        "peak_mib": peak_mib(resource.RUSAGE_SELF),
        "peak_mib_of_a_worker": peak_mib(resource.RUSAGE_CHILDREN),
    }
    environment = record.environment("benchmarks.molecules.featurise", arguments)
    record.append(options.out, {**result, "environment": environment})
    print(", ".join(f"{name} {value}" for name, value in result.items()))
    print(f"{rows / seconds:.0f} rows a second")


def with_gattn(texts: Iterator[str], options: argparse.Namespace) -> Totals:
    """Compute the inputs with gattn's featuriser, which looks up the properties of many atoms at
    once.
    """
    rows = bad = atoms = 0
    for piece in make_pieces(_count_atoms, texts, workers=options.workers):
        rows += len(piece.errors)
        bad += sum(map(bool, piece.errors))
        atoms += piece.result
    return rows, bad, atoms


def _count_atoms(inputs: MoleculeInputs) -> int:
    return len(inputs.molecules.arrays.x)


def with_rdkit(texts: Iterator[str], options: argparse.Namespace) -> Totals:
    """Compute the same inputs with RDKit's accessors, one atom, bond and descriptor at a time."""
    rows = bad = atoms = 0
    for text in texts:
        rows += 1
        molecule = parse_or_reason(text, MAX_ATOMS)
        if isinstance(molecule, str):
            bad += 1
            continue
        molecule = plain(molecule, text)
        x = np.array([atom_features(atom) for atom in molecule.GetAtoms()], np.float32)
        np.array([bond_features(bond) for bond in molecule.GetBonds()], np.float32).repeat(2, 0)
        counts = np.zeros(COUNTS, np.uint8)
        environments = morgan_counter().GetCountFingerprint(molecule).GetNonzeroElements()
        counts[[*environments]] = [min(2 * count, 255) for count in environments.values()]
        descriptor_row(molecule)
        atoms += len(x)
    return rows, bad, atoms


def with_scikit_fingerprints(texts: Iterator[str], options: argparse.Namespace) -> Totals:
    """Compute Morgan counts with scikit-fingerprints, which accepts only valid molecules."""
    from skfp.fingerprints import ECFPFingerprint

    rows = bad = atoms = 0
    while piece := list(itertools.islice(texts, 1024)):
        molecules = [parse_or_reason(text, MAX_ATOMS) for text in piece]
        valid = [molecule for molecule in molecules if not isinstance(molecule, str)]
        ECFPFingerprint(fp_size=COUNTS, count=True, n_jobs=options.workers).transform(valid)
        rows, bad = rows + len(piece), bad + len(piece) - len(valid)
        atoms += sum(molecule.GetNumAtoms() for molecule in valid)
    return rows, bad, atoms


SIDES = {"gattn": with_gattn, "rdkit": with_rdkit, "scikit-fingerprints": with_scikit_fingerprints}


def spoilt_texts(count: int) -> Iterator[str]:
    """Yield the SMILES of HIV repeatedly; every hundredth is invalid."""
    repeated = itertools.islice(itertools.cycle(hiv_texts()), count)
    return ("C1CC(" if i % 100 == 99 else text for i, text in enumerate(repeated))


def hiv_texts() -> list[str]:
    """Return the SMILES in the file of the HIV data set."""
    data_record = get_dataset("hiv")
    table = open_table(
        data_root() / data_record.folder / data_record.files[0].name, [data_record.smiles]
    )
    return [row.cells[table.place(data_record.smiles)] for row in table.rows()]


def processor_seconds() -> float:
    """Return the CPU seconds of this process and its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def peak_mib(who: int) -> int:
    """Return the peak memory of this process and of its largest finished child."""
    return resource.getrusage(who).ru_maxrss // 1024


if __name__ == "__main__":
    main(sys.argv[1:])
