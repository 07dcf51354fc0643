"""Tests of the wheel and the source distribution, also on machines without a compiler."""

import importlib.metadata
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

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


@pytest.mark.slow
def test_wheel_without_a_compiler_has_the_reference_backend(tmp_path: Path) -> None:
    missing = str(tmp_path / "no-such-compiler")
    run(
        sys.executable, "-m", "pip", "wheel", ROOT, "--wheel-dir", tmp_path, "--no-deps",
        "--no-index", "--no-build-isolation", f"--config-settings=build-dir={tmp_path / 'build'}",
        CC=missing, CXX=missing,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("gattn-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert wheel.name.endswith("-none-any.whl")
    registry = "gattn/data/datasets/registry.toml"
    assert {"gattn/py.typed", registry, "gattn/functional.py"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    editor = "gattn/apps/serve/static/openchemlib/"
    assert {f"{editor}openchemlib.js", f"{editor}LICENSE.txt"} <= set(names)
    assert [name for name in names if name.endswith(SOURCES)] == []
    tops = {name.split("/")[0] for name in names}
    assert tops == {"gattn", f"gattn-{gattn.__version__}.dist-info"}

    python, site = make_environment(tmp_path / "clean")
    install(wheel, python)
    output = first_output(python, tmp_path)
    assert Path(output["file"]).is_relative_to(site), output["file"]
    assert output["info"]["reference"] == "available"
    (warning,) = output["warnings"]
    assert "runs on its plain PyTorch reference" in warning
    assert "the C++ extension is not built" in warning
    assert output["beside_pyg"] < 1e-5
    assert "cora" in output["datasets"]


@pytest.mark.slow
def test_source_distribution_contains_sources_and_no_binaries(tmp_path: Path) -> None:
    code = "import sys, scikit_build_core.build as b; print(b.build_sdist(sys.argv[1]))"
    name = run(sys.executable, "-c", code, tmp_path, PWD=str(ROOT)).splitlines()[-1]
    with tarfile.open(tmp_path / name) as archive:
        names = archive.getnames()
    top = name.removesuffix(".tar.gz")
    expected = ["pyproject.toml", "LICENSE", "README.md", "datasets/registry.toml"]
    expected += [str(path.relative_to(ROOT)) for path in (ROOT / "gattn").rglob("*.cpp")]
    assert {f"{top}/{path}" for path in expected} <= set(names)
    assert [file for file in names if file.endswith((".so", ".pyc"))] == []


def test_metadata_has_the_version_of_the_package() -> None:
    assert importlib.metadata.version("gattn") == gattn.__version__
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert settings["project"]["dynamic"] == ["version"]
    assert "version" not in yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))


ABSENT = [
    ("gattn.data.smiles_to_data('C')", "molecules"),
    ("gattn.data.load_molecules('esol', 'nowhere')", "molecules"),
    ("__import__('gattn.draw').draw.draw_network([[0], [1]])", "draw"),
]
WITHOUT = """
import json, sys, traceback
for package in ("rdkit", "networkx", "matplotlib"):
    sys.modules[package] = None
import gattn
for use in json.loads(sys.argv[1]):
    try:
        eval(use)
    except ImportError:
        print(json.dumps(traceback.format_exc()))
"""


def test_missing_package_raises_error_that_names_its_extra() -> None:
    uses = json.dumps([use for use, _ in ABSENT])
    lines = run(sys.executable, "-c", WITHOUT, uses, PWD=str(ROOT)).splitlines()
    for (use, extra), line in zip(ABSENT, lines, strict=True):
        text = json.loads(line)
        last = text.splitlines()[-1]
        assert last.startswith("ImportError: "), use
        assert last.endswith(f'pip install "gattn[{extra}]"'), use
        assert "another exception" not in text, use


def test_release_tag_other_than_the_version_raises_error() -> None:
    run("make", "tagged", f"TAG=v{gattn.__version__}", PWD=str(ROOT))
    done = subprocess.run(
        ["make", "tagged", "TAG=v99.0"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "v99.0 is not the version" in done.stdout


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
def test_kernels_are_available_on_a_machine_with_a_compiler() -> None:
    assert gattn.backend_info()["cpu"].startswith("available"), gattn.backend_info()["cpu"]
