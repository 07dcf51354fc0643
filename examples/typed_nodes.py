"""Predict the topics of papers from the columns of their authors, with two tables of nodes.

    python examples/typed_nodes.py --papers 600 --epochs 100

Generates papers, authors and two relations: authors write papers, and authors review papers. A
paper has the topic of most of its writers; its reviewers work on any topic. The columns of an
author show the author's topic with noise, and the papers have no columns that show it. The model
that reads both tables is compared with label propagation over papers with a common author, and with
the most frequent topic. The last line of output is JSON: the accuracies on the papers without a
label.
"""

import argparse
import json
import time

import numpy as np
import pandas as pd
import torch

from gattn.apps.nodes import NodeClassifier
from gattn.apps.nodes.stack.propagation import Neighbours, propagate

WRITES, REVIEWS = ("authors", "writes", "papers"), ("authors", "reviews", "papers")
TOPICS = ("algebra", "biology", "chemistry")


def make_tables(
    papers: int, authors: int, noise: float, seed: int
) -> tuple[dict[tuple[str, str, str], pd.DataFrame], dict[str, pd.DataFrame], np.ndarray]:
    """Return tables of edges by relation, tables of nodes by type, and the topics of the papers."""
    draw = np.random.default_rng(seed)
    topic, label = draw.integers(3, size=papers), draw.integers(3, size=authors)
    experts = [np.flatnonzero(label == kind) for kind in range(3)]
    writes = [
        (draw.choice(experts[topic[paper]] if draw.random() < 0.8 else authors), paper)
        for paper in range(papers)
        for _ in range(3)
    ]
    reviews = [(draw.integers(authors), paper) for paper in range(papers) for _ in range(3)]
    fields = np.eye(3)[label] + noise * draw.normal(size=(authors, 3))
    people = pd.DataFrame(fields, columns=[f"courses in {name}" for name in TOPICS])
    people.insert(0, "id", [f"author {place}" for place in range(authors)])
    has_label = np.arange(papers) % 3 > 0
    names = np.array(TOPICS)[topic]
    articles = pd.DataFrame(
        {
            "id": [f"paper {place}" for place in range(papers)],
            "pages": draw.integers(4, 30, size=papers),
            "topic": pd.Series(names).where(has_label),
        }
    )
    edges = {
        relation: pd.DataFrame(
            {
                "author": [f"author {author}" for author, _ in pairs],
                "paper": [f"paper {paper}" for _, paper in pairs],
            }
        )
        for relation, pairs in ((WRITES, writes), (REVIEWS, reviews))
    }
    return edges, {"papers": articles, "authors": people}, names


def propagated(model: NodeClassifier, hidden: np.ndarray) -> np.ndarray:
    """Return the topics of the hidden papers by label propagation over common authors."""
    train = torch.cat([model.split_.train, model.split_.val])
    labels = torch.nn.functional.one_hot(model.y_[train].long(), len(TOPICS)).double()
    graph = model.graph_
    means = Neighbours(graph.edge_index, len(graph), directed=True).means
    spread = propagate(means, labels.numpy(), train.numpy(), steps=50)[:, :-1]
    return model.classes_[spread.argmax(1)][hidden]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    parser.add_argument("--papers", type=int, default=600, help="number of papers to generate")
    parser.add_argument("--authors", type=int, default=200, help="number of authors to generate")
    parser.add_argument(
        "--noise",
        type=float,
        default=1,
        help="standard deviation of the noise in the columns of the authors",
    )
    parser.add_argument(
        "--epochs", type=int, default=100, help="maximum number of epochs of the training"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the data and of the training")
    args = parser.parse_args()
    start = time.perf_counter()
    edges, nodes, topics = make_tables(args.papers, args.authors, args.noise, args.seed)
    model = NodeClassifier("topic", epochs=args.epochs, seed=args.seed).fit((edges, nodes))
    hidden = nodes["papers"]["topic"].isna().to_numpy()
    truth = topics[hidden]
    accuracy = {
        "model": float((model.predict()[hidden] == truth).mean()),
        "label propagation": float((propagated(model, hidden) == truth).mean()),
        "most frequent topic": float((pd.Series(topics[~hidden]).mode()[0] == truth).mean()),
    }
    for name, value in accuracy.items():
        print(f"{name}: accuracy {value:.3f} on {hidden.sum():,} papers without a label")
    result = {"accuracy": accuracy, "epochs": args.epochs}
    print(json.dumps({**result, "seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
