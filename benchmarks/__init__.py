"""Measurements of time and memory. Every case is checked first, and is then compared with a peer in
one process.

    core/     timer, peak memory, processes, records, checks, tables: what every measurement uses
    data/     the graphs
    sides/    what is put side by side: gattn, PyG, FlexAttention, padded attention, anemoi
    suites/   the cases: of one machine's CPU, of a GPU, of one commit beside another
    tools/    the report, kernels compiled ahead of time, host times of launches

Imports go from the commands down this list to ``core``. The modules beside these folders are the
commands, each ``python -m benchmarks.NAME``; ``python -m benchmarks`` itself runs the CPU's cases.
"""
