"""Tests of the wheel and the source distribution, also on machines without a compiler."""

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import gattn
from benchmarks.install import first_output, install, make_environment, run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
SOURCES = (".cpp", ".h", "CMakeLists.txt")


@pytest.fixture(scope="module")
def pure_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel that is built where the named compilers do not exist."""
    folder = tmp_path_factory.mktemp("wheel")
    missing = str(folder / "no-such-compiler")
    run(
        sys.executable, "-m", "pip", "wheel", ROOT, "--wheel-dir", folder, "--no-deps",
        "--no-index", "--no-build-isolation", f"--config-settings=build-dir={folder / 'build'}",
        CC=missing, CXX=missing,
    )  # fmt: skip
    (wheel,) = folder.glob("gattn-*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel() -> Path:
    """Return the wheel that is built from the extensions that are already compiled here."""
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler here")
    folder = ROOT / "build" / "wheels"
    run(
        sys.executable, "-m", "pip", "wheel", ROOT, "--wheel-dir", folder, "--no-deps",
        "--no-index", "--no-build-isolation",
    )  # fmt: skip
    (wheel,) = folder.glob(f"gattn-{gattn.__version__}-cp*.whl")
    return wheel


def _installed(wheel: Path, home: Path) -> tuple[dict[str, Any], Path]:
    """Install a wheel in a new environment; return its first output and its site-packages."""
    python, site = make_environment(home / "clean")
    install(wheel, python)
    return first_output(python, home), site


@pytest.mark.slow
def test_a_wheel_runs_its_kernels_without_a_compiler(wheel: Path, tmp_path: Path) -> None:
    output, site = _installed(wheel, tmp_path)
    assert Path(output["file"]).is_relative_to(site), output["file"]
    assert output["info"]["cpu"].startswith("available")
    assert output["warnings"] == []
    # The kernel sums in another order than the reference, so the results differ slightly.
    assert 0 < output["apart"] < 1e-5


@pytest.mark.slow
def test_without_a_compiler_a_layer_runs_on_the_reference(pure_wheel: Path, tmp_path: Path) -> None:
    output, site = _installed(pure_wheel, tmp_path)
    assert Path(output["file"]).is_relative_to(site), output["file"]
    assert output["info"]["cpu"].startswith("the C++ extension is not built")
    assert output["info"]["reference"] == "available"
    (warning,) = output["warnings"]
    assert "runs on its plain PyTorch reference" in warning
    assert "the C++ extension is not built" in warning
    assert output["beside_pyg"] < 1e-5
    assert "cora" in output["datasets"]


@pytest.mark.slow
def test_wheel_carries_what_is_needed_and_no_sources(pure_wheel: Path) -> None:
    names = zipfile.ZipFile(pure_wheel).namelist()
    assert pure_wheel.name.endswith("-none-any.whl")
    registry = "gattn/data/datasets/registry.toml"
    assert {"gattn/py.typed", registry, "gattn/functional.py"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    editor = "gattn/apps/serve/static/jsme/"
    assert {f"{editor}jsme.nocache.js", f"{editor}license.txt"} <= set(names)
    assert [name for name in names if name.endswith(SOURCES)] == []
    tops = {name.split("/")[0] for name in names}
    assert tops == {"gattn", f"gattn-{gattn.__version__}.dist-info"}


def test_source_distribution_carries_the_sources(tmp_path: Path) -> None:
    code = "import sys, scikit_build_core.build as b; print(b.build_sdist(sys.argv[1]))"
    name = run(sys.executable, "-c", code, tmp_path, PWD=str(ROOT)).splitlines()[-1]
    with tarfile.open(tmp_path / name) as archive:
        names = archive.getnames()
    top = name.removesuffix(".tar.gz")
    expected = ["pyproject.toml", "LICENSE", "README.md", "datasets/registry.toml"]
    expected += [str(path.relative_to(ROOT)) for path in (ROOT / "gattn").rglob("*.cpp")]
    assert {f"{top}/{path}" for path in expected} <= set(names)
    assert [file for file in names if file.endswith((".so", ".pyc"))] == []


def test_version_is_the_installed_one_and_stands_once() -> None:
    assert importlib.metadata.version("gattn") == gattn.__version__
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert settings["project"]["dynamic"] == ["version"]
    assert "version" not in yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))


def test_what_is_required_is_imported_and_extras_are_not_required() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {re.split(r"[^\w-]", line)[0] for line in settings["dependencies"]}
    assert names == {"torch", "torch-geometric", "numpy", "tomli"}
    extras = settings["optional-dependencies"]
    assert set(extras) == {
        "draw", "export", "gpu", "molecules", "networkx", "nodes", "partition", "ray",
        "scipy", "serve", "tune",
    }  # fmt: skip
    source = "".join(path.read_text("utf-8") for path in (ROOT / "gattn").rglob("*.py"))
    for extra in ("molecules", "networkx"):
        assert f'pip install "gattn[{extra}]"' in source


ABSENT = [
    ("rdkit", "gattn.data.smiles_to_data('C')", "molecules"),
    ("rdkit", "gattn.data.load_molecules('esol', 'nowhere')", "molecules"),
    ("networkx", "gattn.graphs.to_networkx(gattn.graphs.causal([2]))", "networkx"),
    ("networkx", "__import__('gattn.draw').draw.draw_network([[0], [1]])", "draw"),
    ("matplotlib", "__import__('gattn.draw').draw.draw_matrix([[0], [0]], [1.0])", "draw"),
]
# Each case runs in a forked process, because importing torch again is slow.
WITHOUT = """
import json, os, sys, traceback
import torch_geometric.nn
for package, use in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        sys.modules[package] = None
        try:
            import gattn
            eval(use)
        except BaseException:
            print(json.dumps(traceback.format_exc()), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_what_is_absent_is_named_in_a_line() -> None:
    uses = json.dumps([(package, use) for package, use, _ in ABSENT])
    lines = run(sys.executable, "-c", WITHOUT, uses, PWD=str(ROOT)).splitlines()
    for (_, use, extra), line in zip(ABSENT, lines, strict=True):
        text = json.loads(line)
        last = text.splitlines()[-1]
        assert last.startswith("ImportError: "), use
        assert last.endswith(f'pip install "gattn[{extra}]"'), use
        assert "another exception" not in text, use


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_targets_that_are_there(path: Path) -> None:
    jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    assert jobs
    for name, job in jobs.items():
        if "uses" in job:
            assert (ROOT / job["uses"]).is_file()
            continue
        steps = job["steps"]
        assert any("run" in step for step in steps) or name == "publish", name
        for line in (step["run"] for step in steps if "run" in step):
            target = re.fullmatch(r"make ([a-z]+)\b.*", line)
            assert target, f"{name}: {line!r} is no target of the Makefile"
            assert target[1] in TARGETS, f"{name}: {line}"


def test_every_check_is_run_before_a_release() -> None:
    ci, release = (
        yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text("utf-8"))
        for name in ("ci.yml", "release.yml")
    )
    expected = {"lint", "test", "versions", "sanitize", "docs", "wheels", "sdist"}
    assert expected <= set(ci["jobs"])
    assert "workflow_call" in ci[True]  # the key "on" of a workflow: YAML reads it as true
    assert set(release["jobs"]["publish"]["needs"]) == {"check", "version"}
    assert release["jobs"]["check"]["uses"] == "./.github/workflows/ci.yml"


def test_the_urls_of_the_project_are_those_of_one_place() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert cited["repository-code"] == urls["Source"]
    assert cited["url"] == urls["Documentation"]
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8").split("nav:")[0])
    assert site["site_url"] == urls["Documentation"] + "/"
    assert site["repo_url"] == urls["Source"]
    readme_urls = re.findall(
        r"https://[^)\s]*gattn[^)\s]*", (ROOT / "README.md").read_text("utf-8")
    )
    assert set(readme_urls) <= set(urls.values())
    template = yaml.safe_load(
        (ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml").read_text("utf-8")
    )
    assert all(link["url"].startswith(urls["Source"]) for link in template["contact_links"])


def test_a_tag_is_that_of_the_version() -> None:
    run("make", "tagged", f"TAG=v{gattn.__version__}", PWD=str(ROOT))
    done = subprocess.run(
        ["make", "tagged", "TAG=v99.0"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "v99.0 is not the version" in done.stdout


@pytest.mark.parametrize("page", [".ci/run", "README.md", "CONTRIBUTING.md", "docs/index.md"])
def test_every_target_that_is_told_of_is_there(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    targets = set(re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE))
    assert targets <= TARGETS


def test_every_target_is_told_of_and_is_no_file() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    assert set(re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)[1].split()) == TARGETS
    helped = set(re.findall(r'@echo "make ([a-z]+)', text))
    assert helped == TARGETS - {"help"}
    page = (ROOT / "docs" / "contributing" / "commands.md").read_text("utf-8")
    listed = re.findall(r"^\| `make ([a-z]+)", page, re.M)
    assert set(listed) == TARGETS - {"help", "clean"}
    quick = re.search(r"^QUICK := (.*(?:\\\n.*)*)", text, re.MULTILINE)[1].split()
    assert quick
    for path in quick:
        assert path == "\\" or (ROOT / path).is_file(), path


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
def test_kernels_are_built_where_a_compiler_is() -> None:
    assert gattn.backend_info()["cpu"].startswith("available"), gattn.backend_info()["cpu"]
