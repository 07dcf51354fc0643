"""Types of request and answer bodies, from which the OpenAPI description is generated."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

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


SmilesList = Annotated[list[str], Field(min_length=1)]


class _Answer(BaseModel):
    """Base class of answers; the text below a field is its description."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class _Request(_Answer):
    """Base class of request bodies; a field that is not declared is an error."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ErrorMessage(_Answer):
    """Answer to a request that was rejected or failed; its status is 400 or more."""

    error: str
    """A sentence that names the problem."""


class Health(_Answer):
    """State of the server."""

    status: Literal["ok"]
    version: str
    """Version of gattn."""
    models: int
    """Number of loaded models."""
    open_requests: int
    """Number of requests that are computed or waiting."""


class ModelDescription(_Answer):
    """Description of a loaded run."""

    name: str
    kind: Literal["molecules", "nodes", "links"]
    task: str
    """Type of the labels, such as regression."""
    targets: list[str]
    coverage: float | None = None
    """Coverage of the intervals or sets by default; null for links."""
    columns: list[str]
    """Columns of a prediction."""
    smiles_columns: list[str] = []
    """Columns of SMILES that a CSV file must have by default, one for each molecule of a row."""
    reads_smiles: bool = False
    """Whether POST /explain reads it: its row is one molecule without further columns."""
    size: int
    """Number of molecules or rows of the training part, 0 if it is not known; number of all nodes
    or links.
    """
    test: dict[str, Value]
    """Metrics of the test part."""
    metrics: dict[str, str]
    """Names of these metrics in words."""
    files: list[str]
    """Files of the run under /models/NAME/."""
    notes: list[str]
    warnings: list[str]
    """Sentences if the model is not better than a constant or a random order, or if its intervals
    or sets are too small, infinite or always the same.
    """


class PredictRequest(_Request):
    """Request for predictions of molecules."""

    smiles: SmilesList
    """The SMILES of each row."""
    model: ModelName = None
    coverage: Coverage = None


class PredictAnswer(_Answer):
    """Predictions of molecules."""

    model: str
    rows: list[dict[str, Value]]
    """For each SMILES the columns of gattn molecules predict, and error, the reason why it has no
    prediction (empty if it has one).
    """


class TableAnswer(_Answer):
    """Predictions for the rows of a CSV file, as cells of a table."""

    model: str
    columns: list[str]
    """The file's columns and those added."""
    smiles_columns: list[int]
    """Positions of the columns of SMILES."""
    rows: list[list[str]]
    """The cells of the command's output."""


class ExplainRequest(_Request):
    """Request for the explanation of one molecule."""

    smiles: str
    model: ModelName = None
    target: str | None = None
    """Name of the target; required if there are several."""
    coverage: Coverage = None


class Atom(_Answer):
    """Atom of a molecule, with its weight."""

    atom: int
    """Number of the atom in the SMILES, from 0."""
    symbol: str
    weight: float
    """Contribution to the prediction, in its unit."""
    spread: float | None
    """Standard deviation over the networks of an ensemble."""


class Faithfulness(_Answer):
    """Decrease of the prediction when atoms are deleted, as a test of the atom weights."""

    top: float
    """Drop if the atoms of highest weight are removed."""
    random: float
    """Mean drop if the same number of random atoms is removed."""
    random_std: float


class Neighbour(_Answer):
    """Training molecule that is similar to the explained molecule."""

    smiles: str
    similarity: float
    """Tanimoto similarity on Morgan bits."""
    value: Value
    """Measured value of the target."""


class Domain(_Answer):
    """Applicability domain of the model, and whether the molecule is inside it."""

    similarity: float
    """Similarity to the nearest training molecule."""
    threshold: float
    """Similarity that 95 % of the test molecules reach or exceed."""
    inside: bool


class Pictures(_Answer):
    """Pictures of the molecule as SVG documents, in which colours show the atom weights."""

    light: str
    dark: str


class ExplainAnswer(_Answer):
    """Prediction and explanation of a molecule."""

    model: str
    target: str
    unit: str
    smiles: str
    explained: str
    """Quantity that the weights of the atoms explain: the target with its transform, or the
    probability of a class.
    """
    values: dict[str, Value]
    """Columns of the prediction, without the target's name."""
    domain: Domain | None
    nearest: list[Neighbour]
    atoms: list[Atom]
    faithfulness: Faithfulness
    pictures: Pictures | None
    """None if there are very many atoms."""


class NodeRequest(_Request):
    """Request for the prediction of a node."""

    name: str
    model: ModelName = None


class NodeNeighbour(_Answer):
    """Node to which the predicted node attends."""

    name: str
    prediction: Value
    weights: list[float]
    """Attention weight of each layer, the mean over heads."""


class NodeAnswer(_Answer):
    """Prediction of a node."""

    model: str
    name: str
    values: dict[str, Value]
    """Columns of gattn nodes predict for this node."""
    neighbours: list[NodeNeighbour]
    """Nodes that the node attends to; those with the highest weights come first."""
    degree: int
    """Number of nodes that the node attends to."""


class LinkRequest(_Request):
    """Request for the score of a pair of nodes."""

    source: str
    target: str
    model: ModelName = None


class LinkAnswer(_Answer):
    """Score of a pair of nodes."""

    model: str
    source: str
    target: str
    score: float
    """Score with the weights for mrr, by which the proposed links of a node are ranked."""
    probability: float
    """Probability of a link by the same weights, if half of the pairs were links."""
    linked: bool
    """Whether the graph has the link, whose score then reads it."""


class ProposedLink(_Answer):
    """Node to which a link is proposed."""

    name: str
    score: float
    probability: float


class LinksAnswer(_Answer):
    """Proposed links of a node, in descending order of the score."""

    model: str
    name: str
    links: list[ProposedLink]
