"""Measurements: every case is verified first, then timed beside its peer in one process.

``python -m benchmarks --list`` names the cases, ``python -m benchmarks 'esol-64/*'`` runs some,
``python -m benchmarks.report`` writes the table of the README from what the runs recorded.
"""
