"""Settings go through TOML, and a wrong key is named with what was wanted and what came."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gattn.training.settings import SettingsError, from_table, read_toml, to_table, write_toml
from gattn.training.types import LoopSettings


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
    folder: Path | None = None
    shuffle: bool = True


RUN = Run("a.csv", Model(16, 0.5, "deep"), ("x", "y"), (0.5, 0.5), 3, Path("out"), False)


@pytest.mark.parametrize("run", [RUN, Run("b.csv")])
def test_what_is_written_is_read(tmp_path, run) -> None:
    path = tmp_path / "config.toml"
    write_toml(path, run)
    assert read_toml(Run, path) == run


@given(
    text=st.text(st.characters(exclude_categories=["Cs"])),
    number=st.floats(allow_nan=False, allow_infinity=False),
    count=st.integers(-(2**62), 2**62),
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=3),
)
def test_any_text_and_number(tmp_path_factory, text, number, count, texts) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    run = Run(text, Model(count, number), tuple(texts))
    write_toml(path, run)
    assert read_toml(Run, path) == run


def test_a_person_may_write_it(tmp_path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('# mine\ndata = "a.csv"\ntargets = ["x"]\n\n[model]\nrate = 1 # whole\n')
    run = read_toml(Run, path)
    assert run == Run("a.csv", Model(rate=1.0), ("x",))
    assert isinstance(run.model.rate, float)


def test_tables_come_last() -> None:
    assert list(to_table(RUN))[-1] == "model"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "data is missing"),
        ({"data": 3}, "data must be a text; got 3"),
        ({"data": "a", "epoch": 3}, "there is no setting epoch; there are data, model, targets, "),
        ({"data": "a", "model": {"width": "8"}}, "model.width must be a whole number; got '8'"),
        ({"data": "a", "model": {"width": True}}, "model.width must be a whole number; got True"),
        ({"data": "a", "model": {"width": 8.0}}, "model.width must be a whole number; got 8.0"),
        ({"data": "a", "model": {"rate": "x"}}, "model.rate must be a number; got 'x'"),
        ({"data": "a", "model": {"kind": "x"}}, "model.kind must be one of 'plain', 'deep'; got"),
        ({"data": "a", "model": {"depth": 1}}, "there is no setting model.depth; there are width"),
        ({"data": "a", "model": 1}, "model must be a table; got 1"),
        ({"data": "a", "targets": "x"}, "targets must be a list; got 'x'"),
        ({"data": "a", "targets": ["x", 1]}, "targets[1] must be a text; got 1"),
        ({"data": "a", "parts": [1.0]}, "parts must hold 2 values; got [1.0]"),
        ({"data": "a", "limit": "x"}, "limit must be a whole number; got 'x'"),
        ({"data": "a", "shuffle": 1}, "shuffle must be true or false; got 1"),
    ],
)
def test_a_wrong_key_is_named(table, message) -> None:
    with pytest.raises(SettingsError) as caught:
        from_table(Run, table)
    assert str(caught.value).startswith(message)


def test_the_file_is_named(tmp_path) -> None:
    path = tmp_path / "config.toml"
    for content, message in (
        (b"data = [", "is no TOML"),
        (b"data = \xff", "is no TOML"),
        (b"data = 3\n", r"config\.toml: data must be a text; got 3"),
    ):
        path.write_bytes(content)
        with pytest.raises(SettingsError, match=message):
            read_toml(Run, path)
    with pytest.raises(FileNotFoundError):
        read_toml(Run, tmp_path / "nowhere.toml")


def test_a_value_out_of_its_range_is_named_with_the_file(tmp_path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("epochs = 0\n")
    with pytest.raises(SettingsError, match=r"config\.toml: epochs must be at least 1; got 0"):
        read_toml(LoopSettings, path)
    for name, value in (("warmup", 1.0), ("average", 1.0), ("learning_rate", 0.0), ("seed", -1)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            from_table(LoopSettings, {name: value})


def test_a_precision_that_a_cpu_has_not_is_refused() -> None:
    LoopSettings(precision="16-mixed", accelerator="gpu")
    with pytest.raises(ValueError, match="a CPU has bf16-mixed"):
        LoopSettings(precision="16-mixed")


def test_every_setting_of_the_loop_is_told_of() -> None:
    for setting in fields(LoopSettings):
        assert f"    {setting.name}:" in LoopSettings.__doc__
