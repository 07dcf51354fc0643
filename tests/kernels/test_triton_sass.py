"""Check spills, loads and barriers in the machine code of the kernels for an H100.

The tests read a sample of the shape classes; ``python -m benchmarks.sass`` reads all of them.
"""

import pytest

pytest.importorskip("triton")
import torch

from benchmarks.tools import aot, sass

LISTING = """
        /*0000*/                   S2R R0, SR_TID.X ;     /* 0x0 */
        /*0010*/                   LDG.E R1, desc[UR6][R2.64] ;     /* 0x0 */
        /*0020*/               @P0 LDG.E.128 R4, desc[UR6][R2.64] ;     /* 0x0 */
        /*0030*/               @P0 LDG.E.128 R8, desc[UR6][R2.64] ;     /* 0x0 */
        /*0040*/               @P1 BRA 0x60 ;     /* 0x0 */
        /*0050*/                   FADD R0, R0, R1 ;     /* 0x0 */
        /*0060*/                   FADD R0, R0, R9 ;     /* 0x0 */
        /*0070*/                   LDG.E.128 R12, desc[UR6][R2.64] ;     /* 0x0 */
        /*0080*/                   BRA.DIV UR4, 0xc0 ;     /* 0x0 */
        /*0090*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;     /* 0x0 */
        /*00a0*/               @P2 BRA 0x10 ;     /* 0x0 */
        /*00b0*/                   EXIT ;     /* 0x0 */
        /*00c0*/                   WARPSYNC.COLLECTIVE R7, 0xd0 ;     /* 0x0 */
        /*00d0*/                   BRA 0x90 ;     /* 0x0 */
"""


def test_a_loop_is_counted_along_its_shortest_way():
    (body,) = sass.loops(sass.parse(LISTING))
    assert [one.address for one in body] == [0x10, 0x20, 0x30, 0x40, 0x60, 0x70, 0x80, 0x90, 0xA0]
    assert [one.load_bytes() for one in body][:3] == [4, 16, 16]
    # The three loads are the last load of one iteration and the first two of the next iteration.
    assert sass.loads_in_flight(body) == 3


def test_blocks_of_a_multiprocessor():
    assert sass.blocks(registers=64, warps=1, shared=0) == 32
    assert sass.blocks(registers=153, warps=8, shared=1024) == 1
    assert sass.blocks(registers=40, warps=4, shared=100 * 1024) == 2


@pytest.mark.slow
@pytest.mark.skipif(not aot.CUOBJDUMP.exists(), reason="triton comes without a disassembler")
@pytest.mark.parametrize(
    ("heads", "channels", "path", "dtype", "family", "most"),
    [
        (8, 16, "general", torch.bfloat16, "gat", 19),
        (8, 16, "graphs", torch.float32, "dot_product", 7),
        (1, 128, "graphs", torch.float32, "dot_product", 9),
    ],
)
def test_a_sample_keeps_its_figures(heads, channels, path, dtype, family, most):
    shape = aot.ShapeClass(heads, channels, dtype, sass.DEGREES[path], False, path)
    kernels = list(sass.read(shape, [family]))
    assert kernels
    for kernel in kernels:
        assert kernel["spills"] == 0
        assert kernel["blocks"] >= 2
        assert kernel["loops"]
        for loop in kernel["loops"]:
            assert loop["is_wide"]
            assert loop["per_128_bytes"] <= most
            assert loop["barriers"] == 0
            if path == "graphs" and "forward" in kernel["kernel"]:
                assert loop["in_flight"] >= 8


@pytest.mark.slow
@pytest.mark.skipif(not aot.CUOBJDUMP.exists(), reason="triton comes without a disassembler")
def test_odd_channels_neither_spill_nor_fill_a_multiprocessor():
    runs = list(sass.read(aot.ShapeClass(4, 25, torch.float32, 64, False, "runs")))
    assert {one["kernel"] for one in runs} == sass.PAIRS
    assert [one["spills"] for one in runs] == [0, 0, 0]
    graphs = aot.ShapeClass(4, 25, torch.bfloat16, 2, False, "graphs")
    backwards = [one for one in sass.read(graphs, ["gatv2"]) if "backward" in one["kernel"]]
    assert [one["blocks"] >= 2 for one in backwards] == [True]
    assert [loop["barriers"] for loop in backwards[0]["loops"]] == [0, 0]
