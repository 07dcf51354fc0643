"""Molecular property regression: attention over bonds, then a learned-query readout and a sum.

    python examples/molecule_property.py                     # needs no download
    python examples/molecule_property.py --csv my.csv --smiles smiles --target logS

Default data: 1,017 measured compounds (CHEMBL2321810, inside rdkit). The last line is JSON.
"""

import argparse
import csv
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch_geometric.data import Data
from torch_geometric.nn import SumAggregation
from tqdm import trange

from gattn import data as gd
from gattn.nn import GATConv, LearnedQueryReadout


class MoleculeModel(nn.Module):
    """Attention layers over bonds with residual connections, and two readouts."""

    def __init__(self, width: int = 128, layers: int = 4) -> None:
        super().__init__()
        self.embed, bond = nn.Linear(len(gd.ATOM_FEATURES), width), len(gd.BOND_FEATURES)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.convs = nn.ModuleList(GATConv(width, width // 8, 8, edge_dim=bond) for _ in self.norms)
        self.attend = LearnedQueryReadout(width, width, num_queries=4, heads=4)
        self.project, self.sum = nn.Linear(width, width), SumAggregation()
        self.head = nn.Sequential(nn.Linear(5 * width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, batch: Data) -> Tensor:
        """Predict one scaled target per molecule, [g]."""
        graphs, h = len(batch.ptr) - 1, self.embed(batch.x).relu()
        for norm, conv in zip(self.norms, self.convs):
            h = h + F.elu(conv(norm(h), batch.edge_index, batch.edge_attr))
        attended = self.attend(h, batch.batch, dim_size=graphs)
        total = self.sum(self.project(h), batch.batch, dim_size=graphs) / 10
        return self.head(torch.cat([attended, total], 1)).squeeze(1)


def train(molecules: gd.Molecules, split: gd.Split, seed: int, epochs: int, device: str) -> Tensor:
    """Train on one part, select the epoch on another, and predict the third, [test]."""
    torch.manual_seed(seed)
    y, val = molecules.y[:, 0].double(), gd.batch_molecules(molecules[split.val]).to(device)
    test = gd.batch_molecules(molecules[split.test]).to(device)
    mean, scale = y[split.train].mean(), y[split.train].std().clamp(min=1e-300)
    model = MoleculeModel().to(device)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99)).eval()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=1e-4, fused=True)
    steps = epochs * len(split.train.split(64))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, steps, pct_start=0.1)
    lowest, chosen = float("inf"), torch.full((len(split.test),), float("nan"))
    for _ in (bar := trange(epochs, desc=split.protocol)):
        for part in split.train[torch.randperm(len(split.train))].split(64):
            batch = gd.batch_molecules(molecules[part]).to(device)
            model.zero_grad()
            F.mse_loss(model(batch), ((y[part] - mean) / scale).float().to(device)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            schedule.step()
            average.update_parameters(model)
        with torch.no_grad():
            error = rmse(average(val).cpu() * scale + mean, y[split.val])
            if error <= lowest:
                lowest, chosen = error, average(test).cpu() * scale + mean
        bar.set_postfix(val_rmse=error, refresh=False)
    return chosen


def rmse(predicted: Tensor, measured: Tensor) -> float:
    """Return the root mean squared error, in the unit of the target."""
    return F.mse_loss(predicted.to(measured), measured).sqrt().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    devices = ["cpu", "cuda"][: 1 + torch.cuda.is_available()]
    parser.add_argument("--csv", help="CSV file to train on instead of CHEMBL2321810")
    parser.add_argument(
        "--smiles", default="smiles", help="name of the column of SMILES in the CSV file"
    )
    parser.add_argument(
        "--target", default="target", help="name of the column of numbers to predict"
    )
    parser.add_argument("--epochs", type=int, default=60, help="number of training epochs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of the model")
    parser.add_argument(
        "--device", choices=devices, default="cpu", help="device on which the model is trained"
    )
    args, start = parser.parse_args(), time.perf_counter()
    if args.epochs < 1 or not 0 <= args.seed < 2**31:
        parser.error("--epochs must be at least 1, and --seed at least 0 and below 2**31")
    try:
        if args.csv is None:
            mols = gd.load_molecules("chembl2321810")
        else:
            with open(args.csv, newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            smiles, labels = ([row[name] for row in rows] for name in (args.smiles, args.target))
            mols = gd.read_smiles(smiles, [label or None for label in labels], on_error="skip")
    except KeyError as column:
        parser.error(f"{args.csv} has no column {column}; its columns are {', '.join(rows[0])}")
    except (OSError, ValueError) as error:
        parser.error(str(error))
    sys.stderr.writelines(f"left out: {row}\n" for row in mols.bad)
    if len(mols := mols.labelled()) < 10:
        parser.error(f"needs at least 10 molecules with a target; got {len(mols)}")
    split = gd.random_split(mols, seed=args.seed)
    bits, y = gd.morgan_fingerprints(mols), mols.y[:, 0].double()
    predictions = {
        "test_rmse": train(mols, split, args.seed, args.epochs, args.device),
        "kernel_ridge_rmse": gd.tanimoto_ridge(bits[split.train], y[split.train], bits[split.test]),
        "mean_rmse": y[split.train].mean().expand(len(split.test)),
    }
    errors = {name: rmse(value, y[split.test]) for name, value in predictions.items()}
    shown = ", ".join(f"{name} {error:.4g}" for name, error in errors.items())
    print(f"{args.csv or 'CHEMBL2321810'}, {split.protocol}: {shown}")
    print(json.dumps(dict(**vars(args), **errors, seconds=time.perf_counter() - start)))


if __name__ == "__main__":
    main()
