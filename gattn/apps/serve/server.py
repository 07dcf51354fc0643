"""The command ``gattn serve``, which loads runs and answers requests until it is interrupted."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from gattn.apps.molecules.pretrained import resolve
from gattn.apps.run.model_io import RunError, check_files, read_model
from gattn.apps.run.run_folder import training_folder
from gattn.apps.run.train import Log, no_log
from gattn.apps.serve.app import Server
from gattn.apps.serve.links import open_links
from gattn.apps.serve.molecules import open_molecules
from gattn.apps.serve.nodes import open_nodes
from gattn.apps.serve.served import SEALED_FILES, ServedRun
from gattn.apps.serve.settings import ServeSettings
from gattn.files import reason

NODES, LINKS = ("NodeClassifier", "NodeRegressor"), ("LinkPredictor",)
"""Names of the estimators of nodes and of links, as they occur in a model card."""
BACKLOG = 2048
"""Maximum number of connections that wait to be accepted by the server."""


def open_runs(
    folders: Sequence[Path], settings: ServeSettings, log: Log = no_log
) -> list[ServedRun]:
    """Load runs of molecules, nodes and links. A run that cannot be loaded is left out.

    The name of a run is that of its folder. If several folders have the same name, a number is
    added. While a run is loaded, the working directory of the process is the one of its training.

    Args:
        folders: folders of trained models, or names of models of gattn.
        settings: settings of the server.
        log: called with the reason of each run that is left out, except the error that is raised.

    Raises:
        RunError: there is no folder; or no run can be loaded, and the first folder holds no model
            that can be served.
        GraphError: no run can be loaded, and the graph of the first one cannot be read.
        OSError: no run can be loaded, and a file of the first one cannot be read.
    """
    runs: list[ServedRun] = []
    faults: list[Exception] = []
    for folder in (resolve(folder).resolve() for folder in folders):
        base = name = folder.name
        number = 2
        while name in {run.name for run in runs}:
            name, number = f"{base}-{number}", number + 1
        try:
            with training_folder(folder):
                runs.append(_open(name, folder, settings))
        except (OSError, ValueError) as error:
            faults.append(error)
    for error in faults[0 if runs else 1 :]:
        log(f"A run is not served: {reason(error) if isinstance(error, OSError) else error}")
    if not runs:
        raise faults[0] if faults else RunError("expected at least one folder of a trained model")
    return runs


def _open(name: str, folder: Path, settings: ServeSettings) -> ServedRun:
    """Load a run of any kind. Raises RunError if a file of the run was changed or cannot be read.
    Raises GraphError or FileNotFoundError if its graph cannot be read.
    """
    _, card = read_model(folder)
    check_files(folder, *(file for file in SEALED_FILES if (folder / file).is_file()))
    if card.get("estimator") in NODES:
        return open_nodes(name, folder, settings.threads)
    if card.get("estimator") in LINKS:
        return open_links(name, folder, settings.threads)
    return open_molecules(name, folder, settings.max_atoms, settings.threads)


def serve(folders: Sequence[Path], settings: ServeSettings, log: Log = no_log) -> None:
    """Load runs and answer requests until the process is interrupted.

    Args:
        folders: folders of trained models.
        settings: settings of the server.
        log: called with each line that the user should read.

    Raises:
        RunError, GraphError: no run can be loaded; see :func:`open_runs`.
        OSError: the address cannot be used, or a file of the first run cannot be read.
        RuntimeError: a process that predicts was killed while it started.
    """
    with _listen(settings) as listening:
        log(f"Loading {', '.join(map(str, folders))}")
        runs = open_runs(folders, settings, log)
        for run in runs:
            for note in run.notes:
                log(note if note.startswith(f"{run.name} ") else f"{run.name}: {note}")
        server = Server(runs, settings)
        server.pool.warm_up()
        listening.listen(BACKLOG)
        port = listening.getsockname()[1]
        here, others = addresses(settings, port)
        log(f"{here} serves {', '.join(run.name for run in runs)}; Ctrl-C stops it")
        if settings.token:
            token, hint = settings.token, ""
            if settings.token_file:
                token, hint = "TOKEN", f" with the content of {settings.token_file} for TOKEN"
            pages = " or ".join(f"{address}?token={token}" for address in others)
            log(f"Open {pages}{hint}; programs send Authorization: Bearer {token}")
        config = uvicorn.Config(
            server.application(), log_level="warning", access_log=False, server_header=False,
            proxy_headers=False, ws="none", timeout_keep_alive=30, timeout_graceful_shutdown=1,
            backlog=BACKLOG,
        )  # fmt: skip
        uvicorn.Server(config).run(sockets=[listening])


def addresses(settings: ServeSettings, port: int) -> tuple[str, list[str]]:
    """Return the address of the page for this machine, and those that users open: the ones of
    proxies, or the one for other machines.

    If the server listens on all addresses of this machine, such as 0.0.0.0, other machines need its
    host name.

    Args:
        settings: settings of the server.
        port: the port on which it listens.

    >>> addresses(ServeSettings(), 8000)
    ('http://127.0.0.1:8000/', ['http://127.0.0.1:8000/'])
    """
    here = others = f"[{settings.host}]" if ":" in settings.host else settings.host
    if settings.is_every_address:
        here, others = "[::1]" if ":" in settings.host else "127.0.0.1", socket.gethostname()
    proxies = [f"https://{name}/" for name in settings.allowed_host]
    return f"http://{here}:{port}/", proxies or [f"http://{others}:{port}/"]


def _listen(settings: ServeSettings) -> socket.socket:
    """Return a socket that is bound to the address but does not listen yet. It is bound before the
    models are loaded, so that an invalid address is reported immediately. Raises OSError if the
    address cannot be used.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise OSError(_address_fault(settings, error)) from error
    return listening


def _address_fault(settings: ServeSettings, error: OSError) -> str:
    """Return a sentence that says why an address cannot be used, and what to do."""
    address = f"{settings.host}:{settings.port}"
    if error.errno == errno.EADDRINUSE:
        return f"{address} is used by another program: choose another --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{settings.host} is not an address of this machine: choose another --host"
    if error.errno == errno.EACCES:
        return f"only an administrator can use {address}: choose a --port from 1024 on"
    return f"{address} cannot be used ({reason(error)}): choose another --host or --port"
