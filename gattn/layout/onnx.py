"""Detection of exports to ONNX.

``torch.onnx.export`` traces a model and translates the recorded operators one by one. It knows
neither gattn's operators nor a few of torch's that layouts are built with. While it traces, every
operator therefore runs on the PyTorch reference, and ``layout.py`` builds layouts with operators
that ONNX has.
"""

from __future__ import annotations

import torch


def exporting() -> bool:
    """Return True while ``torch.onnx.export`` is tracing."""
    return torch.compiler.is_compiling() and torch.onnx.is_in_onnx_export()
