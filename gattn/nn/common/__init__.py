"""Helpers shared by the layers: argument checks, edge inputs, scores, segments and recording."""
