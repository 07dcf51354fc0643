"""What importing gattn.data does not load."""

import subprocess
import sys


def test_importing_loads_no_heavy_optional_package():
    # PyG itself loads pandas where that is installed.
    code = """
import sys, torch_geometric.data
before = set(sys.modules)
import gattn.data
print({"rdkit", "lightning", "pandas", "pyarrow", "joblib"} & (set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
