"""Link prediction: attention embeds the nodes, and a dot product scores each pair of nodes.

    python examples/link_prediction.py                       # needs no download
    python examples/link_prediction.py --dataset cora        # downloads 0.6 MB, or GATTN_DATA

The default graph joins each of 1,017 compounds with its 8 most similar ones, so that its edges
follow from the features. 5 % of the edges are used for validation and 10 % for testing, each with
the same number of pairs without an edge. Needs scikit-learn for metrics. The last line is JSON.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor, nn
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.transforms import RandomLinkSplit
from torch_geometric.utils import negative_sampling
from tqdm import trange

from gattn import data as gd
from gattn.nn import GATv2Conv, SparseDropout, TransformerConv

NAMES, LAYERS = ("chembl2321810", "cora"), {"gatv2": GATv2Conv, "transformer": TransformerConv}


class Encoder(nn.Module):
    """Two layers of attention with 4 heads; the second layer averages its heads."""

    def __init__(self, layer: type[nn.Module], in_channels: int, width: int = 64) -> None:
        super().__init__()
        self.first = layer(in_channels, width // 4, heads=4)
        self.second = layer(width, width, heads=4, concat=False)
        self.dropout = SparseDropout(0.5)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the embedding of every node, [n, width]."""
        x = F.elu(self.first(self.dropout(x), edge_index))
        return self.second(self.dropout(x), edge_index)


def load(name: str) -> Data:
    """Return a graph with sparse features and edges in both directions."""
    if name == "cora":
        return gd.load_citation(name, normalize_features=True)
    bits = gd.morgan_fingerprints(gd.load_molecules(name))
    return Data(x=F.normalize(bits).to_sparse(), edge_index=gd.tanimoto_neighbours(bits, 8))


def dots(embedded: Tensor, pairs: Tensor) -> Tensor:
    """Return the dot product of the two nodes of each pair, [p]."""
    return (embedded[pairs[0]] * embedded[pairs[1]]).sum(1)


def common_neighbours(graph: Data, pairs: Tensor) -> dict[str, Tensor]:
    """Return the number of common neighbours of each pair, and the Adamic-Adar index."""
    adjacent = torch.zeros(graph.num_nodes, graph.num_nodes)
    adjacent[graph.edge_index[0], graph.edge_index[1]] = 1
    rarity = 1 / adjacent.sum(0).clamp(min=2).log()
    one, other = adjacent[pairs]
    return {"common": (one * other).sum(1), "adamic_adar": (one * other) @ rarity}


def rate(score: Tensor, part: Data) -> dict[str, float]:
    """Return the area under the ROC curve and the average precision."""
    metrics = {"auc": roc_auc_score, "average_precision": average_precision_score}
    return {name: float(metric(part.edge_label, score)) for name, metric in metrics.items()}


def train(parts: list[Data], layer: str, epochs: int, device: str) -> Tensor:
    """Train, and return the test scores at the epoch with the best validation AUC, [p]."""
    graph, pairs = parts[0].clone().to(device), [part.edge_label_index for part in parts[1:]]
    model = Encoder(LAYERS[layer], graph.num_features).to(device)
    optimizer, best, chosen = torch.optim.Adam(model.parameters(), lr=0.005), 0.0, torch.empty(0)
    there = graph.edge_label_index
    for _ in (bar := trange(epochs, desc=layer)):
        optimizer.zero_grad()
        absent = negative_sampling(graph.edge_index, graph.num_nodes, there.shape[1])
        score = dots(model.train()(graph.x, graph.edge_index), torch.cat([there, absent], dim=1))
        label = (torch.arange(len(score), device=device) < there.shape[1]).float()
        F.binary_cross_entropy_with_logits(score, label).backward()
        optimizer.step()
        with torch.no_grad():
            embedded = model.eval()(graph.x, graph.edge_index).cpu()
        val, test = (dots(embedded, one) for one in pairs)
        if (auc := rate(val, parts[1])["auc"]) > best:
            best, chosen = auc, test
        bar.set_postfix(val_auc=auc, refresh=False)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    devices = ["cpu", "cuda"][: 1 + torch.cuda.is_available()]
    parser.add_argument(
        "--dataset", choices=NAMES, default=NAMES[0], help="data set whose graph is used"
    )
    parser.add_argument(
        "--layer", choices=LAYERS, default="gatv2", help="attention layer of the encoder"
    )
    parser.add_argument("--epochs", type=int, default=100, help="number of training epochs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of the model")
    parser.add_argument(
        "--device", choices=devices, default="cpu", help="device on which the model is trained"
    )
    args, start = parser.parse_args(), time.perf_counter()
    if args.epochs < 1 or not 0 <= args.seed < 2**31:
        parser.error("--epochs must be at least 1, and --seed at least 0 and below 2**31")
    seed_everything(args.seed)
    split = RandomLinkSplit(0.05, 0.1, is_undirected=True, add_negative_train_samples=False)
    parts = split(load(args.dataset))
    scores = {args.layer: train(parts, args.layer, args.epochs, args.device)}
    # Common neighbours are counted on the training edges only.
    scores |= common_neighbours(parts[0], parts[2].edge_label_index)
    result = {name: rate(score, parts[2]) for name, score in scores.items()}
    for name, rated in result.items():
        shown = ", ".join(f"{what} {value:.3f}" for what, value in rated.items())
        print(f"{args.dataset}, {name}: {shown}")
    print(json.dumps(dict(**vars(args), **result, seconds=time.perf_counter() - start)))


if __name__ == "__main__":
    main()
