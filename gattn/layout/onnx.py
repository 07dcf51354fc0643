"""Detection of exports to ONNX.

``torch.onnx.export`` traces a model and translates the recorded operators one by one. ONNX has no
equivalent of gattn's operators and of a few operators of torch that build layouts. While a model is
exported, every operator of gattn therefore runs on the PyTorch reference, and ``layout.py`` builds
layouts with other operators of torch.
"""

from __future__ import annotations

import torch


def exporting() -> bool:
    """Return True while ``torch.onnx.export`` is tracing."""
    return torch.compiler.is_compiling() and torch.onnx.is_in_onnx_export()
