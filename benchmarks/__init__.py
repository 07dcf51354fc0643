"""Measurements of time and memory. Every case is checked first, and is then compared with a peer in
one process.

    core/     timer, peak memory, processes, records, checks and tables, which all measurements use
    data/     graphs
    sides/    implementations that are compared: gattn, PyG, FlexAttention, padded attention
    suites/   cases for a CPU, for a GPU, and for the comparison of two commits
    tools/    tables of the reports

Imports go from the commands down this list to ``core``. The modules beside these folders are the
commands, each ``python -m benchmarks.NAME``; ``python -m benchmarks`` itself runs the CPU's cases.
"""
