"""Attention operators with fused score functions, in one file each."""
