"""Fixtures of all tests, including the comparison of gattn's layers with PyG's layers."""

import copy
import gc
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch
import torch_geometric.nn as pyg
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map
from torch_geometric import EdgeIndex

import gattn.nn
from gattn.graph import Graph
from gattn.testing import awkward_graphs, random_graphs

if TYPE_CHECKING:
    from selenium import webdriver

TESTS = Path(__file__).parent
SHARED = {"ops", "sampling", "nn", "molecules", "nodes", "links"}
"""Folders of the tests whose kernels divide their work among several threads."""
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


def pytest_configure():
    """Handle SIGINT as in a terminal, so that tests can send it.

    If a shell script starts pytest in the background, SIGINT is ignored, and started processes
    inherit this.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Exclude modules and tests from garbage collection, because they exist until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_make_parametrize_id(val):
    """Name a case of a test by its dtype, shape or short value instead of by a number."""
    if isinstance(val, torch.Tensor):
        return f"{val.dtype} {tuple(val.shape)}".removeprefix("torch.")
    if isinstance(val, (torch.nn.Module, Exception)):
        return type(val).__name__
    text = str(val).replace("torch.", "")
    # The address of an object and the numbers of a tensor can differ between pytest workers.
    is_short = len(text) <= 100 and " at 0x" not in text and "tensor(" not in text
    kinds = (torch.dtype, torch.layout, tuple, list, dict)
    return text if is_short and isinstance(val, kinds) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Give each worker of xdist every nth slow test, and then a run of the others.

    ``--dist worksteal`` divides the tests in their order, and a worker without tests takes the last
    ones of another. So the tests at the end are short, and no worker waits long for another. Slow
    tests of one file are often equally slow, so they are dealt to all workers.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    slow = [item for item in items if item.get_closest_marker("slow")]
    short = [item for item in items if not item.get_closest_marker("slow")]
    items[:] = [
        item
        for worker in range(workers)
        for item in slow[worker::workers]
        + short[len(short) * worker // workers : len(short) * (worker + 1) // workers]
    ]


@pytest.fixture(autouse=True)
def as_many_threads_as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run tests of the kernels with ``GATTN_TEST_THREADS`` threads, others with torch's number.

    If the threads of two workers are more than the cores, the workers block each other and are ten
    times slower. A test that changes the number must restore it.
    """
    before = torch.get_num_threads()
    folders = request.path.relative_to(TESTS).parts if request.path.is_relative_to(TESTS) else ()
    shared = SHARED.intersection(folders[:1] if folders[:1] != ("apps",) else folders[1:2])
    threads = int(os.environ.get("GATTN_TEST_THREADS", before)) if shared else before
    torch.set_num_threads(threads)
    yield
    after = torch.get_num_threads()
    torch.set_num_threads(before)
    assert after == threads


@pytest.fixture
def own_threads(as_many_threads_as_before: None) -> Iterator[None]:
    """Restore the number of threads after a test of a command that changes it."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def in_double() -> Iterator[None]:
    """Create float64 tensors by default."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def uneven_products() -> Iterator[None]:
    """Round the dense products of PyTorch differently in each row, as they may on some processor.

    A row also gets other last bits if the number of rows or threads changes.
    """
    aten = torch.ops.aten
    products = {
        aten.mm.default, aten.addmm.default, aten._addmm_activation.default, aten.bmm.default,
        aten.baddbmm.default, aten.mv.default, aten.addmv.default,
    }  # fmt: skip

    class Uneven(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func in products and out.is_floating_point() and not out.is_sparse:
                rows = out if out.dim() > 1 else out[:, None]
                place = torch.arange(rows.shape[-2]) * 40503 // 256
                step = (place + len(place) + torch.get_num_threads()) % 2
                rows.mul_(1 + 2 * torch.finfo(out.dtype).eps * step.to(out.dtype)[:, None])
            return out

    with Uneven():
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder with real raw files; tests that need it are skipped if it is absent."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    root = Path(os.environ.get("GATTN_DATA", beside))
    if not root.is_dir():
        pytest.skip(f"needs real raw files: set GATTN_DATA ({root} is absent)")
    return root


@pytest.fixture(params=TOLERANCE, ids=str)
def dtype(request):
    return request.param


@pytest.fixture(scope="session")
def _chromium() -> Iterator["webdriver.Chrome"]:
    """Headless Chromium. It is required in CI; on other machines, its tests are skipped if it is
    not installed.
    """
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        why = "needs chromium and chromedriver on the PATH"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options, Service(driver)) as opened:
        yield opened


@pytest.fixture
def browser(_chromium: "webdriver.Chrome") -> "webdriver.Chrome":
    """Chromium in its initial state: one browser for all tests, reset before each."""
    _chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    _chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    # The page of the previous test would log failed requests after its server has stopped.
    _chromium.get("about:blank")
    _chromium.get_log("browser")
    return _chromium


@pytest.fixture(scope="session")
def beside_pyg():
    """Functions that build a layer of PyG and of gattn (``pair``) and compare them (``check``)."""
    return SimpleNamespace(
        pair=_pair, check=_check, leaves=_leaves, graphs=_graphs, draw=_draw, kinds=EDGE_KINDS
    )


def _pair(name, *args, dtype=torch.float64, theirs=None, ours=None, first=None, **kwargs):
    """Return PyG's layer and ours, with the same repr, state_dict keys and initial values.

    ``first`` contains the arguments of the forward that initialises lazy parameters.
    """
    layers = []
    for factory in (theirs or getattr(pyg, name), ours or getattr(gattn.nn, name)):
        torch.manual_seed(7)
        layer = factory(*copy.deepcopy(args), **copy.deepcopy(kwargs)).to(dtype)
        if isinstance(layer, pyg.RGATConv):  # PyG does not initialise this parameter
            layer.l2.data.fill_(1 / layer.out_channels)
        if first is not None:
            layer(*first)
        layers.append(layer)
    theirs, ours = layers
    assert repr(theirs) == repr(ours)
    assert list(theirs.state_dict()) == list(ours.state_dict())
    for key, value in theirs.state_dict().items():
        assert torch.equal(value, ours.state_dict()[key]), key
    # Biases and gates start at constants such as zero, which could hide an error. So random numbers
    # are added to all parameters.
    for theirs_p, ours_p in zip(theirs.parameters(), ours.parameters(), strict=True):
        moved = theirs_p.detach() + 0.1 * torch.randn_like(theirs_p)
        theirs_p.data, ours_p.data = moved.clone(), moved.clone()
    return theirs, ours


def _check(theirs, ours, *args, where="", **kwargs):
    """Compare outputs, and gradients of every parameter and floating input."""
    expected, expected_grads = _run(theirs, args, kwargs)
    got, grads = _run(ours, args, kwargs)
    _assert_same(expected, got, f"output {where}")
    for name, grad in expected_grads.items():
        _assert_same(grad, grads[name], f"gradient of {name} {where}")
    return got


def _run(layer, args, kwargs):
    args, kwargs = _fresh(args), _fresh(kwargs)
    layer.zero_grad()
    out = layer(*args, **kwargs)
    torch.manual_seed(3)
    loss = sum((t * torch.randn_like(t)).sum() for t in _tensors(out) if t.requires_grad)
    if isinstance(loss, torch.Tensor):
        loss.backward()
    grads = {name: p.grad for name, p in layer.named_parameters()}
    inputs = [t for t in _tensors((args, kwargs)) if t.requires_grad]
    grads.update({f"input {i}": t.grad for i, t in enumerate(inputs)})
    return out, {k: g if g is None else g.to_dense() for k, g in grads.items()}


def _assert_same(expected, got, what):
    (expected, structure), (got, ours) = tree_flatten(expected), tree_flatten(got)
    assert structure == ours, what
    for i, (a, b) in enumerate(zip(expected, got)):
        if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
            _assert_same_tensor(a, b, f"{what}[{i}]")
        else:
            assert type(a) is type(b), what


def _assert_same_tensor(expected, got, what):
    """Compare gradients within a tolerance; None equals zeros."""
    if expected is None or got is None:
        assert "gradient" in what, what
        other = expected if got is None else got
        assert not other.any(), what
        return
    assert expected.layout == got.layout, what
    if expected.layout != torch.strided:
        expected, got = (t.detach().to_sparse_coo().coalesce() for t in (expected, got))
        assert torch.equal(expected.indices(), got.indices()), what
        expected, got = expected.values(), got.values()
    assert expected.shape == got.shape, f"{what}: {expected.shape}, {got.shape}"
    if isinstance(expected, EdgeIndex):
        expected, got = expected.as_tensor(), torch.Tensor(got.as_tensor())
    tolerance = TOLERANCE.get(expected.dtype, 0)
    scale = max(1.0, float(expected.detach().abs().max())) if expected.numel() else 1.0
    torch.testing.assert_close(
        got, expected, rtol=tolerance, atol=tolerance * scale, msg=lambda m: f"{what}: {m}"
    )


def _is_float(value):
    return (
        isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and value.is_floating_point()
    )


def _tensors(value):
    return list(filter(_is_float, tree_leaves(value)))


def _fresh(value):
    """Return a copy whose floating tensors are leaves that require gradients."""
    return tree_map(lambda t: t.detach().clone().requires_grad_() if _is_float(t) else t, value)


_leaves = _fresh


def _graphs(bipartite=False):
    """Return the edge-case graphs and two random ones, square or bipartite."""
    chosen = [case for case in awkward_graphs() if case.bipartite == bipartite]
    assert chosen
    return chosen + random_graphs(2, bipartite=bipartite)


def _draw(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def _as_coo(pairs, size):
    values = torch.ones(pairs.shape[1])
    return torch.sparse_coo_tensor(pairs.flip(0), values, size[::-1], is_coalesced=True)


def _as_csr(pairs, size):
    return _as_coo(pairs, size).to_sparse_csr()


EDGE_KINDS = {
    "pairs": lambda pairs, size: pairs,
    "int32 pairs": lambda pairs, size: pairs.int(),
    "EdgeIndex": lambda pairs, size: EdgeIndex(pairs, sparse_size=size),
    "coo": _as_coo,
    "csr": _as_csr,
    "Graph": Graph,
}
"""Types of edge inputs, made from pairs sorted by destination and source without duplicates."""
