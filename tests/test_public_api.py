"""Public names are listed here and documented."""

import importlib
import inspect
from pathlib import Path

import pytest

import gattn

ROOT = Path(gattn.__file__).parent

PUBLIC = {
    "gattn": """
        ConversionReport Graph PathRecord PathReport __version__ backend_info conversion_report
        convert data distributed draw explain_path functional graphs models nn sampling
        structure testing transforms""",
    "gattn.data": """
        ATOM_FEATURES BOND_FEATURES BadRow DESCRIPTORS DataFile DatasetRecord MoleculeError
        Molecules NeighborLoader ReportedScore Split atom_features batch_molecules
        bond_features data_root dataset_names get_dataset load_citation load_molecules
        smiles_to_data molecule_descriptors molecule_identities morgan_fingerprints
        random_split read_smiles scaffold_split split_by_names
        split_from_file tanimoto tanimoto_neighbours tanimoto_ridge""",
    "gattn.distributed": """
        DistributedGraph Partition ProcessFailure Processes CommStats init_processes
        sum_gradients""",
    "gattn.draw": """
        DRAWN_ATOMS attention_matrix draw_matrix draw_molecule draw_network
        sample_network shared_scale""",
    "gattn.functional": """
        gat_attention gat_attention_weights aggregate apply_edges attention
        dot_product_attention dot_product_attention_weights edge_dot edge_softmax linear_attention
        linear_attention_weights gatv2_attention gatv2_attention_weights""",
    "gattn.graphs": """
        band bipartite causal complete disjoint_union edge_features expander from_batch
        from_networkx grid grid_offsets in_subgraph knn pack pooling_graph radius to_networkx unpack
        virtual_node window_offsets""",
    "gattn.models": """AttentiveFP GAT Polynormer SGFormer layerwise_inference""",
    "gattn.apps.molecules": """
        AtomClassifier AtomRegressor MoleculeClassifier MoleculeRegressor MoleculeSettings""",
    "gattn.apps.links": """LinkPredictor LinkSettings""",
    "gattn.apps.nodes": """NodeClassifier NodeRegressor NodeSettings PRESETS""",
    "gattn.nn": """
        AGNNConv AttentionRecord AttentionalAggregation DegreeEncoding ExphormerConv FAConv GATConv
        GATEConv GATv2Conv GPSConv GRITConv GTConv GeneralConv GraphAttention
        GraphMultisetTransformer GraphTransformerLayer HANConv HEATConv HGTConv HypergraphConv
        InducedSetAttentionBlock LaplacianEncoding LearnedEncoding LearnedQueryReadout
        LinearAttention MultiReadout MultiheadAttentionBlock PathFeatureBias PointTransformerConv
        PolynormerAttention PoolingByMultiheadAttention RGATConv RandomWalkEncoding RelativeBias
        ResGatedGraphConv SGFormerAttention Set2Set SetAttentionBlock SetTransformerAggregation
        ShortestPathBias SinusoidalEncoding SoftmaxAggregation SparseDropout SuperGATConv
        TransformerBlock TransformerConv grid_to_nodes nodes_to_grid record_attention
        token_offsets""",
    "gattn.sampling": """NeighborSampler Sample TypedNeighborSampler TypedSample""",
    "gattn.structure": """
        laplacian_eigenvectors path_features path_lengths return_probabilities
        walk_probabilities""",
    "gattn.testing": """
        AwkwardGraph WorstCase assert_batch_independent assert_edge_order_independent
        assert_permutation_equivariant assert_permutation_invariant awkward_graphs
        random_graphs""",
    "gattn.transforms": """
        AddDegree AddExpander AddLaplacianEigenvectorPE AddPosition AddRandomWalkPE
        AddRelativeRandomWalkPE AddShortestPaths AddSinusoidalPE""",
}


def public_things():
    for name, listing in PUBLIC.items():
        for attribute in listing.split():
            thing = getattr(importlib.import_module(name), attribute)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield f"{name}.{attribute}", thing


THINGS = dict(public_things())


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_pinned(name):
    module = importlib.import_module(name)
    assert sorted(module.__all__) == sorted(PUBLIC[name].split())
    assert len(set(module.__all__)) == len(module.__all__)
    for attribute in module.__all__:
        assert hasattr(module, attribute)


def test_every_public_module_is_pinned():
    stubs = {path.parent.relative_to(ROOT.parent) for path in ROOT.rglob("__init__.pyi")}
    assert {".".join(folder.parts) for folder in stubs} == set(PUBLIC) - {"gattn.functional"}


@pytest.mark.parametrize("name", PUBLIC)
def test_names_of_a_package_load_at_first_use(name):
    module = importlib.import_module(name)
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match=f"{name!r} has no attribute 'nothing'"):
        _ = module.nothing


def test_star_import():
    names: dict[str, object] = {}
    exec("from gattn import *", names)
    assert set(PUBLIC["gattn"].split()) <= set(names)


@pytest.mark.parametrize("name", THINGS)
def test_public_things_are_documented(name):
    thing = THINGS[name]
    text = inspect.getdoc(thing) or ""
    first = text.split("\n\n")[0].replace("\n", " ")
    assert first.endswith("."), first
    if name.startswith("gattn.data.") and inspect.isclass(thing):
        # A dataclass of results needs no example, because its docstring describes the fields.
        return
    if name.startswith("gattn.data."):
        # Examples that download a data set are not run, so they are literal blocks.
        assert ">>>" in text or "::\n" in text
    else:
        assert "Example:" in text
        assert ">>>" in text
    init = thing.__init__ if inspect.isclass(thing) else thing
    if not inspect.isfunction(init):
        return
    for parameter in list(inspect.signature(init).parameters.values()):
        if parameter.name != "self":
            mark = {parameter.VAR_KEYWORD: "**", parameter.VAR_POSITIONAL: "*"}.get(
                parameter.kind, ""
            )
            assert f"    {mark}{parameter.name}:" in text, f"{name} does not tell of {parameter}"


def test_names_that_users_of_pyg_import_from_nn_exist_or_the_error_names_the_place():
    for name in ("GAT", "AttentiveFP", "Polynormer", "SGFormer"):
        assert getattr(gattn.nn, name) is getattr(gattn.models, name)
    with pytest.raises(AttributeError, match=r"no attribute 'aggr'.* gattn\.nn itself"):
        gattn.nn.aggr  # noqa: B018
