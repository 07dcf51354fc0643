"""Training run of any type, from reading the data to a folder with the model, the metrics and
the report.
"""

from __future__ import annotations

from typing import Any, TypeVar

from gattn.apps.report.report import write_report
from gattn.apps.report.run_report import write_plots
from gattn.apps.run.model_io import write_model
from gattn.apps.run.product import Parts, Product, Report, TrainedRun
from gattn.apps.run.run_folder import (
    CHECKPOINTS,
    file_hash,
    finish_run,
    finished_metrics,
    lock_folder,
    start_run,
)
from gattn.apps.runtime.processes import is_first_process
from gattn.files import write_rows

Data = TypeVar("Data")
AnyParts = TypeVar("AnyParts", bound=Parts)
Model = TypeVar("Model")
Run = TypeVar("Run", bound=TrainedRun)


def train_run(product: Product[Data, AnyParts, Model, Run]) -> dict[str, Any]:
    """Run all stages of a training run in order: load, split, fit, evaluate, report, write.

    If the folder already contains this run and the run is finished, nothing is changed. If
    torchrun started several processes, only the first one writes files.

    Args:
        product: the stages that depend on the product, with the settings and the folder.

    Returns:
        The content of ``metrics.json``.

    Raises:
        RunError: the folder contains another run, or other files.
        ValueError: the settings or the data are not suitable for training.
        OSError: a file cannot be read or written.
    """
    with lock_folder(product.out):
        return _train(product)


def _train(product: Product[Data, AnyParts, Model, Run]) -> dict[str, Any]:
    out = product.out
    metrics = finished_metrics(out, product.settings, product.inputs)
    if metrics is not None:
        product.log(f"{out} already contains this run, and it is finished: nothing to do")
        return metrics
    data = product.load()
    parts = product.split(data)
    if is_first_process():
        start_run(out, product.settings, parts.record, parts.left_out)
    model = product.fit(data, parts)
    run = product.evaluate(data, parts, model)
    if is_first_process():
        report = product.report(run)
        _write_run(product, run, report)
    return run.metrics


def _write_run(product: Product[Data, AnyParts, Model, Run], run: Run, report: Report) -> None:
    """Write the files of a run; the metrics are written last, because they mark the run as
    finished.
    """
    out = product.out
    tensors, card = run.estimator.state()
    card |= {**product.card(run), "split": run.split.protocol, "metrics": run.metrics}
    for name, rows in product.tables(run).items():
        write_rows(out / name, rows)
    content, figures = report
    write_plots(out / "plots", figures)
    write_report(out, content)
    files = {
        path.relative_to(out).as_posix(): file_hash(path)
        for path in sorted(out.rglob("*"))
        if path.is_file() and CHECKPOINTS not in path.parts
    }
    write_model(out, tensors, card, files)
    finish_run(out, run.metrics)
