"""Functions shared by the layers: checks, edge inputs, scores, segments and recording."""
