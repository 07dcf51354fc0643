"""Predict missing links between the characters of a novel: pairs that belong together, although no
chapter contains both.

    python examples/missing_links.py

The network of Les Misérables (Knuth, 1993) comes with networkx. A fifth of its links is hidden; a
model that attends along the other links ranks the true end of each hidden link among 40 characters.
It is compared with common neighbours and Adamic-Adar. The last line is JSON.
"""

import argparse
import json

import networkx
import numpy as np

from gattn.apps.links import LinkPredictor
from gattn.apps.links.metrics import chance_metrics
from gattn.apps.links.pairs import make_ranking, read_links
from gattn.apps.nodes.reading import read_graph


def main() -> None:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--epochs", type=int, default=100, help="training steps of the network")
    parser.add_argument("--negatives", type=int, default=40, help="characters in each ranking")
    parser.add_argument("--seed", type=int, default=0, help="of the parts, weights and negatives")
    options = parser.parse_args()

    graph = read_graph(networkx.les_miserables_graph(), directed=False)
    links, _ = read_links(graph, directed=None)
    model = LinkPredictor(
        edge_weight="weight", epochs=options.epochs, width=32, heads=4, seed=options.seed,
        negatives=options.negatives,
    )  # fmt: skip
    split, times = model.parts(graph, links, 0.2, 0.2)
    encoded = model.encode(graph, links, split)  # without the edges of hidden links
    model.fit_parts(encoded, links, split, times)

    draw = np.random.default_rng(options.seed)
    ranking = make_ranking(links, split.test.numpy(), options.negatives, draw)
    metrics = model.predictor_.measure(encoded.graph, ranking)["metrics"]
    for name, each in metrics.items():
        print(f"{name:25s} MRR {each['mrr']:.3f}")

    # Read the whole network, and propose links that it does not have.
    model.graph_ = model.predictor_.encoder.attach_edges(graph)
    proposed = model.predict(top=5)
    print(proposed.to_string(index=False))
    result = {
        "mrr": metrics["stack"]["mrr"],
        "chance": chance_metrics((ranking.candidates >= 0).sum(1))["mrr"],
    }
    result |= {name: metrics[name]["mrr"] for name in ("common_neighbours", "adamic_adar")}
    print(json.dumps({**vars(options), **result}))


if __name__ == "__main__":
    main()
