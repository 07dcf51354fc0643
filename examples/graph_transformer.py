"""Compare a graph transformer on molecules with graph attention of the same number of parameters.

    python examples/graph_transformer.py                     # needs no download
    python examples/graph_transformer.py --dataset esol --attention exphormer  # 0.1 MB

A layer of the transformer (GPSConv) attends along the bonds and among all atoms of a molecule, or
along a sparse expander. A layer of the other model (GATConv) attends along the bonds and is wider.
Both use positional encodings from random walks. The last line is JSON.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MeanAggregation
from torch_geometric.transforms import AddRandomWalkPE, Compose
from tqdm import tqdm, trange

from gattn import data as gd
from gattn.nn import GATConv, GPSConv
from gattn.transforms import AddExpander

ATTENTIONS, DEGREE = ("multihead", "exphormer"), 4
NAMES, WIDTH, HEADS, LAYERS, WALK = ("chembl2321810", "esol"), 32, 4, 3, 8


class Local(nn.Module):
    """Attention along the bonds with normalisation and a residual connection."""

    def __init__(self, width: int, conv: GATConv) -> None:
        super().__init__()
        self.conv, self.norm = conv, nn.BatchNorm1d(width)

    def forward(self, h: Tensor, edges: Tensor, batch: Tensor, edge_attr: Tensor) -> Tensor:
        """Return the new features of every atom, [n, width]."""
        return h + self.norm(self.conv(h, edges, edge_attr=edge_attr)).relu()


class Model(nn.Module):
    """Embedding of atoms with encodings, attention layers, and the mean over each molecule."""

    def __init__(self, width: int, attention: str | None) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(len(gd.ATOM_FEATURES), width), nn.Linear(width, 1)
        self.walk = nn.Linear(WALK, width)
        self.mean, self.layers, bond = MeanAggregation(), nn.ModuleList(), len(gd.BOND_FEATURES)
        if attention == "exphormer":
            self.kind, self.bond = nn.Embedding(2, width), nn.Linear(bond, width)
        for _ in range(LAYERS):
            conv = GATConv(width, width // HEADS, HEADS, edge_dim=bond)
            gps = attention and GPSConv(width, conv, HEADS, attn_type=attention)
            self.layers.append(gps or Local(width, conv))

    def forward(self, batch: Batch) -> Tensor:
        """Predict one scaled target per molecule, [g]."""
        h = self.embed(batch.x) + self.walk(batch.random_walk_pe)
        options = {"edge_attr": batch.edge_attr}
        if hasattr(self, "kind"):
            # The graph contains edges of an expander and bonds, but only bonds have features.
            bonds = (batch.expander_type == 0).nonzero().squeeze(1)
            far = self.kind(batch.expander_type).index_add(0, bonds, self.bond(batch.edge_attr))
            options |= {"attn_index": batch.expander_index, "attn_attr": far}
        for layer in self.layers:
            h = layer(h, batch.edge_index, batch.batch, **options)
        return self.head(self.mean(h, batch.batch, dim_size=batch.num_graphs)).squeeze(1)


def size(model: nn.Module) -> int:
    """Return the number of parameters."""
    return sum(parameter.numel() for parameter in model.parameters())


def error(model: Model, batch: Batch) -> Tensor:
    """Return the mean squared error, []."""
    return F.mse_loss(model(batch), batch.y[:, 0])


def train(model: Model, parts: list[list[Data]], epochs: int, device: str, name: str) -> float:
    """Train on one part, select the epoch on another, and return the RMSE on the third."""
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(parts[0], 64, shuffle=True)
    val, test = (Batch.from_data_list(part).to(device) for part in parts[1:])
    steps, lowest, chosen = epochs * len(loader), float("inf"), float("nan")
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, steps, pct_start=0.1)
    for _ in (bar := trange(epochs, desc=name)):
        for batch in loader:
            optimizer.zero_grad()
            error(model.train(), batch.to(device)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            val_mse = error(model.eval(), val).item()
            if val_mse < lowest:
                lowest, chosen = val_mse, error(model, test).item()
        bar.set_postfix(val_mse=val_mse, refresh=False)
    return chosen**0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    devices = ["cpu", "cuda"][: 1 + torch.cuda.is_available()]
    parser.add_argument("--dataset", choices=NAMES, default=NAMES[0], help="data set of molecules")
    kinds = ATTENTIONS
    parser.add_argument(
        "--attention", choices=kinds, default=kinds[0], help="kind of attention of the transformer"
    )
    parser.add_argument("--epochs", type=int, default=40, help="number of training epochs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of the models")
    parser.add_argument("--device", choices=devices, default="cpu", help="device of the models")
    args, start, result = parser.parse_args(), time.perf_counter(), {}
    if args.epochs < 1 or not 0 <= args.seed < 2**31:
        parser.error("--epochs must be at least 1, and --seed at least 0 and below 2**31")
    mols = gd.load_molecules(args.dataset).labelled()
    split = gd.random_split(mols, seed=args.seed)
    scale, mean = torch.std_mean(mols.y[split.train])
    encode = Compose([AddExpander(DEGREE), AddRandomWalkPE(WALK)])
    encoded = [encode(mol) for mol in tqdm(mols, desc="encodings")]
    for mol in encoded:
        mol.y = (mol.y - mean) / scale
    parts = [[encoded[i] for i in part] for part in (split.train, split.val, split.test)]
    most, width = size(Model(WIDTH, args.attention)), WIDTH
    while size(Model(width + HEADS, None)) <= most:
        width += HEADS
    for name, wide in (("transformer", WIDTH), ("attention", width)):
        torch.manual_seed(args.seed)
        model = Model(wide, args.attention if name == "transformer" else None).to(args.device)
        rmse = scale.item() * train(model, parts, args.epochs, args.device, name)
        result |= {f"{name}_rmse": rmse, f"{name}_parameters": size(model)}
        print(f"{args.dataset}, {name}: {size(model):,} parameters, test RMSE {rmse:.3f}")
    print(json.dumps(dict(**vars(args), **result, seconds=time.perf_counter() - start)))


if __name__ == "__main__":
    main()
