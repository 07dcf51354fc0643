"""Pool of processes that have loaded the molecule models and predict with them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from gattn.apps.molecules.estimators import MoleculeEstimator
from gattn.apps.molecules.loading import load_model
from gattn.apps.runtime.processes import prepare_process
from gattn.apps.serve.errors import RequestError
from gattn.apps.serve.molecules import first_call

P = ParamSpec("P")
T = TypeVar("T")

_MODELS: list[MoleculeEstimator] = []
"""Models in a child process, which loads them once when it starts."""


class ModelPool:
    """Pool that calls functions with a loaded model, in child processes or in a thread.

    Args:
        models: the models, in the order of ``folders``.
        folders: the folders that hold them.
        workers: number of child processes; with 1, a thread of this process is used.
    """

    def __init__(
        self, models: Sequence[MoleculeEstimator], folders: Sequence[Path], workers: int
    ) -> None:
        self.models, self.folders = models, folders
        self.workers = workers if models else 1
        self._executor = self._start()

    async def call(
        self,
        function: Callable[Concatenate[MoleculeEstimator, P], T],
        index: int,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call a function with a loaded model, and return its result.

        Args:
            function: a function of a module; its first parameter is the model.
            index: index of the model.
            *args: further arguments, which are sent to the process.
            **kwargs: further arguments by name.

        Raises:
            RequestError: the process was killed (503); the pool is replaced by new processes.
            Errors of the function are raised as they are.
        """
        loop, executor = asyncio.get_running_loop(), self._executor
        if self.workers == 1:
            task = partial(function, self.models[index], *args, **kwargs)
        else:
            task = partial(_call, function, index, *args, **kwargs)
        try:
            return await loop.run_in_executor(executor, task)
        except BrokenExecutor:
            if executor is self._executor:
                executor.shutdown(wait=False)
                self._executor = self._start()
            raise RequestError(
                503, "a prediction process was killed and is being restarted: repeat the request"
            ) from None

    def warm_up(self) -> None:
        """Start the processes, and wait until one of them has called each model.

        The processes load and call the models at the same time, so the others are ready soon after.

        Raises:
            RuntimeError: a process was killed while it started.
        """
        if self.workers > 1:
            for future in [self._executor.submit(os.getpid) for _ in range(self.workers)]:
                future.result()
        else:
            for model in self.models:
                self._executor.submit(first_call, model).result()

    def close(self) -> None:
        """End the child processes, also those that compute. A thread of this process finishes its
        current call.
        """
        processes = getattr(self._executor, "_processes", {})
        for process in list(processes.values()):
            process.terminate()
        self._executor.shutdown(wait=bool(processes), cancel_futures=True)

    def _start(self) -> Executor:
        """Return the executor that predicts: a thread, or processes, which start with the first
        call and then load the models.
        """
        if self.workers == 1:
            return ThreadPoolExecutor(1, thread_name_prefix="predict")
        limits = [model.max_atoms for model in self.models]
        arguments = self.folders, limits, os.getpid()
        return ProcessPoolExecutor(self.workers, get_context("spawn"), _load, arguments)


def _load(folders: Sequence[Path], max_atoms: Sequence[int], parent: int) -> None:
    """Load the models in a child process into ``_MODELS``, and call each model once. ``max_atoms``
    has the largest size of a molecule for each folder, and ``parent`` is the id of the process
    whose end also ends this one.

    The process ignores interrupts: a terminal sends them to all processes, and the parent ends its
    child processes. Raises RunError if a folder does not contain a readable model.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prepare_process(parent)
    for folder, most in zip(folders, max_atoms):
        model, _ = load_model(folder)
        model.set_params(workers=1, max_atoms=most)
        _MODELS.append(model)
        first_call(model)


def _call(
    function: Callable[Concatenate[MoleculeEstimator, P], T], index: int, *args: P.args,
    **kwargs: P.kwargs,
) -> T:  # fmt: skip
    """Call a function with the model at an index, in the process that has loaded the models."""
    return function(_MODELS[index], *args, **kwargs)
