"""Run a PyG pipeline with changed imports: NeighborLoader, HeteroConv, Explainer.

    python examples/pyg_pipeline.py                          # needs no download

The network joins 1,017 compounds with their substructures and with similar compounds. The label is
1 if the measured activity of a compound is above the median. The same program runs on PyG's
GATConv and on gattn's with one seed in float64, and both must give the same results. Both use
gattn's NeighborLoader: PyG's has the same arguments, but needs pyg-lib or torch-sparse. The last
line is JSON.
"""

import argparse
import json
import time
from types import ModuleType

import torch
import torch.nn.functional as F
import torch_geometric.nn
from torch import Tensor, nn
from torch_geometric import seed_everything
from torch_geometric.data import HeteroData
from torch_geometric.explain import Explainer, GNNExplainer, ModelConfig
from torch_geometric.transforms import ToUndirected
from torch_geometric.utils import index_to_mask
from tqdm import trange

import gattn.nn
from gattn import data as gd
from gattn.data import NeighborLoader  # replaces the import from torch_geometric.loader

FEATURES, BITS, WIDTH, HEADS, CLASSES = 16, 256, 32, 4, 2


class Model(nn.Module):
    """Two layers of attention along each edge type, with the layers of a library."""

    def __init__(self, library: ModuleType, data: HeteroData) -> None:
        super().__init__()
        conv, options = library.GATConv, {"heads": HEADS, "add_self_loops": False}
        self.layers = nn.ModuleList(
            torch_geometric.nn.HeteroConv({
                kind: conv((width, width), WIDTH // HEADS, **options) for kind in data.edge_types
            })
            for width in (FEATURES, WIDTH)
        )  # fmt: skip
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: dict[str, Tensor], edge_index: dict[tuple, Tensor]) -> Tensor:
        """Return the score of every class for every compound."""
        for layer in self.layers:
            x = {name: F.elu(rows) for name, rows in layer(x, edge_index).items()}
        return self.head(x["compound"])


def network(seed: int) -> HeteroData:
    """Return a graph of compounds and their most common substructures, which are their features."""
    molecules = gd.load_molecules("chembl2321810")
    bits, activity, data = gd.morgan_fingerprints(molecules), molecules.y[:, 0], HeteroData()
    split = gd.random_split(molecules, seed=seed)
    common = bits[:, bits.sum(0).topk(BITS).indices].double()
    left, size, right = torch.linalg.svd(common - common.mean(0), full_matrices=False)
    data["compound"].x = left[:, :FEATURES] * size[:FEATURES]
    data["substructure"].x = right[:FEATURES].t() * size[:FEATURES]
    data["compound"].y = (activity > activity.median()).long()
    for name in ("train", "test"):
        data["compound"][f"{name}_mask"] = index_to_mask(getattr(split, name), len(molecules))
    data["compound", "contains", "substructure"].edge_index = common.nonzero().t().contiguous()
    data["compound", "resembles", "compound"].edge_index = gd.tanimoto_neighbours(bits, 8)
    return ToUndirected()(data)


def run(library: ModuleType, data: HeteroData, args: argparse.Namespace) -> dict[str, Tensor]:
    """Train, classify all compounds, and explain the class of the first compound."""
    seed_everything(args.seed)
    model = Model(library, data).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    seeds, size = ("compound", data["compound"].train_mask), args.batch_size
    loader = NeighborLoader(data, [10, 10], input_nodes=seeds, batch_size=size, shuffle=True)
    for _ in trange(args.epochs, desc=library.__name__):
        for batch in loader:
            optimizer.zero_grad()
            score, compounds = model(batch.x_dict, batch.edge_index_dict), batch["compound"]
            seeds = slice(compounds.batch_size)  # the first nodes of a batch are its seed nodes
            F.cross_entropy(score[seeds], compounds.y[seeds]).backward()
            optimizer.step()
    explainer = Explainer(
        model.eval(),
        algorithm=GNNExplainer(epochs=args.explain_epochs),
        explanation_type="model",
        edge_mask_type="object",
        model_config=ModelConfig("multiclass_classification", "node", "raw"),
    )
    with torch.no_grad():
        result = {"score": model(data.x_dict, data.edge_index_dict)}
    explained = explainer(data.x_dict, data.edge_index_dict, index=0)
    return result | {"_".join(kind): mask for kind, mask in explained.edge_mask_dict.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    parser.add_argument("--epochs", type=int, default=20, help="number of training epochs")
    parser.add_argument(
        "--explain-epochs",
        type=int,
        default=50,
        help="number of epochs for which the explainer is optimised",
    )
    parser.add_argument(
        "--batch-size", type=int, default=256, help="number of compounds in each batch"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of the models")
    args = parser.parse_args()
    if min(args.epochs, args.explain_epochs, args.batch_size) < 1 or not 0 <= args.seed < 2**31:
        parser.error("--seed must be at least 0 and below 2**31, the others at least 1")
    data, outputs, result, start = network(args.seed), {}, {}, time.perf_counter()
    for library in (torch_geometric.nn, gattn.nn):
        outputs[library] = run(library, data, args)
        right = outputs[library]["score"].argmax(1) == data["compound"].y
        accuracy = right[data["compound"].test_mask].double().mean().item()
        result[f"{library.__name__}.GATConv"] = accuracy
        print(f"{library.__name__}.GATConv: test accuracy {accuracy:.3f}")
    for what, theirs in outputs[torch_geometric.nn].items():
        result[f"{what}_difference"] = (outputs[gattn.nn][what] - theirs).abs().max().item()
        print(f"{what}: the maximum difference is {result[f'{what}_difference']:.1e}")
    weights = torch.cat([mask for what, mask in outputs[gattn.nn].items() if what != "score"])
    result["explaining_edges"] = int((weights > 0).sum())
    print(f"{result['explaining_edges']} of {len(weights)} edges explain the class of compound 0")
    print(json.dumps(dict(**vars(args), **result, seconds=time.perf_counter() - start)))


if __name__ == "__main__":
    main()
