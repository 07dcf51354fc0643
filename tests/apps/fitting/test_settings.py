"""Settings are saved as TOML; a wrong key gives an error with the expected and actual value."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, dataclass, field, fields
from typing import Literal

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


@given(
    text=st.text(st.characters(exclude_categories=["Cs"])),
    number=st.floats(allow_nan=False, allow_infinity=False),
    count=st.integers(-(2**62), 2**62),
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=3),
)
def test_settings_of_any_text_or_number_are_equal_after_writing_and_reading(
    tmp_path_factory, text, number, count, texts
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    run = Run(text, Model(count, number), tuple(texts))
    write_toml(path, run)
    assert read_toml(Run, path) == run


def test_missing_unknown_or_invalid_setting_raises_error_that_names_what_is_expected() -> None:
    for table, message in (
        ({}, "data is missing"),
        ({"data": "a", "epoch": 3}, "unknown setting epoch; the settings are data, model,"),
        ({"data": "a", "model": {"width": "8"}}, "model.width must be a whole number; got '8'"),
        ({"data": "a", "model": {"width": 8.0}}, "model.width must be a whole number; got 8.0"),
        ({"data": "a", "model": {"kind": "x"}}, "model.kind must be one of 'plain', 'deep'; got"),
        ({"data": "a", "model": {"depth": 1}}, "unknown setting model.depth; the settings are"),
        ({"data": "a", "targets": ["x", 1]}, "targets must be a list of strings; got ['x', 1]"),
        ({"data": "a", "parts": [1.0]}, "parts must be a list of 2 numbers; got [1.0]"),
        ({"data": "a", "shuffle": 1}, "shuffle must be true or false; got 1"),
    ):
        with pytest.raises(SettingsError) as caught:
            from_table(Run, table)
        assert str(caught.value).startswith(message)


def test_error_about_an_invalid_settings_file_names_the_file(tmp_path) -> None:
    path = tmp_path / "config.toml"
    other = "is not a TOML file"
    wrong = r"config\.toml: data must be a string; got 3"
    for content, message in ((b"data = [", other), (b"data = \xff", other), (b"data = 3\n", wrong)):
        path.write_bytes(content)
        with pytest.raises(SettingsError, match=message):
            read_toml(Run, path)
    with pytest.raises(FileNotFoundError):
        read_toml(Run, tmp_path / "nowhere.toml")


def test_setting_out_of_its_range_raises_error_that_names_the_setting(tmp_path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("epochs = 0\n")
    with pytest.raises(SettingsError, match=r"config\.toml: epochs must be a .*, at least 1"):
        read_toml(LoopSettings, path)
    for name, value in (("warmup", 1.0), ("average", 1.0), ("learning_rate", 0.0), ("seed", -1)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            from_table(LoopSettings, {name: value})


KINDS = (
    *(LoopSettings, MoleculeParameters, RunSettings, NodeParameters, NodeRunSettings),
    *(LinkParameters, LinkRunSettings),
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_has_a_description_of_at_least_three_words(kind) -> None:
    settings = declared(kind)
    nested = [f.name for f in fields(kind) if f.default_factory is not MISSING]
    assert [*settings, *nested] == [f.name for f in fields(kind)]
    for name, setting in settings.items():
        assert setting.description.endswith("."), name
        assert len(setting.description.split()) > 2, name
    document(kind)
    assert "{settings}" not in (kind.__doc__ or "")


def test_estimators_have_the_same_parameters_and_defaults_as_their_settings() -> None:
    for estimator in (MoleculeRegressor, MoleculeClassifier, NodeClassifier, NodeRegressor):
        kind = MoleculeParameters if "Molecule" in estimator.__name__ else NodeParameters
        parameters = inspect.signature(estimator).parameters
        assert {name: p.default for name, p in parameters.items()} == {
            f.name: f.default for f in fields(kind)
        }
        model = estimator(seed=5)
        assert clone(model).get_params() == {**estimator().get_params(), "seed": 5}
        assert model.set_params(width=7).width == 7
        with pytest.raises(TypeError, match="epoch"):
            estimator(epoch=3)
