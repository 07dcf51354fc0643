"""Build the C++ kernels under AddressSanitizer and UBSan, and run tests on them.

    python .ci/sanitize.py [pytest arguments]        tests/ops where there are none

The build is in build/sanitize, beside the installed one. An error that a sanitizer reports ends the
run.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "sanitize"

RUN = """
import importlib.util, sys
name = "gattn.kernels.cpu._kernels"
spec = importlib.util.spec_from_file_location(name, sys.argv.pop(1))
module = sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from gattn.kernels import cpu
assert cpu._kernels is module, "the tests would run on the installed kernels"
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def main(arguments: list[str]) -> int:
    """Build the kernels in ``BUILD`` and run pytest, with these arguments, with the sanitizers'
    libraries preloaded; return its exit status. Raises CalledProcessError if the build fails.
    """
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(
        ["cmake", "-G", "Ninja", "-S", ROOT / "gattn" / "kernels" / "cpu", "-B", BUILD,
         "-DCMAKE_BUILD_TYPE=Release", "-DGATTN_SANITIZE=address,undefined",
         f"-DPython_EXECUTABLE={sys.executable}"],
        check=True, env=environment,
    )  # fmt: skip
    subprocess.run(["cmake", "--build", BUILD], check=True, env=environment)
    compiler = os.environ.get("CXX", "c++")
    libraries = [
        subprocess.run(
            [compiler, f"-print-file-name=lib{name}.so"], check=True, capture_output=True, text=True
        ).stdout.strip()
        # Libstdc++ must be loaded before the sanitizer can intercept C++ exceptions.
        for name in ("asan", "ubsan", "stdc++")
    ]
    environment |= {
        "LD_PRELOAD": " ".join(libraries),
        # Leaks are ignored, because Python and torch do not free all memory. Checks of duplicate
        # definitions are off, because other libraries contain some.
        "ASAN_OPTIONS": "detect_leaks=0:detect_odr_violation=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "OMP_NUM_THREADS": "2",
    }
    (extension,) = BUILD.glob("_kernels*.so")
    command = [sys.executable, "-c", RUN, str(extension), "-q", "-x", "-p", "no:cacheprovider"]
    # If a sanitizer ends the process, pytest's default capture=fd would discard its report.
    command += ["--capture=sys"]
    # The sanitizers change the memory use of a process, so tests of memory use are skipped.
    command += ["-o", "timeout=0", "--ignore", "tests/ops/test_memory.py"]
    command += arguments or ["tests/ops"]
    return subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
