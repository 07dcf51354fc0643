"""Measurement of a server of a trained model on the loopback address.

    python -m benchmarks.serve RUN                           # 32 clients, 60 seconds
    python -m benchmarks.serve RUN --seconds 10 --clients 8

Starts ``gattn serve RUN`` in another process. Clients send the molecules of a table (those that the
model was validated and tested on) in requests of ``--rows`` rows, each client one request after the
other. Prints the rows per second, compared with ``gattn molecules predict`` on as many rows, the
median and the 99th percentile of the time of a request, the number of answers by status, the memory
of the server and its processes before and after, and the time of an explanation with its picture.
With ``--record``, a JSON line goes to benchmarks/results/serve.jsonl.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

from benchmarks.core import record

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
        before = _memory(process)
        explanations = _explanations(port, smiles)
        statuses, seconds, wall = _load(
            port, smiles, options.clients, options.seconds, options.rows
        )
        after = _memory(process)
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
        "memory_mib_before": before,
        "memory_mib_after": after,
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


def _load(
    port: int, smiles: Sequence[str], clients: int, seconds: float, rows: int
) -> tuple[Counter[int], list[float], float]:
    """Send requests; return the number of answers by status, their times, and the wall time."""
    statuses: Counter[int] = Counter()
    times: list[float] = []
    end = time.monotonic() + seconds

    def send(client: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        source = islice(cycle(smiles), client, None)
        while time.monotonic() < end:
            body = json.dumps({"smiles": list(islice(source, rows))})
            status, needed, _ = _post(connection, "/predict", body)
            statuses[status] += 1  # the interpreter's lock makes this single bytecode atomic
            times.append(needed)

    threads = [threading.Thread(target=send, args=(client,)) for client in range(clients)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses, times, time.monotonic() - start


def _post(connection: http.client.HTTPConnection, path: str, body: str) -> tuple[int, float, bytes]:
    start = time.perf_counter()
    connection.request("POST", path, body, {"content-type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    return answer.status, time.perf_counter() - start, content


def _explanations(port: int, smiles: Sequence[str]) -> list[float]:
    """Return the times of explanations, after one that is not timed."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    times = []
    for text in islice(cycle(smiles), EXPLANATIONS + 1):
        status, needed, content = _post(connection, "/explain", json.dumps({"smiles": text}))
        if status != 200:
            raise RuntimeError(f"an explanation was answered by {status}: {content[:200]!r}")
        times.append(needed)
    return times[1:]


def _predict_rate(run: Path, smiles: Sequence[str], rows: int, workers: int) -> float:
    """Return the rows per second of the command on a table, with its start."""
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
    """Return the resident memory in MiB of a process and of its child processes, on Linux."""
    total, pids = 0.0, [process]
    while pids:
        status = Path(f"/proc/{pids.pop()}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        total += int(fields["VmRSS"].split()[0]) / 1024
        for task in Path(f"/proc/{fields['Pid'].strip()}/task").iterdir():
            pids += map(int, (task / "children").read_text().split())
    return total


if __name__ == "__main__":
    main(sys.argv[1:])
