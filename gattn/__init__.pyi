from gattn import (
    data,
    distributed,
    draw,
    functional,
    graphs,
    models,
    nn,
    sampling,
    structure,
    testing,
    transforms,
)
from gattn.conversion import ConversionReport, conversion_report, convert
from gattn.graph import Graph
from gattn.inspection import PathRecord, PathReport, explain_path
from gattn.ops.registration.backend import backend_info

__version__: str

__all__ = [
    "ConversionReport",
    "Graph",
    "PathRecord",
    "PathReport",
    "__version__",
    "backend_info",
    "conversion_report",
    "convert",
    "data",
    "distributed",
    "draw",
    "explain_path",
    "functional",
    "graphs",
    "models",
    "nn",
    "sampling",
    "structure",
    "testing",
    "transforms",
]
