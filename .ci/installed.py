"""Print a report of an installed gattn as one line of JSON. Run it in a separate environment.

Exits with an error if the kernels differ from the reference or, with ``--kernels``, are missing.
"""

import json
import sys
import warnings

import torch
import torch_geometric.nn as pyg

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import gattn
    from gattn.data import dataset_names

    torch.manual_seed(0)
    edge_index = torch.randint(200, (2, 2000))
    x = torch.randn(200, 32)
    theirs, ours = pyg.GATConv(32, 16, heads=4), gattn.nn.GATConv(32, 16, heads=4)
    ours.load_state_dict(theirs.state_dict())
    beside_pyg = float((ours(x, edge_index) - theirs(x, edge_index)).abs().max())

    graph = gattn.Graph(edge_index, 200)
    q, k, v = torch.randn(3, 200, 4, 16)
    attend = gattn.functional.dot_product_attention
    reference = attend(q, k, v, graph, backend="reference")
    apart = float((attend(q, k, v, graph) - reference).abs().max())

print(json.dumps({
    "file": gattn.__file__,
    "info": gattn.backend_info(),
    "warnings": [str(w.message) for w in caught if "gattn" in str(w.message)],
    "beside_pyg": beside_pyg,
    "apart": apart,
    "datasets": list(dataset_names()),
}))  # fmt: skip
missing = "--kernels" in sys.argv and not gattn.backend_info()["cpu"].startswith("available")
sys.exit(missing or not (apart < 1e-5 and beside_pyg < 1e-5))
