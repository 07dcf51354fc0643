"""Help of every command: option names are complete, and the common options fit on a screen."""

import re

import pytest

from tests.apps.cli.commands import runner

COMMANDS = {
    "molecules": ("check", "train", "predict", "explain", "evaluate", "compare"),
    "nodes": ("train", "predict", "explain", "compare"),
    "links": ("train", "predict", "explain"),
}
EVERY = [("serve",), *((group, command) for group, names in COMMANDS.items() for command in names)]


@pytest.fixture
def help_of(monkeypatch, capsys):
    def text(*words: str) -> str:
        code, output = runner(monkeypatch, capsys)(*words)
        assert code == 0
        return output

    monkeypatch.setenv("COLUMNS", "80")
    return text


@pytest.mark.parametrize("command", EVERY, ids=" ".join)
def test_help_has_at_most_80_columns_and_60_lines(help_of, command):
    lines = help_of(*command, "--help").splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 60
    assert lines == help_of(*command, "-h").splitlines()
    assert not any("…" in line for line in lines)


def test_help_of_nodes_explain_offers_no_table_per_node_type(help_of):
    assert "TYPE=FILE" in help_of("nodes", "predict", "--help")
    assert "TYPE=FILE" not in help_of("nodes", "explain", "--help")


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
        (("links", "predict"), {"--out", "--top", "--nodes"}),
    ],
)
def test_help_shows_common_options_and_help_all_shows_all_options(help_of, command, expected):
    common, full = (help_of(*command, option) for option in ("--help", "--help-all"))
    assert "[default: ]" not in common
    names = r"^  (?:-\w, )?(--[\w-]+)"
    options = [set(re.findall(names, text, re.MULTILINE)) for text in (common, full)]
    assert expected <= options[0] < options[1]
