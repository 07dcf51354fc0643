"""Measurement of a server of a trained model on the loopback address.

    python -m benchmarks.serve RUN                           # 32 clients, 60 seconds
    python -m benchmarks.serve RUN --seconds 10 --clients 8
    python -m benchmarks.serve RUN --requests 10000 --rows 1 # memory while requests are answered

The benchmark starts ``gattn serve RUN`` in another process. Clients send the molecules of a table
(those that the model was validated and tested on) in requests of ``--rows`` rows, each client one
request after the other, for ``--seconds``, or until ``--requests`` have been sent. Prints the rows
per second, compared with ``gattn molecules predict`` on as many rows, the median and the 99th
percentile of the time of a request, the number of answers by status, the time of an explanation
with its picture, and the memory of the server and its processes (the sum of their proportional set
sizes, in which a page that several processes share counts once), before the load and after each
tenth of it. With ``--record``, a JSON line goes to benchmarks/results/serve.jsonl.
"""

from __future__ import annotations

import argparse
import csv
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

from benchmarks.core import record
from benchmarks.core.memory import proportional_size, tree

MODULE = "benchmarks.serve"
EXPLANATIONS = 20
"""Number of explanations that are timed."""


def main(arguments: Sequence[str]) -> None:
    """Start a server, send requests, and print rates, times and memory."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=main.__doc__)
    parser.add_argument("run", type=Path, help="folder of a trained model of molecules")
    parser.add_argument(
        "--clients",
        type=int,
        default=32,
        help="number of clients that send requests at the same time (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        help="duration of the measurement, in seconds (default: %(default)s)",
    )
    parser.add_argument(
        "--requests",
        type=int,
        default=0,
        help="number of requests after which the measurement ends; 0 to end it by the time "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--rows",
        type=int,
        default=16,
        help="number of molecules in each request (default: %(default)s)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=2,
        help="number of processes of the server that predict (default: %(default)s)",
    )
    parser.add_argument(
        "--record", action="store_true", help="append the result to the recorded results"
    )
    options = parser.parse_args(arguments)
    smiles = _molecules(options.run)
    with _server(options.run, options.workers) as (process, port):
        explanations = _explanations(port, smiles)
        memory = [_memory(process)]
        load = Load(port, smiles, options)
        wall = load.run(lambda: memory.append(_memory(process)))
    statuses, seconds = load.statuses, load.times
    rows = options.rows * statuses[200]
    entry: record.Record = {
        "case": f"serve/{options.clients} clients, {options.workers} workers",
        "requests": sum(statuses.values()),
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "rows_per_second": rows / wall,
        "predict_rows_per_second": _predict_rate(
            options.run, smiles, max(rows, 1), options.workers
        ),
        "p50_seconds": statistics.median(seconds),
        "p99_seconds": statistics.quantiles(seconds, n=100)[98],
        "explain_seconds": statistics.median(explanations),
        "memory_mib": [round(size, 1) for size in memory],
    }
    print("\n".join(f"{name}: {value}" for name, value in entry.items()))
    if options.record:
        environment = record.environment(MODULE, list(arguments))
        record.append(record.RESULTS / "serve.jsonl", {**entry, "environment": environment})


def _molecules(run: Path) -> list[str]:
    with (run / "predictions.csv").open(newline="", encoding="utf-8") as file:
        return [row["smiles"] for row in csv.DictReader(file)]


@contextmanager
def _server(run: Path, workers: int) -> Iterator[tuple[int, int]]:
    """Start a server on a free port and stop it at the end.

    A connection waits until the server accepts it, so only its line with the address is awaited.
    """
    command = [sys.executable, "-m", "gattn.cli", "serve", str(run), "--port", "0"]
    command += ["--workers", str(workers)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = next((line for line in process.stderr if line.startswith("http://")), "")
        if not line:
            raise RuntimeError(f"the server ended with code {process.wait()}")
        port = int(line.split(":")[2].split("/")[0])
        yield process.pid, port
    finally:
        process.terminate()
        process.wait()


class Load:
    """Clients that send requests at the same time.

    Args:
        port: port of the server.
        smiles: molecules of the requests.
        options: options of the command.

    Attributes:
        statuses: number of answers by status.
        times: seconds of each request.
    """

    def __init__(self, port: int, smiles: Sequence[str], options: argparse.Namespace) -> None:
        self.port, self.smiles, self.options = port, smiles, options
        self.statuses: Counter[int] = Counter()
        self.times: list[float] = []
        self._start = 0.0

    def run(self, on_tenth: Callable[[], object]) -> float:
        """Send the requests, and return the wall time; ``on_tenth`` is called ten times."""
        clients = range(self.options.clients)
        threads = [threading.Thread(target=self._send, args=(client,)) for client in clients]
        self._start = time.monotonic()
        for thread in threads:
            thread.start()
        tenths = 0
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.05)
            if self._share() >= (tenths + 1) / 10 and tenths < 9:
                on_tenth()
                tenths += 1
        wall = time.monotonic() - self._start
        on_tenth()
        return wall

    def _share(self) -> float:
        """Return the share of the load that has been sent."""
        if self.options.requests:
            return len(self.times) / self.options.requests
        return (time.monotonic() - self._start) / self.options.seconds

    def _send(self, client: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        source = islice(cycle(self.smiles), client, None)
        while self._share() < 1:
            body = json.dumps({"smiles": list(islice(source, self.options.rows))})
            status, needed, _ = _post(connection, "/predict", body)
            self.statuses[status] += 1  # the interpreter's lock makes this single bytecode atomic
            self.times.append(needed)


def _post(connection: http.client.HTTPConnection, path: str, body: str) -> tuple[int, float, bytes]:
    start = time.perf_counter()
    connection.request("POST", path, body, {"content-type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    return answer.status, time.perf_counter() - start, content


def _explanations(port: int, smiles: Sequence[str]) -> list[float]:
    """Return the times of explanations. A first explanation is not timed."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    times = []
    for text in islice(cycle(smiles), EXPLANATIONS + 1):
        status, needed, content = _post(connection, "/explain", json.dumps({"smiles": text}))
        if status != 200:
            raise RuntimeError(
                f"the request for an explanation got the status {status}: {content[:200]!r}"
            )
        times.append(needed)
    return times[1:]


def _predict_rate(run: Path, smiles: Sequence[str], rows: int, workers: int) -> float:
    """Return the rows per second of the command on a table; the time includes the start of the
    command.
    """
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder) / "in.csv", Path(folder) / "out.csv"
        with table.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(
                [["smiles"], *([text] for text in islice(cycle(smiles), rows))]
            )
        command = [sys.executable, "-m", "gattn.cli", "molecules", "predict", str(run), str(table)]
        command += ["--smiles", "smiles", "--out", str(out), "--workers", str(workers)]
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        return rows / (time.perf_counter() - start)


def _memory(process: int) -> float:
    """Return the memory in MiB of a process and of its child processes, on Linux."""
    return sum(proportional_size(number)[0] for number in tree(process)) / 2**20


if __name__ == "__main__":
    main(sys.argv[1:])
