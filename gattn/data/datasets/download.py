"""Functions that locate, download and verify the raw files of data sets."""

from __future__ import annotations

import hashlib
import http.client
import importlib.util
import os
import urllib.request
from pathlib import Path

from gattn.data.datasets.registry import DataFile, DatasetRecord
from gattn.files import reason, whole_file

TIMEOUT_SECONDS = 60


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder that contains the data sets.

    Args:
        root: the folder itself. The default is the environment variable ``GATTN_DATA``, or, if it
            is not set, a ``gattn`` folder in the user's cache directory (``XDG_CACHE_HOME`` or
            ``~/.cache``).

    Returns:
        The folder, which may not exist yet.

    >>> data_root("somewhere").name
    'somewhere'
    """
    if root is not None:
        return Path(root).expanduser()
    if os.environ.get("GATTN_DATA"):
        return Path(os.environ["GATTN_DATA"]).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification requires programs to ignore a relative path in this variable.
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "gattn"


def raw_files(
    dataset: DatasetRecord,
    root: str | os.PathLike[str] | None = None,
    *,
    download: bool = True,
) -> dict[str, Path]:
    """Locate a data set's raw files, and download missing ones.

    Args:
        dataset: the registry's record.
        root: see :func:`data_root`. The files may be in ``<root>/planetoid/Cora/raw`` or in
            ``<root>/Cora/raw``, where torch_geometric puts them.
        download: download missing files to the folder of the data set's other files, or to
            ``<root>/planetoid/Cora/raw`` if there are none.

    Returns:
        The path of each file, by file name.

    Raises:
        FileNotFoundError: a file is missing, and ``download`` is False or the data set has no
            address for downloads.
        ValueError: a file has another SHA-256 than in the registry.
        OSError: the download failed.
    """
    folder = _package_folder(dataset) if dataset.package else _folder(dataset, data_root(root))
    paths = {file.name: folder / file.name for file in dataset.files}
    for file in dataset.files:
        path = paths[file.name]
        if not path.is_file():
            if not (download and dataset.url):
                raise FileNotFoundError(_missing(dataset, path))
            try:
                _download(dataset.url + file.name, path, file)
            except OSError as error:
                raise OSError(f"{error}. {_by_hand(dataset)}") from error
        else:
            _verify(path.read_bytes(), file, path, "Delete it to download it again")
    return paths


def _folder(dataset: DatasetRecord, root: Path) -> Path:
    """Return the folder of the registry below ``root``, with or without the first part of its path,
    whichever has more of the files; with the first part if both have the same number.
    """
    full = Path(dataset.folder)
    candidates = [root / full, root / Path(*full.parts[1:])]
    present = [sum((c / file.name).is_file() for file in dataset.files) for c in candidates]
    return candidates[present.index(max(present))]


def _package_folder(dataset: DatasetRecord) -> Path:
    """Return the folder of a data set that another Python package contains. Raises
    FileNotFoundError if the package is not installed.
    """
    spec = importlib.util.find_spec(dataset.package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(
            f"data set {dataset.name!r} lies inside the {dataset.package} package, "
            f"which is not installed"
        )
    return Path(spec.submodule_search_locations[0]) / dataset.folder


def _missing(dataset: DatasetRecord, path: Path) -> str:
    """Return the error message for a missing file: how to install or download the data set."""
    if dataset.package:
        return (
            f"{path} is missing: this build of {dataset.package} comes without its "
            f"{Path(dataset.folder).parts[0]} folder. The wheel on PyPI has it: "
            f"pip install --force-reinstall {dataset.package}"
        )
    return f"{path} is missing. {_by_hand(dataset)}; or use download=True to download them"


def _by_hand(dataset: DatasetRecord) -> str:
    """Return the sentence that explains how to provide the files of a data set without
    a network.
    """
    names = ", ".join(file.name for file in dataset.files)
    return (
        f"Without a network: put the raw files of {dataset.name!r} ({names}) into the folder "
        f"{dataset.folder} of a data folder, and name that folder by root=... or by the "
        f"environment variable GATTN_DATA"
    )


def _verify(content: bytes, file: DataFile, source: object, remedy: str) -> None:
    """Raise ValueError with a remedy unless the content of a source has the registered SHA-256."""
    digest = hashlib.sha256(content).hexdigest()
    if digest != file.sha256:
        raise ValueError(
            f"{source} is not the registered file: its SHA-256 should be {file.sha256} and is "
            f"{digest}. {remedy}"
        )


def _download(url: str, path: Path, file: DataFile) -> None:
    """Download one file, verify it, and write it to ``path``. Raises
    OSError if the download fails, and ValueError if the file is not the registered one.
    """
    content = _read_url(url, file.bytes)
    _verify(content, file, f"the download from {url}", "It was deleted")
    # No folder is created for a download that fails, because it would look like a data set.
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def _read_url(url: str, size: int) -> bytes:
    """Read at most ``size + 1`` bytes from a URL, so that a wrong response cannot fill the memory.
    Raises OSError if the URL cannot be read.
    """
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            return response.read(size + 1)
    except OSError as error:
        raise OSError(f"could not download {url}: {reason(error)}") from error
    except http.client.HTTPException as error:
        raise OSError(f"could not download {url}: {error}") from error
