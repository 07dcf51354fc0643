"""Write the pictures of the page on attention.

    python -m docs.tools.howto

runs the Python blocks of docs/howto/weights.md and writes the pictures that they draw to
docs/howto/images.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parents[1] / "howto" / "weights.md"
IMAGES = PAGE.parent / "images"


def main() -> None:
    """Run the page in an empty folder with a fixed seed, and copy its PNG files to ``IMAGES``.
    Raises CalledProcessError if the page raises an error.
    """
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    seeded = "\n".join([f"import sys; sys.path.insert(0, {str(PAGE.parents[2])!r})",
                        "import torch; torch.manual_seed(0)", *blocks])  # fmt: skip
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", seeded], cwd=folder, check=True)
        for path in sorted(Path(folder).glob("*.png")):
            (IMAGES / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()
