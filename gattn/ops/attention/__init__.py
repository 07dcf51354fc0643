"""Attention with the fused score functions, one file each."""
