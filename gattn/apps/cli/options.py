"""Command-line options that are generated from the declared settings."""

from __future__ import annotations

import functools
import glob
import inspect
import shutil
import sys
import tempfile
import typing
from collections.abc import Callable, Collection
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer import Argument, Option

from gattn.apps.cli.help import HelpAll
from gattn.apps.fitting.settings import Setting, check_value, declared
from gattn.apps.molecules.pretrained import resolve
from gattn.apps.run.model_files import check_model_files
from gattn.apps.run.text import TEMPORARY

PathOrText = TypeVar("PathOrText", Path, str, list[str])

Run = Annotated[Path, Argument(metavar="RUN", help="Folder of a trained model, written by train.")]
ConfigFile = Annotated[
    Path | None,
    Option(
        help="TOML file of settings, such as the config.toml of another run. Options on the "
        "command line override the file."
    ),
]


def read_stdin(context: typer.Context, value: PathOrText) -> PathOrText:
    """Replace ``-``, a pipe or a device by a temporary file with its content, because a table is
    read several times. The file is removed at the end of the command. Other paths are returned
    unchanged, also those of missing files, which the reader reports.
    """
    if not value:  # No argument was passed.
        return value
    if isinstance(value, list):
        return [read_stdin(context, text) for text in value]
    path = Path(value)
    is_stdin = str(path) == "-"
    if not is_stdin and (not path.exists() or path.is_file() or path.is_dir()):
        return value
    folder = context.with_resource(tempfile.TemporaryDirectory(prefix=TEMPORARY))
    copy = Path(folder) / "the standard input.csv"
    source = nullcontext(sys.stdin.buffer) if is_stdin else path.open("rb")
    with source as stream, copy.open("wb") as file:
        shutil.copyfileobj(stream, file)
    return type(value)(copy)


def read_molecules(context: typer.Context, inputs: list[str]) -> list[str]:
    """Replace arguments that are SMILES by a temporary SMILES file, and ``-`` by the content of the
    standard input.

    Raises:
        RunError: the argument before them is not a trained model.
        ValueError: an argument without the ending of a table is neither a file nor a SMILES, has a
            second SMILES after a blank or plus, where a name may be, or the arguments are of both
            kinds.
    """
    check_model_files(resolve(context.params["run"]))
    texts = [text for text in inputs if not _is_path(text)]
    if not texts:
        return read_stdin(context, inputs)
    # RDKit takes a third of a second, which other commands do not need.
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        for text in texts:
            if Chem.MolFromSmiles(text) is None:
                raise ValueError(f"{text!r} is not a file, and RDKit cannot read it as a SMILES")
            if any(map(Chem.MolFromSmiles, text.replace(" + ", " ").split()[1:2])):
                raise ValueError(f"{text!r} has two SMILES: each argument must be one molecule")
    if len(texts) < len(inputs):
        raise ValueError(f"inputs must be files or SMILES; got both, for example {texts[0]!r}")
    folder = context.with_resource(tempfile.TemporaryDirectory(prefix=TEMPORARY))
    path = Path(folder) / "the list of SMILES.smi"
    path.write_text("".join(f"{text}\n" for text in texts), "utf-8")
    return [str(path)]


def _is_path(text: str) -> bool:
    """Return True if an argument is a file, a folder, a stream, a pattern of existing files, or has
    the ending of a table.
    """
    # NumPy, which this module imports, is not needed for --help.
    from gattn.apps.tables.formats import format_of

    path = Path(text)
    return text == "-" or path.exists() or bool(format_of(path)) or any(glob.iglob(text))


METAVARS = {int: "INTEGER", float: "FLOAT"}
"""Descriptions of the values of options, as Click writes them."""


def with_settings(
    *kinds: type,
    only: Collection[str] = (),
    without: Collection[str] = (),
    as_trained: Collection[str] = (),
    common: Collection[str] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds options to a command, one for each setting of the given
    dataclasses.

    The command receives a dictionary ``settings`` with the checked and converted values of the
    options that the user passed, and no other options.

    Args:
        kinds: the dataclasses that declare the settings.
        only: names of the settings to add; all if empty. Settings with the name of a parameter of
            the command are not added.
        without: names of settings that have no option.
        as_trained: names of the settings whose default is the value with which the model was
            trained.
        common: names of the settings that ``--help`` shows; all if empty. ``--help-all`` shows the
            others, too.
    """
    owners = {
        name: kind
        for kind in kinds
        for name in declared(kind)
        if (not only or name in only) and name not in without
    }

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        """Return a function with the arguments of the command and the options, which calls the
        command.
        """
        signature = inspect.signature(command)
        hints = typing.get_type_hints(command, include_extras=True)
        fixed = [
            parameter.replace(annotation=hints[name])
            for name, parameter in signature.parameters.items()
            if name != "settings"
        ]
        names = [name for name in owners if name not in signature.parameters]
        options = [
            _option(declared(owners[name])[name], name in as_trained, not common or name in common)
            for name in names
        ]
        if common:
            options.append(_keyword("help_all", False, HelpAll))
        parameters = [*fixed, *options]

        @functools.wraps(command)
        def wrapper(**arguments: Any) -> None:
            """Call the command with its arguments, and with the options that the user passed as
            ``settings``. Raises SettingsError for a value that a setting does not accept.
            """
            settings = {
                name: check_value(owners[name], name, arguments[name], strict=False)
                for name in names
                if arguments[name] not in (None, [])
            }
            command(**{p.name: arguments[p.name] for p in fixed}, settings=settings)

        vars(wrapper)["__signature__"] = inspect.Signature(
            [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
        )
        wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
        return wrapper

    return decorate


def _option(setting: Setting, as_trained: bool, common: bool) -> inspect.Parameter:
    """Create the parameter of one option. Its default is None; the help text contains the setting's
    default, or "as in training" if ``as_trained`` is True. A ``common`` option belongs to no panel.
    """
    hint = setting.hint
    kinds = [hint, *typing.get_args(hint)]
    # Typer passes texts, because the errors of check_value name the value.
    if any(typing.get_origin(kind) is tuple for kind in kinds):
        text: Any = list[str]
    else:
        text = bool if bool in kinds else str
    default = "as in training" if as_trained else setting.default_text
    choices = [str(c) for kind in kinds for c in typing.get_args(kind) if isinstance(c, str)]
    option = Option(
        *([setting.flag] if setting.flag else []),
        help=f"{setting.description} [default: {default}]",
        show_default=False,
        metavar=f"[{'|'.join(choices)}]" if choices else METAVARS.get(hint),
        rich_help_panel=None if common else setting.panel,
    )
    return _keyword(setting.name, None, Annotated[text | None, option])


def _keyword(name: str, default: object, hint: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
