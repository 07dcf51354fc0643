"""Help of the commands: each option with its description below it, the common options first."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from shutil import get_terminal_size
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

WIDTH = 100
"""Maximum width of the help; longer lines are harder to read."""
ALL = "--help-all"
NAMES = {"help_option_names": ["-h", "--help"]}
SHORT = {"out": "-o", "smiles": "-s", "label": "-l", "nodes": "-n", "port": "-p"}
"""Short forms of common options."""


class _Command(TyperCommand):
    """Command whose ``--help`` shows the common options, and ``--help-all`` every option.

    An option is common if it belongs to no panel (``rich_help_panel``). The section Args of the
    command's docstring describes the arguments and options without a help text. The help does not
    contain the section Raises. Options with a name in :data:`SHORT` get its short form.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        text = (self.help or "").partition("\n\nRaises:\n")[0]
        self.help, _, section = text.partition("\n\nArgs:\n")
        _, *entries = re.split(r"^    (\w+): ", section, flags=re.MULTILINE)
        texts = dict(zip(entries[::2], entries[1::2]))
        for param in self.params:
            if param.name in SHORT:
                param.opts.append(SHORT[param.name])
            param.help = param.help or " ".join(texts.get(str(param.name), "").split())  # pyright: ignore[reportAttributeAccessIssue]

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:
        """Write the usage, the description and the common options, each with the first sentence of
        its help text.
        """
        formatter.write("\n".join(_lines(self, ctx, every=False)) + "\n")

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:
        """Return the arguments as in the help, without braces and a second ellipsis."""
        arguments = filter(_is_argument, self.get_params(ctx))
        return [self.options_metavar or "", *map(_title, arguments)]


class _Group(TyperGroup):
    """Group whose help lists its commands in the same style."""

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:
        """Write the commands, each with its description."""
        lines = [*_lines(self, ctx, every=True), "", "Commands:"]
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            lines += [f"  {name}", *_wrapped(command.help.split("\n\n")[0], 6)]
        formatter.write("\n".join(lines) + "\n")


class CommandGroup(typer.Typer):
    """Group of commands with this help; ``-h`` is the short form of ``--help``."""

    def __init__(self, text: str) -> None:
        super().__init__(
            cls=_Group, help=text, no_args_is_help=True, add_completion=False,
            pretty_exceptions_enable=False, rich_markup_mode=None, context_settings=NAMES,
        )  # fmt: skip

    def command(
        self, name: str | None = None, **options: Any
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Return the decorator of a command, as ``Typer.command`` does."""
        return super().command(name, cls=_Command, context_settings=NAMES, **options)


def _show_all(ctx: typer.Context, value: bool) -> None:
    """Print the help with all options and end the command, if the option was passed."""
    if value:
        print("\n".join(_lines(ctx.command, ctx, every=True)))
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option(
        ALL, callback=_show_all, is_eager=True, help="Show all options in full, and exit."
    ),
]


def _lines(command: Any, ctx: typer.Context, *, every: bool) -> Iterator[str]:
    """Yield the lines of a command's help, with all options if ``every`` is True, and with the
    common ones in short if it is False. A command without further panels has its options in full.
    """
    params = command.get_params(ctx)
    yield command.get_usage(ctx)
    yield ""
    for paragraph in (command.help or "").split("\n\n"):
        yield from _wrapped(paragraph, 0)
    panels = dict.fromkeys(["Arguments", "Options", *map(_panel, params)])
    short = not every and len(panels) > 2
    for panel in ("Arguments", "Options") if short else panels:
        rows = [param for param in params if _panel(param) == panel]
        if rows:
            yield from ("", f"{panel}:")
        for param in rows:
            yield f"  {_title(param)}"
            yield from _wrapped(_description(param, short=short), 6)
    if short:
        yield from ("", f"{ALL} shows all {len(params)} arguments and options in full.")


def _is_argument(param: Any) -> bool:
    return param.param_type_name == "argument"


def _panel(param: Any) -> str:
    return param.rich_help_panel or ("Arguments" if _is_argument(param) else "Options")


def _title(param: Any) -> str:
    """Return the names of an option and the type of its value, as they are typed; for an argument,
    the name of its value.
    """
    value = param.metavar or param.name.upper()
    if _is_argument(param):
        return value
    names = ", ".join(sorted(param.opts, key=len))
    if getattr(param, "is_flag", False):
        return " / ".join([names, *param.secondary_opts])
    return f"{names} {value}"


def _description(param: Any, *, short: bool) -> str:
    """Return the help text of an option with its default; only the first sentence if ``short``."""
    text, default = re.fullmatch(r"(.*?)( \[default: .*\])?", param.help or "", re.DOTALL).groups()  # pyright: ignore[reportOptionalMemberAccess]
    if short:
        # A sentence ends at a period before a capital letter.
        text = re.split(r"(?<=[a-z)])\. (?=[A-Z])", text)[0].rstrip(".") + "."
    value = param.default
    if (
        not default
        and value != ""
        and isinstance(value, (int, float, str))
        and not isinstance(value, bool)
    ):
        default = f" [default: {value}]"
    return text + (default or "") + (" [required]" if param.required else "")


def _wrapped(text: str, indent: int) -> list[str]:
    """Return the lines of a text at the width of the terminal, each with an indent."""
    return textwrap.wrap(
        " ".join(text.split()), min(get_terminal_size().columns, WIDTH),
        initial_indent=" " * indent, subsequent_indent=" " * indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
