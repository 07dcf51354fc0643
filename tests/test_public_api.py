"""Public names are listed here and documented."""

import importlib
import inspect
from pathlib import Path

import pytest

import gattn

ROOT = Path(gattn.__file__).parent

STUBS = sorted(path.parent.relative_to(ROOT.parent) for path in ROOT.rglob("__init__.pyi"))
PUBLIC = [*(".".join(folder.parts) for folder in STUBS), "gattn.functional"]
"""Packages whose names are public: those with a stub, and the functions of attention."""


def public_things():
    for name in PUBLIC:
        package = importlib.import_module(name)
        for attribute in package.__all__:
            thing = getattr(package, attribute)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield f"{name}.{attribute}", thing


THINGS = dict(public_things())


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_in_dir_and_an_unknown_name_raises_error(name):
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match=f"{name!r} has no attribute 'nothing'"):
        _ = module.nothing


def test_star_import_of_a_package_loads_all_public_names():
    names: dict[str, object] = {}
    exec("from gattn import *", names)
    assert set(gattn.__all__) <= set(names)


@pytest.mark.parametrize("name", THINGS)
def test_every_public_class_and_function_has_a_docstring(name):
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


def test_nn_exports_the_models_and_raises_error_for_the_module_aggr():
    for name in ("GAT", "AttentiveFP", "Polynormer", "SGFormer"):
        assert getattr(gattn.nn, name) is getattr(gattn.models, name)
    with pytest.raises(AttributeError, match=r"no attribute 'aggr'.* gattn\.nn itself"):
        gattn.nn.aggr  # noqa: B018
