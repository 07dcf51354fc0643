"""Whether a model is on its way to ONNX.

``torch.onnx.export`` traces a model and translates what it recorded, operator by operator. It
knows neither gattn's operators nor a few of torch's that layouts are made of. So while it traces,
every operator runs on the plain PyTorch reference, and ``layout.py`` makes layouts of operators
that ONNX has.
"""

from __future__ import annotations

import torch


def exporting() -> bool:
    """Whether ``torch.onnx.export`` is tracing; eager code pays no more than a flag."""
    return torch.compiler.is_compiling() and torch.onnx.is_in_onnx_export()
