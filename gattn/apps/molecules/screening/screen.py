"""Prediction of many tables into a folder of shards; the work can be interrupted at any time."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

from gattn.apps.fitting.settings import SettingsError
from gattn.apps.molecules.descriptor_columns import DescriptorColumns
from gattn.apps.molecules.estimators import MoleculeEstimator
from gattn.apps.molecules.inputs import PIECE
from gattn.apps.molecules.loading import open_model
from gattn.apps.molecules.runs.columns import prediction_columns
from gattn.apps.molecules.runs.predict import ERROR, InputRow, predict_rows
from gattn.apps.molecules.screening import plan
from gattn.apps.molecules.screening.settings import ScreenSettings
from gattn.apps.molecules.settings import DEFAULT_READING, TableReading
from gattn.apps.run.model_io import package_versions
from gattn.apps.run.run_folder import file_hash
from gattn.apps.run.train import Log, no_log
from gattn.apps.runtime.processes import in_order
from gattn.apps.runtime.threads import one_thread, use_one_thread
from gattn.apps.tables.csv_table import Table, TableRow, as_number
from gattn.apps.tables.formats import open_molecules
from gattn.apps.tables.numbers import NumberFormat

WORD = re.compile(r"""'([^']*)'|"([^"]*)"|`([^`]+)`|(?<![\w.])([^\W\d]\w*)""")
"""Pattern of a text in either quotes, of a column in backquotes, and of a word."""
KEYWORDS = ("and", "or", "not", "between", "abs")
SIGN = re.compile(r"[^\w\s+\-*/()<>=!.,:]")
"""Pattern of a character that has no meaning in an expression."""
INTEGER = re.compile(r"(?<![\w.])(?<!\d[eE][-+])(\d+)(?![\w.])")
"""Pattern of an integer that is not an exponent."""
COMPARISON = re.compile(r"[<>=!]+|\bbetween\b")
TEXT_COMPARISON = re.compile(r"\bc(\d+)\s*[=!]?=\s*:t\d+|:t\d+\s*[=!]?=\s*c(\d+)\b")
"""Pattern of the comparison of a column with a text."""


class RowQuery:
    """Query that selects the rows of a table, and ranks them.

    A comparison with an empty cell, or of a number with a cell that is not a number, is not met,
    nor is ``not`` with this comparison.

    Args:
        columns: the names of the columns.
        where: the condition of a row; "" for all rows.
        by: the number by which rows are ranked.
        top: maximum number of rows; 0 for all, which are not ranked.

    Raises:
        SettingsError: an expression is not valid, or names another column.

    Example:
        >>> query = RowQuery(["y", "set"], where="5 < y and set != 'idle'", by="-y", top=2)
        >>> query.best([["7.5", "a"], ["", "a"], ["6", "a"], ["6", "idle"], ["9", "a"]])
        [2, 0]
    """

    def __init__(
        self, columns: Sequence[str], *, where: str = "", by: str = "", top: int = 0
    ) -> None:
        self.columns = columns
        self._cells: list[int] = []
        self._texts: dict[str, bytes] = {}
        condition = self._sql("where", where) if where else "true"
        value = self._sql("by", by) if top else "1"
        texts = {int(a or b) for a, b in TEXT_COMPARISON.findall(condition)}
        self._is_text = [i in texts for i in range(len(self._cells))]
        self._base = sqlite3.connect(":memory:")
        names = ", ".join(
            f"c{i} {'blob' if is_text else 'real'}" for i, is_text in enumerate(self._is_text)
        )
        self._base.execute(
            f"create table rows (number integer primary key{', ' * bool(names)}{names})"
        )
        limit = min(top, sys.maxsize)
        order = f"and ({value}) is not null order by ({value}) desc, number limit {limit}"
        self._query = f"select number from rows where ({condition}) {order * bool(top)}"
        self._check("where", condition, where)
        self._check("by", value, by)

    def best(self, rows: Sequence[Sequence[str]]) -> list[int]:
        """Return the indices of the selected rows, the highest number first. Rows with equal
        numbers, and all rows without a ranking, stay in order. The rows have the columns of the
        query; those of an earlier call are forgotten.
        """
        self._base.execute("delete from rows")
        marks = ", ?" * len(self._cells)
        self._base.executemany(
            f"insert into rows values (?{marks})",
            ([number, *self._values(row)] for number, row in enumerate(rows)),
        )
        return [number for (number,) in self._base.execute(self._query, self._texts)]

    def _values(self, row: Sequence[str]) -> list[bytes | float | None]:
        """Return the values of the columns of the query in a row; None for an empty cell and for a
        cell that is no number in a comparison of numbers.
        """
        return [
            (_bytes(row[place]) or None) if is_text else as_number(row[place])
            for place, is_text in zip(self._cells, self._is_text)
        ]

    def _sql(self, name: str, text: str) -> str:
        """Return an expression in SQL, in which c0, c1, ... are columns and :t0, :t1, ... texts.
        The columns and texts are added to those of the query. Raises SettingsError for an
        expression that is not supported.
        """
        if signs := SIGN.findall(WORD.sub(" ", text)):
            self._fail(name, text, f"{signs[0]!r} has no meaning (use and, or, not, + - * /, abs)")

        def replace(match: re.Match[str]) -> str:
            """Return the SQL of one word of the expression: a keyword, a text, or a column, which
            is added to those that the query reads. Raises SettingsError for an empty text or an
            unknown column.
            """
            single, double, quoted, word = match.groups()
            if word and word.lower() in KEYWORDS:
                return word
            if single == "" or double == "":
                self._fail(name, text, "no comparison selects empty cells, nor with an empty text")
            if single is not None or double is not None:
                self._texts[f"t{len(self._texts)}"] = _bytes(single or double)
                return f" :t{len(self._texts) - 1} "
            column = quoted or word
            if column not in self.columns:
                self._fail(
                    name, text, f"no column {column!r}; the columns are {', '.join(self.columns)}"
                )
            self._cells.append(self.columns.index(column))
            return f" c{len(self._cells) - 1} "

        # Two signs begin a comment of SQL, and a quotient of integers is an integer.
        sql = INTEGER.sub(r"\1.0", WORD.sub(replace, text).replace("--", "- -"))
        self._check_comparisons(name, text, sql)
        return sql

    def _check(self, name: str, sql: str, text: str) -> None:
        """Raise SettingsError if SQLite cannot read an expression."""
        try:
            self._base.execute(f"select ({sql}) from rows", self._texts)
        except sqlite3.Error as error:
            self._fail(name, text, f"not a valid expression ({error})")

    def _check_comparisons(self, name: str, text: str, sql: str) -> None:
        """Raise SettingsError for a chain of comparisons, which SQL reads in another way, for an
        order of texts, and for a condition in place of a number.
        """
        if bool(COMPARISON.search(sql)) != (name == "where"):
            kinds = {"where": "a condition such as 'prediction > 7'"}
            self._fail(name, text, f"must be {kinds.get(name, 'a number such as prediction')}")
        if ":t" in TEXT_COMPARISON.sub("", sql):
            reason = "a number has no quotes, and a text is compared with a column by == or !="
            self._fail(name, text, reason)
        inner, count = sql, 1
        while count:
            groups = re.findall(r"\(([^()]*)\)", inner) or [inner]
            for part in re.split(r"\b(?:and|or|not)\b|,", ",".join(groups).lower()):
                if len(COMPARISON.findall(part)) > 1:
                    self._fail(name, text, "a chain of comparisons (join two of them by and)")
            inner, count = re.subn(r"\([^()]*\)", " 0 ", inner)

    def _fail(self, name: str, text: str, reason: str) -> NoReturn:
        raise SettingsError(f"{name}: {reason}; got {text!r}")


def _bytes(text: str) -> bytes:
    """Encode a text, which may contain bytes of the input that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape")


Key = TypeVar("Key")
Task = TypeVar("Task")
Result = TypeVar("Result")

WINDOW = 4
"""Number of tasks per processor that are submitted to a Ray cluster before a result is awaited."""


def run_locally(
    work: Callable[[Task], Result], tasks: Iterable[tuple[Key, Task]], workers: int
) -> Iterator[tuple[Key, Result]]:
    """Execute tasks in ``workers`` processes with one thread each; yield the results in order.

    A single process also uses one thread, so that results do not depend on the number of processes.
    Raises RuntimeError if a process was killed.
    """
    if workers > 1:
        yield from in_order(work, tasks, workers)
        return
    for key, task in tasks:
        with one_thread():
            result = work(task)
        yield key, result


def run_on_ray(
    work: Callable[[Task], Result], tasks: Iterable[tuple[Key, Task]], workers: int
) -> Iterator[tuple[Key, Result]]:
    """Execute tasks on a Ray cluster; yield the results in order.

    The cluster is that of the environment variable ``RAY_ADDRESS``, or the one that ``ray start``
    started on this machine. If there is none, Ray is started on this machine with ``workers``
    processes, and stopped at the end. A task is repeated if its machine is lost.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        RuntimeError: the cluster cannot be reached, or a task failed.
    """
    with _cluster(workers) as ray:
        reference = ray.put(work)
        execute = ray.remote(num_cpus=1, max_retries=3)(_execute)
        window = max(WINDOW * int(ray.cluster_resources().get("CPU", 1)), 1)
        remaining, waiting = iter(tasks), deque[tuple[Key, Any]]()
        while True:
            for key, task in islice(remaining, window - len(waiting)):
                # The reference is inside a list, because Ray would otherwise send its content to
                # every task.
                waiting.append((key, execute.remote(reference.hex(), [reference], task)))
            if not waiting:
                return
            key, future = waiting.popleft()
            try:
                result = ray.get(future)
            except ray.exceptions.RayError as error:
                raise RuntimeError(f"a task of the Ray cluster failed: {error}") from error
            yield key, result


_WORK: dict[str, Callable[[Any], Any]] = {}
"""Name of the work function in a process of the cluster; the process applies it to its tasks."""


def _execute(key: str, references: list[Any], task: Any) -> Any:
    """Apply the work function of a screening to a task, in a process of the cluster.

    ``references`` has one Ray reference, that of the function. For a new ``key``, the function is
    stored in the process in place of the previous one, and torch is limited to one thread.
    """
    if key not in _WORK:
        import ray

        use_one_thread()
        _WORK.clear()
        _WORK[key] = ray.get(references[0])
    return _WORK[key](task)


@contextmanager
def _cluster(workers: int) -> Iterator[Any]:
    """Connect to a Ray cluster, or start one on this machine, and yield the module ``ray``.

    At the end, a cluster that this call started is stopped, and a connection that it opened is
    closed; an earlier connection of the process stays open. Two environment variables of Ray are
    set for the process, unless they have a value.
    """
    # By default, Ray sends usage statistics to its authors.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Without this variable, Ray warns that its default will change.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    already = ray.is_initialized()
    if not already:
        quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        try:
            ray.init(address="auto", **quiet)
        except ConnectionError:
            ray.init(num_cpus=workers, include_dashboard=False, **quiet)
    try:
        yield ray
    finally:
        if not already:
            ray.shutdown()


PLACE = ("input", "row")
"""Columns that identify a row: the path of its file, and its row number, counted from 0."""
SMILES = "smiles"
"""Name of the output column of SMILES if a row contains one molecule. For rows of several
molecules, the columns have the same names as in the inputs.
"""
Progress = Callable[[int, int], AbstractContextManager[Callable[[int], None]]]
"""Type of a function that reports progress. Its arguments are the number of rows of a job and
the number of finished rows. It returns a context manager whose value is a function that is
called with the number of newly finished rows.
"""


class Screened(NamedTuple):
    """Result of a screening.

    Attributes:
        rows: number of rows of the finished shards.
        errors: number of these rows that have no prediction.
        written: number of rows in ``top.csv``, or in the tables of the shards.
        unfinished: number of shards that other jobs have not finished; if there are none,
            ``top.csv`` and ``summary.json`` are written.
    """

    rows: int
    errors: int
    written: int
    unfinished: int


class _Piece(NamedTuple):
    """Block of consecutive rows of a shard.

    Attributes:
        shard: the shard.
        start: number of the first row in its file.
        rows: the cells of the output that precede the prediction, and the problem of each row.
        is_last: whether these are the last rows of the shard.
    """

    shard: plan.Shard
    start: int
    rows: list[tuple[list[str], str]]
    is_last: bool


def screen(
    run: str | Path,
    inputs: Sequence[str],
    out: str | Path,
    settings: ScreenSettings,
    *,
    reading: TableReading = DEFAULT_READING,
    progress: Progress = lambda total, done: nullcontext(lambda rows: None),
    log: Log = no_log,
) -> Screened:
    """Predict the molecules in many files, and write the predictions to a folder in shards.

    A shard is a range of rows of one file. Its table has the columns ``input``, ``row``,
    ``smiles`` (or the columns of the SMILES of several molecules), the columns to keep, those of
    :func:`gattn.apps.molecules.runs.columns.prediction_columns`, and ``error``. With
    ``settings.where`` or ``settings.top``, it contains only the rows that meet the condition, and
    the best of them.
    Finished shards are skipped, so the same call after an interruption continues, and the final
    files are those of an uninterrupted call, byte by byte. Memory does not grow with the inputs.

    Args:
        run: the folder of a trained model.
        inputs: files, folders and patterns; see :func:`.sources.find_inputs`.
        out: the folder, which is created if it is missing.
        settings: the rows to write, and the division of the work.
        reading: rules for reading the files. Each process has one thread.
        progress: function that shows the progress; see :data:`Progress`.
        log: called with each line that the user should read.

    Returns:
        The numbers of rows, of errors, of written rows and of unfinished shards.

    Raises:
        RunError: the folder ``run`` does not contain a readable model, or ``out`` contains the
            shards of another model, other inputs or other settings.
        FileNotFoundError: an input does not exist.
        SettingsError: a setting is not valid for this model.
        ValueError: an input cannot be read, or a column is missing or appears twice.
        OSError: a file cannot be written; finished shards are complete.
        RuntimeError: a process was killed, or the Ray cluster failed.
        ModuleNotFoundError: ``settings.engine`` is ``"ray"``, and Ray is not installed.
    """
    if reading.threads > 1:
        raise SettingsError(
            "threads must be 0 or 1 if --out is a folder, because each process has one thread: set "
            f"workers; got {reading.threads}"
        )
    model, card, columns, coverage, numbers = open_model(run, reading)
    model.set_params(workers=1, threads=1)
    out = Path(out)
    paths = plan.find_inputs(inputs, out)
    for path in paths:
        if path.stat().st_size == 0:
            log(f"{path} is empty, so it has no rows")
    options: dict[str, Any] = {"encoding": reading.encoding, "on_bad_bytes": "surrogateescape"}
    sources = [
        open_molecules(path, columns, model.descriptors_columns_, **options)
        for path in paths
        if path.stat().st_size
    ]
    copied, sources = _keep(sources, settings, model, log)
    texts = [SMILES] if len(columns) == 1 else list(columns)
    added = [*PLACE, *texts, *prediction_columns(model), ERROR]
    renamed = Table(out, tuple(copied), ",", "utf-8").renamed(added)
    names = [renamed.get(name, name) for name in copied]
    header = [*PLACE, *texts, *names, *prediction_columns(model), ERROR]
    query = _query(settings, model, header)
    before = plan.read_manifest(out) or {"inputs": []}
    counted = {(each["path"], each["sha256"]): each["rows"] for each in before["inputs"]}
    manifest = {
        "model": card["sha256"],
        "settings": {
            "smiles": columns[0] if len(columns) == 1 else list(columns),
            "encoding": reading.encoding, "coverage": coverage, "keep": copied,
            "where": settings.where, "top": settings.top, "by": settings.by,
        },
        "rows_per_shard": settings.rows_per_shard,
        "versions": _versions(),
        "inputs": [_input(source, counted) for source in sources],
    }  # fmt: skip
    plan.start_screening(out, manifest)
    index, jobs = settings.job
    shards = plan.shards_of(manifest)
    assigned = [shard for shard in shards if shard.number % jobs == index]
    records = {shard.number: plan.ShardFiles(out, shard).read_record() for shard in assigned}
    pending = [shard for shard in assigned if records[shard.number] is None]
    tasks = _tasks(sources, pending, copied, model.descriptors_columns_, numbers)
    engine = run_on_ray if settings.engine == "ray" else run_locally
    total = sum(shard.rows for shard in assigned)
    work = partial(predict_rows, model, coverage=coverage)
    with progress(total, total - sum(shard.rows for shard in pending)) as on_progress:
        lines: list[list[str]] = []
        errors = 0
        if pending:
            # The first prediction solves the kernel equation, which takes much memory. The solution
            # is sent to the other processes together with the model.
            with one_thread():
                values = (0.0,) * len(model.descriptors_columns_)
                work([InputRow(model.row_format.example, values)])
        answered = engine(work, tasks, reading.workers) if pending else ()
        for piece, answers in answered:
            path = str(sources[piece.shard.input].path)
            for number, ((cells, problem), (predicted, error)) in enumerate(
                zip(piece.rows, answers, strict=True), piece.start
            ):
                reason = problem or error
                errors += bool(reason)
                lines.append([path, str(number), *cells, *predicted, reason])
            if piece.is_last:
                chosen = _selected(query, lines)
                record = {
                    "input": path, "start": piece.shard.start, "stop": piece.shard.stop,
                    "rows": len(lines), "errors": errors, "written": len(chosen),
                }  # fmt: skip
                plan.ShardFiles(out, piece.shard).write(plan.table_bytes(header, chosen), record)
                records[piece.shard.number] = record
                lines, errors = [], 0
            on_progress(len(piece.rows))
    return _finish(shards, out, header, query if settings.top else None, records)


def _keep(
    sources: Sequence[Table], settings: ScreenSettings, model: MoleculeEstimator, log: Log
) -> tuple[list[str], list[Table]]:
    """Choose the columns that are copied to the output: those of ``settings.keep``, or those that
    each input has once. Return their names, and sources that read only the needed columns. Raises
    ValueError if an input does not have a column of ``settings.keep`` exactly once.
    """
    headers = [[name for name in source.columns if name not in source.smiles] for source in sources]
    if settings.keep:
        copied = [name for name in settings.keep if name]
        for source, names in zip(sources, headers):
            for name in copied:
                if names.count(name) != 1:
                    raise ValueError(
                        f"{source.path} must have one column {name!r} to keep; its other columns "
                        f"are {', '.join(map(repr, names)) or 'none'}"
                    )
    else:
        copied = [
            name
            for name in (headers[0] if headers else [])
            if all(names.count(name) == 1 for names in headers)
        ]
        others = list(
            dict.fromkeys(name for names in headers for name in names if name not in copied)
        )
        if others:
            log(
                f"the output has no columns {', '.join(others[:5])}{', ...' * (len(others) > 5)}, "
                "because not every input has them"
            )
    needed = [*copied, *model.descriptors_columns_]
    return copied, [source.narrowed([*source.smiles, *needed]) for source in sources]


def _input(source: Table, counted: Mapping[tuple[str, str], int]) -> dict[str, Any]:
    """Return the entry of an input file in the manifest: ``path``, ``rows`` (their number) and
    ``sha256``.

    Args:
        source: the file.
        counted: number of rows of files whose path and checksum are in the manifest; they are not
            counted again.
    """
    path, sha256 = str(source.path), file_hash(source.path)
    rows = counted.get((path, sha256))
    return {"path": path, "rows": source.count() if rows is None else rows, "sha256": sha256}


def _versions() -> dict[str, str]:
    """Return the versions of the packages that compute the predictions."""
    import rdkit

    versions = package_versions()
    return {name: versions[name] for name in ("gattn", "torch", "numpy")} | {
        "rdkit": rdkit.__version__
    }


def _tasks(
    sources: Sequence[Table], pending: Iterable[plan.Shard], copied: Sequence[str],
    descriptors: Sequence[str], style: NumberFormat,
) -> Iterator[tuple[_Piece, list[InputRow]]]:  # fmt: skip
    """Read the rows of the unfinished shards in blocks; the first block of a shard begins at its
    first row. ``pending`` are the shards in ascending order, and ``sources`` the inputs.

    A block has the cells of the SMILES and of the columns ``copied``, and the rows that the model
    reads, with the numbers of the columns ``descriptors``. The blocks of a shard are the same in
    each call, so that its predictions have the same bits. Raises ValueError if an input has fewer
    rows than before.
    """
    rows: Iterator[TableRow] = iter(())
    columns = DescriptorColumns((), (), style)
    open_input, position, places = -1, 0, [0]
    for shard in pending:
        source = sources[shard.input]
        if shard.input != open_input:
            open_input, position = shard.input, shard.start
            places = [source.place(name) for name in (*source.smiles, *copied)]
            columns = DescriptorColumns.of(source, descriptors, style)
            rows = columns.checked(source.rows(shard.start))
        for _ in islice(rows, shard.start - position):
            pass
        position = shard.stop
        for start in range(shard.start, shard.stop, PIECE):
            size = min(PIECE, shard.stop - start)
            piece, input_rows = [], []
            for row in islice(rows, size):
                piece.append(([row.cells[place] for place in places], row.problem))
                input_rows.append(columns.input_row(row))
            if len(piece) < size:
                raise ValueError(f"{source.path} was changed while it was read")
            yield _Piece(shard, start, piece, start + size == shard.stop), input_rows


def _query(
    settings: ScreenSettings, model: MoleculeEstimator, header: Sequence[str]
) -> RowQuery | None:
    """Return the query that selects rows of a table with the columns ``header``; None if all rows
    are written.

    Raises:
        SettingsError: an expression is not valid for this table, or the model has several
            predictions by which the best rows may be ranked.
    """
    where, by = settings.where.strip(), settings.by.strip()
    if settings.top:
        return RowQuery(
            header, where=where, by=by or f"`{_ranked_column(model)}`", top=settings.top
        )
    return RowQuery(header, where=where) if where else None


def _selected(query: RowQuery | None, lines: Sequence[list[str]]) -> Sequence[list[str]]:
    """Return the rows to write, in the order of the input.

    A row without a prediction is left out if rows are selected.
    """
    if query is None:
        return lines
    lines = [line for line in lines if not line[-1]]
    return [lines[i] for i in sorted(query.best(lines))]


def _ranked_column(model: MoleculeEstimator) -> str:
    """Return the column by which rows are ranked if ``--by`` is not set.

    Raises:
        SettingsError: the model predicts several numbers.
    """
    columns = prediction_columns(model)
    numbers = [name for name in columns if name.startswith("probability")]
    if not numbers and "prediction" in columns:
        numbers = ["prediction"]
    if len(numbers) != 1 or len(model.targets_) != 1:
        raise SettingsError(
            "top needs --by, the number that ranks the rows, because the model predicts several "
            f"columns: {', '.join(columns)}"
        )
    return numbers[0]


def _finish(
    shards: Sequence[plan.Shard], out: Path, header: Sequence[str], ranking: RowQuery | None,
    records: dict[int, dict[str, Any] | None],
) -> Screened:  # fmt: skip
    """Return the numbers of rows and shards. If all shards are finished, also write the summary
    and, with a ``ranking``, the best rows. Raises OSError if a file cannot be written.

    ``out`` is the output folder, and ``header`` the names of the columns. ``records`` has the
    record of each shard of this job by number, None for an unfinished shard. If the record files of
    all other jobs exist, their records are read and added to it.
    """
    others = [shard for shard in shards if shard.number not in records]
    unfinished = sum(not plan.ShardFiles(out, shard).record.exists() for shard in others)
    if not unfinished:
        for shard in others:
            records[shard.number] = plan.ShardFiles(out, shard).read_record()
        unfinished = sum(record is None for record in records.values())
    done = [record for record in records.values() if record is not None]
    rows, errors, written = (
        sum(record[name] for record in done) for name in ("rows", "errors", "written")
    )
    if not unfinished:
        summary = {"shards": len(shards), "rows": rows, "errors": errors, "written": written}
        if ranking is not None:
            best: list[list[str]] = []
            for shard in shards:
                _, lines = plan.read_table(plan.ShardFiles(out, shard).table.read_bytes())
                lines = [*best, *lines]
                best = [lines[i] for i in ranking.best(lines)]
            plan.write_durably(out / plan.TOP, plan.table_bytes(header, best))
            summary["top"] = written = len(best)
        plan.write_json_durably(out / plan.SUMMARY, summary)
    return Screened(rows, errors, written, unfinished)
