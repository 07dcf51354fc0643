"""Types of request and answer bodies, from which the OpenAPI description is generated."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "Atom",
    "Domain",
    "ErrorMessage",
    "ExplainAnswer",
    "ExplainRequest",
    "Faithfulness",
    "Health",
    "LinkAnswer",
    "LinkRequest",
    "LinksAnswer",
    "ModelDescription",
    "Neighbour",
    "NodeAnswer",
    "NodeNeighbour",
    "NodeRequest",
    "Pictures",
    "PredictAnswer",
    "PredictRequest",
    "ProposedLink",
    "TableAnswer",
]

Value = int | float | str | None
Coverage = Annotated[
    Annotated[float, Field(gt=0, lt=1)] | None,
    Field(
        description="Coverage of the intervals, or of the sets of classes; by default that of the "
        "training."
    ),
]
ModelName = Annotated[
    str | None, Field(description="Name of a model of GET /models; the first one by default.")
]


class _Request(BaseModel):
    """Base class of request bodies; a field that is not declared is an error."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ErrorMessage(BaseModel):
    """Answer to a request that was rejected or failed; its status is 400 or more."""

    error: Annotated[str, Field(description="A sentence that names the problem.")]


class Health(BaseModel):
    """State of the server."""

    status: Literal["ok"]
    version: Annotated[str, Field(description="Version of gattn.")]
    models: Annotated[int, Field(description="Number of loaded models.")]
    open_requests: Annotated[
        int, Field(description="Number of requests that are computed or waiting.")
    ]


class ModelDescription(BaseModel):
    """Description of a loaded run."""

    name: str
    kind: Literal["molecules", "nodes", "links"]
    task: Literal["regression", "classification", "multiclass"]
    targets: list[str]
    coverage: Annotated[
        float | None,
        Field(description="Coverage of the intervals or sets by default; null for links."),
    ] = None
    columns: Annotated[list[str], Field(description="Columns of a prediction.")]
    smiles_columns: Annotated[
        list[str],
        Field(
            description="Columns of SMILES that a CSV file must have by default, one for each "
            "molecule of a row."
        ),
    ] = []
    methods: Annotated[
        list[str],
        Field(description="Methods of POST /explain, best first; empty if it reads only tables."),
    ] = []
    size: Annotated[
        int,
        Field(
            description="Number of molecules or rows of the training part, 0 if it is not known; "
            "number of all nodes or links."
        ),
    ]
    test: Annotated[dict[str, Value], Field(description="Metrics of the test part.")]
    metrics: Annotated[dict[str, str], Field(description="Names of these metrics in words.")]
    files: Annotated[list[str], Field(description="Files of the run under /models/NAME/.")]
    notes: list[str]
    warnings: Annotated[
        list[str],
        Field(
            description="A sentence if the model is not better than a constant or a random order."
        ),
    ]


class PredictRequest(_Request):
    """Request for predictions of molecules."""

    smiles: Annotated[list[str], Field(min_length=1, description="The SMILES of each row.")]
    model: ModelName = None
    coverage: Coverage = None


class PredictAnswer(BaseModel):
    """Predictions of molecules."""

    model: str
    rows: Annotated[
        list[dict[str, Value]],
        Field(
            description="For each SMILES the columns of gattn molecules predict, and error, the "
            "reason why it has no prediction (empty if it has one)."
        ),
    ]


class TableAnswer(BaseModel):
    """Predictions for the rows of a CSV file, as cells of a table."""

    model: str
    columns: Annotated[list[str], Field(description="The file's columns and those added.")]
    smiles_columns: Annotated[list[int], Field(description="Positions of the columns of SMILES.")]
    rows: Annotated[list[list[str]], Field(description="The cells of the command's output.")]


class ExplainRequest(_Request):
    """Request for the explanation of one molecule."""

    smiles: str
    model: ModelName = None
    target: Annotated[
        str | None, Field(description="Name of the target; required if there are several.")
    ] = None
    method: Annotated[
        str | None, Field(description="Attribution method; the model's best one by default.")
    ] = None
    coverage: Coverage = None


class Atom(BaseModel):
    """Atom of a molecule, with its weight."""

    atom: Annotated[int, Field(description="Number of the atom in the SMILES, from 0.")]
    symbol: str
    weight: Annotated[float, Field(description="Contribution to the prediction, in its unit.")]
    spread: Annotated[
        float | None, Field(description="Standard deviation over the networks of an ensemble.")
    ]


class Faithfulness(BaseModel):
    """Decrease of the prediction when atoms are deleted, as a test of the atom weights."""

    top: Annotated[
        float,
        Field(description="Drop if the atoms of highest weight are removed."),
    ]
    random: Annotated[
        float, Field(description="Mean drop if the same number of random atoms is removed.")
    ]
    random_std: float


class Neighbour(BaseModel):
    """Training molecule that is similar to the explained molecule."""

    smiles: str
    similarity: Annotated[float, Field(description="Tanimoto similarity on Morgan bits.")]
    value: Annotated[Value, Field(description="Measured value of the target.")]


class Domain(BaseModel):
    """Applicability domain of the model, and whether the molecule is inside it."""

    similarity: Annotated[float, Field(description="Similarity to the nearest training molecule.")]
    threshold: Annotated[
        float, Field(description="Similarity that 95 % of the test molecules reach or exceed.")
    ]
    inside: bool


class Pictures(BaseModel):
    """Pictures of the molecule as SVG documents, in which colours show the atom weights."""

    light: str
    dark: str


class ExplainAnswer(BaseModel):
    """Prediction and explanation of a molecule."""

    model: str
    target: str
    unit: str
    smiles: str
    method: str
    explained: Annotated[
        str,
        Field(
            description="Quantity to which the weights of the atoms add: the "
            "target with its transform, or the probability of a class."
        ),
    ]
    values: Annotated[
        dict[str, Value], Field(description="Columns of the prediction, without the target's name.")
    ]
    percentile: Annotated[
        float | None,
        Field(description="Percentage of the measured training values up to the prediction."),
    ]
    domain: Domain | None
    nearest: list[Neighbour]
    atoms: list[Atom]
    faithfulness: Faithfulness
    pictures: Annotated[Pictures | None, Field(description="None if there are very many atoms.")]


class NodeRequest(_Request):
    """Request for the prediction of a node."""

    name: str
    model: ModelName = None


class NodeNeighbour(BaseModel):
    """Node to which the predicted node attends."""

    name: str
    prediction: Value
    weights: Annotated[
        list[float], Field(description="Attention weight of each layer, the mean over heads.")
    ]


class NodeAnswer(BaseModel):
    """Prediction of a node."""

    model: str
    name: str
    values: Annotated[
        dict[str, Value], Field(description="Columns of gattn nodes predict for this node.")
    ]
    neighbours: Annotated[
        list[NodeNeighbour],
        Field(
            description="Nodes that the node attends to; those with the highest weights come first."
        ),
    ]
    degree: Annotated[int, Field(description="Number of nodes that the node attends to.")]


class LinkRequest(_Request):
    """Request for the score of a pair of nodes."""

    source: str
    target: str
    model: ModelName = None


class LinkAnswer(BaseModel):
    """Score of a pair of nodes."""

    model: str
    source: str
    target: str
    score: Annotated[float, Field(description="Score, by which links are ranked.")]
    probability: Annotated[
        float, Field(description="Probability of a link, if half of the pairs were links.")
    ]
    linked: Annotated[
        bool, Field(description="Whether the graph has the link, whose score then reads it.")
    ]


class ProposedLink(BaseModel):
    """Node to which a link is proposed."""

    name: str
    score: float
    probability: float


class LinksAnswer(BaseModel):
    """Proposed links of a node, in descending order of the score."""

    model: str
    name: str
    links: list[ProposedLink]
