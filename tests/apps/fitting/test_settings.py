"""Settings are saved as TOML; a wrong key gives an error with the expected and actual value."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, dataclass, field, fields
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from gattn.apps.fitting.settings import (
    SettingsError,
    declared,
    document,
    from_table,
    read_toml,
    settings_of,
    write_toml,
)
from gattn.apps.fitting.types import LoopSettings
from gattn.apps.links.runs.config import LinkRunSettings
from gattn.apps.links.settings import LinkParameters
from gattn.apps.molecules import MoleculeClassifier, MoleculeRegressor
from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.molecules.settings import MoleculeParameters
from gattn.apps.nodes import NodeClassifier, NodeRegressor
from gattn.apps.nodes.runs.config import NodeRunSettings
from gattn.apps.nodes.settings import NodeParameters


@dataclass(frozen=True)
class Model:
    width: int = 8
    rate: float = 1e-3
    kind: Literal["plain", "deep"] = "plain"


@dataclass(frozen=True)
class Run:
    data: str
    model: Model = field(default_factory=Model)
    targets: tuple[str, ...] = ()
    parts: tuple[float, float] = (0.8, 0.2)
    limit: int | None = None
    shuffle: bool = True


RUN = Run("a.csv", Model(16, 0.5, "deep"), ("x", "y"), (0.5, 0.5), 3, False)


@pytest.mark.parametrize("run", [RUN, Run("b.csv")])
def test_settings_survive_a_file(tmp_path, run) -> None:
    path = tmp_path / "config.toml"
    write_toml(path, run)
    assert read_toml(Run, path) == run


@given(
    text=st.text(st.characters(exclude_categories=["Cs"])),
    number=st.floats(allow_nan=False, allow_infinity=False),
    count=st.integers(-(2**62), 2**62),
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=3),
)
def test_any_text_and_number_survives_a_file(tmp_path_factory, text, number, count, texts) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    run = Run(text, Model(count, number), tuple(texts))
    write_toml(path, run)
    assert read_toml(Run, path) == run


def test_file_may_have_comments_and_whole_numbers(tmp_path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('# mine\ndata = "a.csv"\ntargets = ["x"]\n\n[model]\nrate = 1 # whole\n')
    run = read_toml(Run, path)
    assert run == Run("a.csv", Model(rate=1.0), ("x",))
    assert isinstance(run.model.rate, float)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "data is missing"),
        ({"data": 3}, "data must be a string; got 3"),
        (
            {"data": "a", "epoch": 3},
            "unknown setting epoch; the settings are data, model, targets, ",
        ),
        ({"data": "a", "model": {"width": "8"}}, "model.width must be a whole number; got '8'"),
        ({"data": "a", "model": {"width": True}}, "model.width must be a whole number; got True"),
        ({"data": "a", "model": {"width": 8.0}}, "model.width must be a whole number; got 8.0"),
        ({"data": "a", "model": {"rate": "x"}}, "model.rate must be a number; got 'x'"),
        ({"data": "a", "model": {"kind": "x"}}, "model.kind must be one of 'plain', 'deep'; got"),
        (
            {"data": "a", "model": {"depth": 1}},
            "unknown setting model.depth; the settings are width",
        ),
        ({"data": "a", "model": 1}, "model must be a table; got 1"),
        ({"data": "a", "targets": "x"}, "targets must be a list of strings; got 'x'"),
        ({"data": "a", "targets": ["x", 1]}, "targets must be a list of strings; got ['x', 1]"),
        ({"data": "a", "parts": [1.0]}, "parts must be a list of 2 numbers; got [1.0]"),
        ({"data": "a", "limit": "x"}, "limit must be a whole number; got 'x'"),
        ({"data": "a", "shuffle": 1}, "shuffle must be true or false; got 1"),
    ],
)
def test_wrong_value_is_named_with_the_expected_type(table, message) -> None:
    with pytest.raises(SettingsError) as caught:
        from_table(Run, table)
    assert str(caught.value).startswith(message)


def test_error_names_the_file(tmp_path) -> None:
    path = tmp_path / "config.toml"
    for content, message in (
        (b"data = [", "is not a TOML file"),
        (b"data = \xff", "is not a TOML file"),
        (b"data = 3\n", r"config\.toml: data must be a string; got 3"),
    ):
        path.write_bytes(content)
        with pytest.raises(SettingsError, match=message):
            read_toml(Run, path)
    with pytest.raises(FileNotFoundError):
        read_toml(Run, tmp_path / "nowhere.toml")


def test_a_value_out_of_its_range_is_named_with_the_file(tmp_path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("epochs = 0\n")
    with pytest.raises(
        SettingsError, match=r"config\.toml: epochs must be a .*, at least 1; got 0"
    ):
        read_toml(LoopSettings, path)
    for name, value in (("warmup", 1.0), ("average", 1.0), ("learning_rate", 0.0), ("seed", -1)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            from_table(LoopSettings, {name: value})


def test_a_precision_that_a_cpu_has_not_is_refused() -> None:
    LoopSettings(precision="16-mixed", accelerator="gpu")
    with pytest.raises(ValueError, match="on a CPU use bf16-mixed"):
        LoopSettings(precision="16-mixed")


KINDS = (
    *(LoopSettings, MoleculeParameters, RunSettings, NodeParameters, NodeRunSettings),
    *(LinkParameters, LinkRunSettings),
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_is_described_and_its_default_is_in_range(kind) -> None:
    settings = declared(kind)
    nested = [f.name for f in fields(kind) if f.default_factory is not MISSING]
    assert [*settings, *nested] == [f.name for f in fields(kind)]
    for name, setting in settings.items():
        assert setting.description.endswith("."), name
        assert len(setting.description.split()) > 2, name
    document(kind)
    assert "{settings}" not in (kind.__doc__ or "")


def test_scalars_of_numpy_become_python_numbers() -> None:
    parameters = MoleculeParameters()
    holder = MoleculeRegressor(epochs=np.int64(3), dropout=np.float32(0.5))
    settings = settings_of(MoleculeParameters, holder)
    assert (type(settings.epochs), type(settings.dropout)) == (int, float)
    assert (settings.epochs, settings.dropout, settings.width) == (3, 0.5, parameters.width)


@pytest.mark.parametrize(
    ("estimator", "kind"),
    [
        (MoleculeRegressor, MoleculeParameters),
        (MoleculeClassifier, MoleculeParameters),
        (NodeClassifier, NodeParameters),
        (NodeRegressor, NodeParameters),
    ],
)
def test_estimators_have_the_declared_parameters(estimator, kind) -> None:
    parameters = inspect.signature(estimator).parameters
    assert {name: p.default for name, p in parameters.items()} == {
        f.name: f.default for f in fields(kind)
    }
    model = estimator(seed=5)
    assert clone(model).get_params() == {**estimator().get_params(), "seed": 5}
    assert model.set_params(width=7).width == 7
    with pytest.raises(TypeError, match="epoch"):
        estimator(epoch=3)
