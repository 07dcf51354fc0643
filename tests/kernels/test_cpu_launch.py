"""Tests of the C++ extension: checks of packed arguments, and checksums of memory."""

import os
import platform
import subprocess
import sys

import pytest
import torch

from gattn.kernels import cpu

pytestmark = pytest.mark.skipif(
    not cpu.serves(torch.device("cpu")), reason="the C++ extension is not built"
)


def test_wrong_size_of_kernel_arguments_or_unknown_kernel_number_raises_error():
    with pytest.raises(ValueError, match=r"takes [0-9]+ bytes of arguments; got 3"):
        cpu._kernels.run(list(cpu._kernels.kernels()).index("gat_forward"), b"abc")
    with pytest.raises(IndexError, match="no kernel"):
        cpu._kernels.run(1000, b"")


def test_every_kernel_declares_distinct_fields_of_supported_kinds():
    kernels = cpu._kernels.kernels()
    assert kernels
    for name, fields in kernels.items():
        assert {kind for _, kind in fields} <= {"pointer", "rows", "int", "float"}, name
        assert len({field for field, _ in fields}) == len(fields), name
        names = [field for field, _ in fields]
        if "rowptr" in names:  # the launcher packs all fields of the layout together
            first = names.index("rowptr")
            assert tuple(names[first : first + len(cpu._LAYOUT)]) == cpu._LAYOUT, name


def test_launch_with_an_unknown_field_or_another_dtype_raises_error():
    with pytest.raises(TypeError, match="the C\\+\\+ kernel dropout has no field colour"):
        cpu.Launcher("dropout", {"x": 0, "colour": 1})
    every = {name for name, _ in cpu._kernels.kernels()["node_scores"]}
    launch = cpu.Launcher("node_scores", {"value": 0, "vectors": 1}, absent=every)
    with pytest.raises(TypeError, match=r"vectors must be torch.float32; got torch.float64"):
        launch([torch.zeros(3, 1, 2), torch.zeros(1, 1, 2, dtype=torch.float64)])


def test_launcher_without_a_value_for_a_field_or_for_an_unknown_kernel_raises_error():
    arguments = {"layout": 0, "query": 1, "key": 2, "out": 3, "heads": 4}
    with pytest.raises(TypeError, match="edge_dot needs a value for its field channels, key_h"):
        cpu.Launcher("edge_dot", arguments)
    with pytest.raises(TypeError, match=r"no C\+\+ kernel edge_dott; the kernels are gat_f"):
        cpu.Launcher("edge_dott", arguments)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000, 300_001])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_checksum_of_the_cpu_kernel_depends_on_every_element_and_its_position(size, dtype):
    x = torch.arange(size, dtype=dtype) * 4096
    actual = cpu.checksum(x)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    assert cpu.checksum(x.clone()) == actual
    torch.set_num_threads(threads)
    assert cpu.checksum(torch.zeros(size + 1, dtype=dtype)) != cpu.checksum(x * 0)
    for at in {0, size // 2, size - 1} if size else ():
        changed = x.clone()
        changed[at] += 1
        assert cpu.checksum(changed) != actual
    for one, other in {(0, 1), (0, size - 1), (size // 2, size - 1)} if size > 2 else ():
        swapped = x.clone()
        swapped[[one, other]] = x[[other, one]]
        assert cpu.checksum(swapped) != actual
    assert len({cpu.checksum(x.roll(k)) for k in range(min(size, 50))}) == min(size, 50)


STEPS = """
import resource
import torch
import gattn.kernels.cpu

def step():
    return [torch.ones(1 << 20) for _ in range(12)]

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for _ in range(3):
    step()
before = faults()
for _ in range(50):
    step()
print(faults() - before)
"""


def faults_of_fifty_steps(**environment):
    """Page faults of fifty steps in a new process; each step fills 12 x 4 MiB and frees them."""
    inherited = {n: v for n, v in os.environ.items() if not n.startswith(("MALLOC_", "GLIBC_"))}
    actual = subprocess.run(
        [sys.executable, "-c", STEPS], env=inherited | environment, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return int(actual.stdout)


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_training_steps_reuse_the_memory_of_the_previous_step():
    """Memory that a step frees is reused by the next step, unless the environment contains settings
    of malloc.
    """
    given_back = faults_of_fifty_steps(MALLOC_TRIM_THRESHOLD_="131072")
    # Each block of memory causes at least one page fault, whatever the size of the pages.
    assert given_back >= 50 * 12
    # Depending on the addresses of the process, the heap can still grow once after the first steps.
    assert faults_of_fifty_steps() < given_back / 10
