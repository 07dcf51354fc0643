"""gattn can be imported and used without a private name of torch."""

import subprocess
import sys

import pytest

NAMES = (
    "torch._C._are_functorch_transforms_active",
    "torch._C._DisableFuncTorch",
    "torch._C._functorch",
    "torch._C._storage_Use_Count",
    "torch._subclasses.FakeTensor",
    "torch.autograd.forward_ad._current_level",
    "torch.utils._python_dispatch._get_current_dispatch_mode",
    "torch.nn.modules.module._has_any_global_hook",
    "torch._fused_sdp_choice",
    "torch._C._autograd._get_current_graph_task_keep_graph",
)
# Each name is removed in a forked process, because importing torch again is slow.
SCRIPT = """
import os, sys, traceback
import torch, torch.autograd.forward_ad, torch.utils._python_dispatch, torch_geometric.nn


def run_without(path):
    owner, _, name = path.rpartition(".")
    owner = eval(owner)
    removed = getattr(owner, name)
    delattr(owner, name)
    import gattn
    from gattn.compat import torch as torch_internals
    setattr(owner, name, removed)  # torch itself needs some of them to run
    x, edge_index = torch.randn(4, 8, requires_grad=True), torch.tensor([[0, 1, 2], [1, 2, 2]])
    out = gattn.nn.GATConv(8, 4)(x, edge_index)
    out.sum().backward()
    assert x.grad.isfinite().all()
    assert torch_internals.innermost_transform() == "transform"
    assert not torch_internals.dispatch_mode_active()


for path in sys.argv[1:]:
    child = os.fork()
    if not child:
        try:
            run_without(path)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert not os.waitpid(child, 0)[1], path
    print(path)
"""


@pytest.mark.slow
def test_gattn_runs_without_private_names_of_torch():
    command = [sys.executable, "-c", SCRIPT, *NAMES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == list(NAMES)
