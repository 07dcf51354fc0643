"""Check the subjects of new commits against the rules in docs/contributing/rules.md.

Usage: python .ci/commits.py [FOLDER]

Checks all commits after BASE except merges. Prints a line for each problem, and exits with 1 if
there is one. In a shallow clone, or in a source tree without git history, there is nothing to
check.
"""

import re
import subprocess
import sys
from pathlib import Path

BASE = "efeb35a4b1460597f9cb30523381ff59ef09dfad"
"""Last commit that is not checked: older subjects do not follow the rules."""

LIMIT = 72
AREA = r"(?:[a-z0-9_.*/-]+|[A-Z]{2,}|Makefile)"
"""Regular expression for an area: a name in lower case, or a file such as README or Makefile."""
SUBJECT = re.compile(rf"(?:{AREA}(?:, {AREA})*: (?P<verb>[a-z][\w-]*)|(?P<first>[A-Z][\w-]*)) \S")
NO_IMPERATIVES = re.compile(
    r"(?:[a-z]{2,}(?:ing|ed)|[a-z]+[^s]s|a|an|the|this|that|it|of|what|how)$"
)
"""Words that are not imperatives, except those listed in IMPERATIVES."""

IMPERATIVES = {
    "bring",
    "embed",
    "feed",
    "focus",
    "need",
    "process",
    "ring",
    "seed",
    "shed",
    "speed",
    "string",
}


def problem(subject: str) -> str:
    """Return the reason why a subject breaks the rules, or an empty text."""
    if len(subject) > LIMIT:
        return f"{len(subject)} characters, at most {LIMIT} are allowed"
    if ";" in subject:
        return "a semicolon joins two changes: make two commits"
    match = SUBJECT.match(subject)
    if match is None:
        return "expected 'area: verb ...' or 'Verb ...'"
    verb = (match["verb"] or match["first"]).lower()
    if verb not in IMPERATIVES and NO_IMPERATIVES.match(verb):
        return f"{verb!r} is not an imperative verb"
    return ""


def git(folder: Path, *arguments: str) -> str | None:
    """Return the output of a git command, or None if it fails or git is not installed."""
    try:
        process = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return process.stdout if process.returncode == 0 else None


def main(folder: Path, base: str = BASE) -> int:
    """Check the commits of a folder after the base commit, print a line for each problem, and
    return the exit status.
    """
    log = git(folder, "log", "--no-merges", "--format=%h %s", f"{base}..HEAD")
    if log is None:
        print("commit subjects: nothing to check, the history has no base commit")
        return 0
    status = 0
    for line in log.splitlines():
        commit, _, subject = line.partition(" ")
        if reason := problem(subject):
            print(f"commit {commit}: {reason}: {subject}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]))
