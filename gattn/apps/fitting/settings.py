"""Base of settings: frozen dataclasses that declare a type, a range and a help text for each
setting.

A field is ``name: Annotated[type, Meta(gt=0)] = default``, where ``Meta`` is a class of msgspec,
and the docstring below the field is its help text. Validation, TOML files, the options of commands,
the parameters of estimators and the tables of the documentation are derived from it. This module
imports no package except msgspec, so that commands can reject an argument before PyTorch is
imported; tomlkit is imported when a file is read.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import os
import textwrap
import typing
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from gattn.files import replace_files


def check_fraction(name: str, value: float) -> None:
    """Raise ValueError unless a value is above 0 and below 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name} must be above 0 and below 1; got {value}")


NOUNS = {"IntType": "whole number", "FloatType": "number", "StrType": "string"}
LIMITS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


@functools.cache
def field_types(kind: type) -> dict[str, Any]:
    """Return the annotations of the fields of a dataclass by name."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def without_meta(hint: Any) -> tuple[Any, Meta | None]:
    """Return the type in an annotation, and its ``Meta``, or None if it has none."""
    if typing.get_origin(hint) is Annotated:
        return hint.__origin__, next(m for m in hint.__metadata__ if isinstance(m, Meta))
    return hint, None


def default_text(default: object) -> str:
    """Return a default value as text for tables and help texts."""
    if isinstance(default, bool):
        return "on" if default else "off"
    return "none" if default in (None, "", ()) else str(default)


def expected_values(hint: Any) -> str:
    """Describe the values that a type accepts, for an error message."""
    plain = without_meta(hint)[0]
    if choices := _choices(plain):
        return f"one of {', '.join(map(repr, choices))}"
    described = msgspec.inspect.type_info(hint)
    while isinstance(described, msgspec.inspect.Metadata):
        described = described.type
    if isinstance(described, msgspec.inspect.UnionType):
        kinds = (t for t in described.types if not isinstance(t, msgspec.inspect.NoneType))
        return " or ".join(map(_scalar_values, kinds))
    return _scalar_values(described)


def _choices(hint: Any) -> tuple[Any, ...]:
    """Return the values of a Literal type, or of a union of a Literal and None; an empty tuple
    for other types.
    """
    if typing.get_origin(hint) is Literal:
        return typing.get_args(hint)
    return next(filter(None, map(_choices, typing.get_args(hint))), ())


def _scalar_values(described: Any) -> str:
    """Describe the values that a msgspec type allows, for example "a number at least 0"."""
    kind = type(described).__name__
    if kind == "BoolType":
        return "true or false"
    if kind in ("VarTupleType", "ListType"):
        return f"a list of {NOUNS[type(described.item_type).__name__]}s"
    if kind == "TupleType":
        count, noun = len(described.item_types), NOUNS[type(described.item_types[0]).__name__]
        return f"a list of {count} {noun}s"
    limits = [
        f"{word} {getattr(described, key):g}"
        if abs(getattr(described, key)) < 1e6
        else f"{word} {getattr(described, key)}"
        for key, word in LIMITS.items()
        if getattr(described, key, None) is not None
    ]
    comma = ", " if kind == "IntType" else " "
    return f"a {NOUNS[kind]}" + (comma + " and ".join(limits) if limits else "")


S = TypeVar("S")
Kind = TypeVar("Kind", bound=type)
LARGEST_SEED = 2**31 - 1
"""Largest seed of a run. Ensembles and repeated runs add small integers to the seed, and
scikit-learn only accepts seeds below 2**32.
"""


class SettingsError(ValueError):
    """Raised if a setting is unknown, out of range or of a wrong type; the message names the
    setting.
    """


@dataclasses.dataclass(frozen=True)
class Setting:
    """Declaration of one setting.

    Attributes:
        name: the name of the field.
        hint: the type of the setting, without the ``Annotated`` around it.
        default: the default value, or None if the setting has no default.
        description: the help text.
        default_text: text of the default value.
        panel: the heading under which the help and the documentation list the setting.
        expected: text of the accepted values, for error messages.
        flag: names of a pair of command-line flags, for example ``--directed/--undirected``;
            empty if the option has no such pair.
    """

    name: str
    hint: Any
    default: Any
    description: str
    default_text: str
    panel: str
    expected: str
    flag: str = ""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Base class of frozen dataclasses that check their values when they are created."""

    panel: ClassVar[str] = "Data and run"

    def __post_init__(self) -> None:
        """Convert each value to the type of its field and check the settings. Raises SettingsError
        for a value that does not fit.
        """
        for name, hint in field_types(type(self)).items():
            object.__setattr__(self, name, _converted(hint, getattr(self, name), name))
        self.check()

    def check(self) -> None:
        """Check settings that depend on each other; subclasses override this method.

        Raises:
            ValueError: two settings contradict each other; the message names both.
        """


def document(kind: Kind) -> Kind:
    """Replace ``{settings}`` in the docstring of a dataclass by the help texts of its fields.

    Example:
        >>> @document
        ... @dataclasses.dataclass(frozen=True)
        ... class Loop(Settings):
        ...     '''Args:
        ...     {settings}'''
        ...     epochs: Annotated[int, Meta(ge=1, description="Passes over the data.")] = 60
        >>> print(Loop.__doc__)
        Args:
            epochs: Passes over the data. Default: 60.
        >>> Loop(epochs=0)
        Traceback (most recent call last):
        gattn.apps.fitting.settings.SettingsError: epochs must be a whole number, at least 1; got 0
    """
    fill_docstring(kind, kind)
    return kind


def fill_docstring(owner: type, kind: type) -> None:
    """Replace ``{settings}`` in the docstring of a class by the settings of a dataclass."""
    text = owner.__doc__ or ""
    for line in text.splitlines():
        if line.strip() == "{settings}":
            indent = line[: len(line) - len(line.lstrip())]
            entries = [
                textwrap.fill(
                    f"{setting.name}: {setting.description} Default: {setting.default_text}.",
                    100,
                    initial_indent=indent,
                    subsequent_indent=indent + 4 * " ",
                    break_long_words=False,
                    break_on_hyphens=False,
                )
                for setting in declared(kind).values()
            ]
            text = text.replace(line, "\n".join(entries))
    owner.__doc__ = text


@functools.cache
def declared(kind: type) -> dict[str, Setting]:
    """Return the declarations of the settings in a dataclass by name, in the order of its fields;
    nested dataclasses are left out. The dictionary is cached, so callers must not change it. Raises
    OSError if the source of the dataclass cannot be read.
    """
    settings = {}
    for field in dataclasses.fields(kind):
        hint, meta = without_meta(field_types(kind)[field.name])
        if dataclasses.is_dataclass(hint):
            continue
        default = None if field.default is dataclasses.MISSING else field.default
        owners = [c for c in kind.__mro__ if field.name in vars(c).get("__annotations__", {})]
        texts = (_docstrings(owner).get(field.name, "") for owner in owners)
        extra = (meta and meta.extra) or {}
        settings[field.name] = Setting(
            name=field.name,
            hint=hint,
            default=default,
            description=(meta and meta.description) or next(filter(None, texts), ""),
            default_text=extra.get("default") or default_text(default),
            panel=getattr(owners[-1], "panel", Settings.panel),
            expected=expected_values(field_types(kind)[field.name]),
            flag=extra.get("flag", ""),
        )
    return settings


@functools.cache
def _docstrings(kind: type) -> dict[str, str]:
    """Return the docstring below each field that a dataclass itself declares, as one line. Raises
    OSError if the source of the dataclass cannot be read.
    """
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in itertools.pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def check_value(kind: type, name: str, value: object, *, strict: bool = True) -> Any:
    """Convert one value to the type of a setting, and check it.

    Args:
        kind: the dataclass that declares the setting.
        name: name of the setting.
        value: the value.
        strict: False to accept a text that is a number, as on a command line.

    Raises:
        SettingsError: the value is out of range or of the wrong type.
    """
    return _converted(field_types(kind)[name], value, name, strict=strict)


def read_toml(
    kind: type[S],
    path: str | os.PathLike[str],
    changes: Mapping[str, object] = MappingProxyType({}),
) -> S:
    """Read settings from a TOML file.

    Args:
        kind: the dataclass.
        path: a file that a user or :func:`write_toml` wrote.
        changes: values of settings without a default, which the file need not contain.

    Returns:
        The settings; a setting that is not in the file has its default value.

    Raises:
        SettingsError: the file is not TOML, or one of its keys is unknown, missing, out of range
            or of the wrong type.
        FileNotFoundError: the file does not exist.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        table = tomlkit.parse(Path(path).read_text("utf-8")).unwrap()
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not a TOML file: {error}") from None
    try:
        return from_table(kind, {**changes, **table})
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None


def write_toml(path: str | os.PathLike[str], settings: object) -> None:
    """Write settings to a TOML file, with one table for each nested dataclass.

    Args:
        path: the file, which is replaced atomically.
        settings: a dataclass of numbers, texts, bools, tuples of them, and such dataclasses. A
            setting that is None is left out, so None must be its default.

    Raises:
        OSError: the file cannot be written.

    Example:
        >>> import tempfile
        >>> @dataclasses.dataclass(frozen=True)
        ... class Loop:
        ...     epochs: int = 60
        ...     split: str | None = None
        >>> path = Path(tempfile.mkdtemp()) / "config.toml"
        >>> write_toml(path, Loop(epochs=5))
        >>> print(path.read_text(), end="")
        epochs = 5
        >>> read_toml(Loop, path)
        Loop(epochs=5, split=None)
        >>> from_table(Loop, {"epochs": "many"})
        Traceback (most recent call last):
        gattn.apps.fitting.settings.SettingsError: epochs must be a whole number; got 'many'
    """
    import tomlkit

    replace_files({Path(path): tomlkit.dumps(to_table(settings)).encode()})


def to_table(settings: object) -> dict[str, object]:
    """Convert a dataclass to the values of a TOML table: dicts and lists; None values are left out.

    Args:
        settings: the dataclass.

    Returns:
        Values by name in the order of the fields, with nested tables last, as TOML needs them.

    Raises:
        TypeError: the settings are not a dataclass.
    """
    if not dataclasses.is_dataclass(settings):
        raise TypeError(f"settings must be a dataclass; got {settings!r}")
    values = msgspec.to_builtins(settings)
    values = {name: value for name, value in values.items() if value is not None}
    for name, value in values.items():
        if isinstance(value, dict):
            values[name] = to_table(getattr(settings, name))
    return dict(sorted(values.items(), key=lambda item: isinstance(item[1], dict)))


def from_table(kind: type[S], table: Mapping[str, object], *, within: str = "") -> S:
    """Create settings from the values of a TOML table.

    Args:
        kind: the dataclass.
        table: values by name; a missing setting has its default value.
        within: prefix of the settings' names in error messages, for a nested table.

    Returns:
        The settings.

    Raises:
        SettingsError: a name is unknown or missing, or a value is out of range or of the wrong
            type.
        TypeError: ``kind`` is not a dataclass.
    """
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise TypeError(f"settings must be a dataclass; got {kind!r}")
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    for name in table:
        if name not in fields:
            raise SettingsError(
                f"unknown setting {within}{name}; the settings are {', '.join(fields)}"
            )
    for name, field in fields.items():
        required = field.default is field.default_factory is dataclasses.MISSING
        if required and name not in table:
            raise SettingsError(f"{within}{name} is missing")
    hints = field_types(kind)
    return kind(**{name: _converted(hints[name], table[name], within + name) for name in table})


def updated(run: S, changes: Mapping[str, object]) -> S:
    """Return a copy of a run's settings with new values for some of them, given by name.

    Args:
        run: a dataclass whose field ``model`` is another dataclass.
        changes: new values by name; ``model`` is the field of that name within the model.

    Returns:
        The settings, checked again.

    Raises:
        ValueError: a setting is unknown or out of its range.
        TypeError: ``run`` is not a dataclass.
    """
    if not dataclasses.is_dataclass(run) or isinstance(run, type):
        raise TypeError(f"settings must be a dataclass; got {run!r}")
    model: Any = getattr(run, "model")  # noqa: B009
    names = {field.name for field in dataclasses.fields(model)}
    inner = {name: value for name, value in changes.items() if name in names}
    outer = {name: value for name, value in changes.items() if name not in names}
    unknown = outer.keys() - {field.name for field in dataclasses.fields(run)}
    if unknown:
        raise SettingsError(f"unknown setting {', '.join(sorted(unknown))}")
    return dataclasses.replace(run, **outer, model=dataclasses.replace(model, **inner))


def settings_of(kind: type[S], holder: object) -> S:
    """Create settings from those attributes of an estimator that have the same names.

    Args:
        kind: the dataclass of the settings.
        holder: the estimator, which has an attribute for each field. NumPy scalars, which a grid
            search may set, are converted to Python numbers.

    Returns:
        The settings.

    Raises:
        ValueError: a value is out of its range or of the wrong type.
    """
    values = {name: getattr(holder, name) for name in field_types(kind)}
    return kind(**{n: v.item() if getattr(v, "ndim", None) == 0 else v for n, v in values.items()})


def _converted(hint: Any, value: object, name: str, *, strict: bool = True) -> Any:
    """Convert a value to the type of a setting; a bool is not accepted as a number. Raises
    SettingsError, which names the setting, if the type does not fit. Unless ``strict`` is True,
    texts are read as numbers.
    """
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        if isinstance(value, hint):
            return value
        if not isinstance(value, Mapping):
            raise SettingsError(f"{name} must be a table; got {value!r}")
        return from_table(hint, value, within=f"{name}.")
    try:
        return msgspec.convert(value, hint, strict=strict)
    except msgspec.ValidationError:
        raise SettingsError(f"{name} must be {expected_values(hint)}; got {value!r}") from None


Accelerator: TypeAlias = Literal["auto", "cpu", "gpu"]
Seed: TypeAlias = Annotated[
    int,
    Meta(
        ge=0,
        le=LARGEST_SEED,
        description="Seed of the random numbers for the split, the initial weights, the order of "
        "batches and dropout. Repeat a training with other seeds to see how much results "
        "depend on chance.",
    ),
]
Threads: TypeAlias = Annotated[
    int,
    Meta(
        ge=0,
        description="Number of threads of each operator of PyTorch or gattn. With 0, the "
        "number depends on the size of the batch or network, because small batches and "
        "networks are faster with one thread. If several processes run in parallel, each "
        "process has one thread. The number of threads changes results only by rounding "
        "errors. Set it to 1 if other programs run on the machine.",
        extra={"default": "0, chosen by the size"},
    ),
]
TaskChoice: TypeAlias = Annotated[
    Literal["auto", "regression", "classification"],
    Meta(
        description="Type of the labels: regression for numbers, classification for classes. "
        "With auto, the type is inferred from the labels."
    ),
]
TargetsTask: TypeAlias = Literal["auto", "regression", "classification", "multiclass"]
Coverage: TypeAlias = Annotated[
    float,
    Meta(
        gt=0,
        lt=1,
        description="Fraction of the true values that should lie in their prediction intervals "
        "(for classes: in their sets of predicted classes), for example 0.9 for 90 %. Higher "
        "values give wider intervals.",
    ),
]


@document
@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings(Settings):
    """Settings of the training loop that a user can choose.

    Attributes:
        {settings}

    Raises:
        ValueError: a value is out of its range; the message names the setting.
    """

    panel: ClassVar[str] = "The network and its training"

    epochs: Annotated[int, Meta(ge=1)] = 60
    """Maximum number of epochs, which are passes over the training part. Raise it if the validation
    loss still falls in the last epochs.
    """
    batch_size: Annotated[int, Meta(ge=1)] = 64
    """Number of training examples in one step; at most 32 with fewer than
    600 training molecules. Lower it if memory runs out.
    """
    learning_rate: Annotated[float, Meta(gt=0)] = 1e-3
    """Highest learning rate of AdamW. The rate rises to this value in the first tenth of the steps
    and falls afterwards. Lower it if the training loss jumps.
    """
    weight_decay: Annotated[float, Meta(ge=0)] = 1e-4
    """Strength of AdamW's weight decay, which keeps the weights small. Raise it if the network
    overfits.
    """
    seed: Seed = 0
    accelerator: Accelerator = "cpu"
    """Device on which the networks are trained. With auto, this is a GPU if there is one, and the
    CPU otherwise.
    """
