"""Help of every command: option names are complete, and the common options fit on a screen."""

import re

import pytest

from tests.apps.cli.commands import runner

COMMANDS = {
    "molecules": ("check", "train", "predict", "explain", "evaluate", "compare"),
    "nodes": ("train", "predict", "explain", "embed", "compare"),
    "links": ("train", "predict", "explain"),
}
EVERY = [(group, command) for group, names in COMMANDS.items() for command in names]


@pytest.fixture
def help_of(monkeypatch, capsys):
    def text(group: str, command: str, option: str) -> str:
        code, output = runner(monkeypatch, capsys, group)(command, option)
        assert code == 0
        return output

    monkeypatch.setenv("COLUMNS", "80")
    return text


@pytest.mark.parametrize(("group", "command"), EVERY)
def test_help_fits_into_80_columns(help_of, group, command):
    lines = help_of(group, command, "--help").splitlines()
    assert max(map(len, lines)) <= 80
    assert lines == help_of(group, command, "-h").splitlines()
    assert not any("…" in line for line in lines)


@pytest.mark.parametrize("group", [(), *((group,) for group in COMMANDS)])
def test_help_of_a_group_lists_its_commands(monkeypatch, capsys, group):
    run = runner(monkeypatch, capsys, *group)
    code, text = run("--help")
    assert (code, text) == run("-h")
    names = COMMANDS[group[0]] if group else ("serve", *COMMANDS)
    assert set(names) <= set(re.findall(r"^  ([a-z]+)$", text, re.MULTILINE))
    assert run()[1].rstrip() == text.rstrip()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        *(((group, "train"), {"--out", "--model", "--split"}) for group in COMMANDS),
        (("molecules", "predict"), {"--out", "--smiles", "--coverage"}),
    ],
)
def test_common_options_fit_on_a_screen(help_of, command, expected):
    common, full = (help_of(*command, option) for option in ("--help", "--help-all"))
    assert len(common.splitlines()) <= 60
    assert "[default: ]" not in common
    options = [set(re.findall(r"^  (--[\w-]+)", text, re.MULTILINE)) for text in (common, full)]
    assert expected <= options[0] < options[1]
