"""Page on the migration from Chemprop: every flag has a row, and every named option exists."""

import re
from pathlib import Path

import typer.main

from gattn.apps.cli.molecules import app

GUIDE = Path(__file__).parents[1] / "docs" / "guide" / "chemprop.md"
# The options of `chemprop train --help` and `chemprop predict --help` of Chemprop 2.3.1.
TRAIN = """
accelerator activation activation-args add-h agg aggregation aggregation-norm alpha
atom-constrainer-ffn-hidden-dim atom-constrainer-ffn-num-layers atom-descriptors-path
atom-features-path atom-ffn-hidden-dim atom-ffn-num-layers atom-messages
atom-multiclass-num-classes atom-target-columns atom-task-weights batch-norm batch-size
bond-constrainer-ffn-hidden-dim bond-constrainer-ffn-num-layers bond-descriptors-path
bond-features-path bond-ffn-hidden-dim bond-ffn-num-layers bond-multiclass-num-classes
bond-target-columns bond-task-weights checkpoint class-balance config-path constraints-path
constraints-to-targets data-path data-seed depth descriptors-columns descriptors-path devices
dropout ensemble-size epochs eps evidential-regularization features-generators ffn-hidden-dim
ffn-num-layers final-lr freeze-encoder from-foundation frzn-ffn-layers grad-clip ignore-columns
ignore-stereo init-lr keep-h log logfile loss-function max-lr message-bias message-hidden-dim
metric metrics min-delta model-frzn mol-target-columns molecule-featurizers mpn-shared
multi-hot-atom-featurizer-mode multiclass-num-classes no-atom-descriptor-scaling
no-atom-feature-scaling no-bond-descriptor-scaling no-bond-feature-scaling no-cache
no-descriptor-scaling no-header-row num-folds num-replicates num-workers output-dir patience
pytorch-seed reaction-columns reaction-mode remove-checkpoints reorder-atoms rxn-mode
save-data-splits save-dir save-smiles-splits show-individual-scores smiles-columns split
split-key-molecule split-sizes split-type splits-column splits-file target-columns task-type
task-weights tracking-metric undirected use-cuikmolmaker-featurization v-kl warmup-epochs
weight-column
"""
PREDICT = """
cal-atom-descriptors-path cal-atom-features-path cal-bond-descriptors-path
cal-bond-features-path cal-constraints-path cal-descriptors-path cal-path
calibration-interval-percentile calibration-method callback callback-params conformal-alpha
drop-extra-columns dropout-sampling-size evaluation-method evaluation-methods model-path
model-paths output preds-path test-path uncertainty-dropout-p uncertainty-method
"""
LOSSES = """
mse mae rmse bounded-mse bounded-mae bounded-rmse mve evidential quantile-point pinball-point bce
ce binary-mcc multiclass-mcc dirichlet sid earthmovers wasserstein quantile pinball
nlogprob_enrichment
"""
OPTION = re.compile(r"--[a-z][a-z0-9-]*")


def rows() -> list[list[str]]:
    """Return the cells of the two tables of Chemprop's options."""
    text = GUIDE.read_text("utf-8")
    begin = text.index("| `chemprop train` (2.3)")
    end = text.index("The models of the two libraries differ")
    lines = [line for line in text[begin:end].splitlines() if line.startswith("|")]
    return [line.strip("|").split("|") for line in lines if not line.startswith("|--")]


def options() -> set[str]:
    """Return the options of all commands of gattn molecules."""
    commands = typer.main.get_command(app).commands.values()  # type: ignore[attr-defined]
    return {name for command in commands for each in command.params for name in each.opts}


def test_every_flag_and_loss_of_chemprop_has_a_row_of_two_cells() -> None:
    assert {len(row) for row in rows()} == {2}
    named = {option for theirs, _ in rows() for option in OPTION.findall(theirs)}
    assert {f"--{flag}" for flag in (TRAIN + PREDICT).split()} - named == set()
    missing = [
        loss
        for loss in LOSSES.split()
        if not any(re.search(rf"(-l |, |or |\) )`?{loss}`", theirs) for theirs, _ in rows())
    ]
    assert missing == []


def test_every_option_of_gattn_on_the_page_exists() -> None:
    named = {option for _, ours in rows() for option in OPTION.findall(ours)}
    assert named - options() == set()
