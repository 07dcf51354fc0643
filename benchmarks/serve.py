"""Rate of a server of a trained model of molecules on the loopback address.

    python -m benchmarks.serve RUN                    # 8 clients, 20 seconds for each kind
    python -m benchmarks.serve RUN --seconds 5 --out serve.jsonl

Starts ``gattn serve RUN`` in another process. Clients send the molecules that the model was
validated and tested on, each client one request after the other: single molecules, and batches of
100. Prints the requests per second, and the median and the 99th percentile of their latency.
"""

from __future__ import annotations

import argparse
import csv
import http.client
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, cycle, islice
from pathlib import Path

from benchmarks.core import record

ROWS = {"single": 1, "batch": 100}
"""Number of molecules in a request of each kind."""


@contextmanager
def _server(run: Path) -> Iterator[int]:
    """Start a server on a free port, yield the port, and stop the server at the end."""
    command = [sys.executable, "-m", "gattn.apps.cli", "serve", str(run), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if line.startswith("http://"))
        yield int(line.split(":")[2].split("/")[0])
        process.terminate()


def _latencies(port: int, smiles: Sequence[str], rows: int, seconds: float) -> list[float]:
    """Return the seconds of each request of one client."""
    connection, texts, latencies = http.client.HTTPConnection("127.0.0.1", port), cycle(smiles), []
    end = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        body = json.dumps({"smiles": list(islice(texts, rows))})
        connection.request("POST", "/predict", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"the server answered {answer.status}")
        latencies.append(time.perf_counter() - begin)
    return latencies


def main(arguments: Sequence[str]) -> None:
    """Start a server, send requests, and print their rate and latency."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve", description=main.__doc__)
    parser.add_argument("run", type=Path, help="folder of a trained model of molecules")
    parser.add_argument("--clients", type=int, default=8, help="clients at the same time")
    parser.add_argument("--seconds", type=float, default=20.0, help="duration of each kind")
    parser.add_argument("--out", type=Path, help="file to which the results are appended")
    options = parser.parse_args(arguments)
    with (options.run / "predictions.csv").open(newline="", encoding="utf-8") as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    with _server(options.run) as port, ThreadPoolExecutor(options.clients) as pool:
        for kind, rows in ROWS.items():
            queries = [(port, smiles, rows, options.seconds)] * options.clients
            seconds = sorted(chain.from_iterable(pool.map(_latencies, *zip(*queries))))
            entry: record.Record = {
                "case": f"serve/{kind}", "clients": options.clients, "rows": rows,
                "requests_per_second": len(seconds) / options.seconds,
                "p50_seconds": statistics.median(seconds),
                "p99_seconds": seconds[int(0.99 * len(seconds))],
            }  # fmt: skip
            print(json.dumps(entry))
            if options.out:
                environment = record.environment("benchmarks.serve", list(arguments))
                record.append(options.out, {**entry, "environment": environment})


if __name__ == "__main__":
    main(sys.argv[1:])
