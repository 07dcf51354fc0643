"""Helpers that layers share: arguments, edge inputs, scores, segments and recording."""
