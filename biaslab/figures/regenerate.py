"""Regenerate all figures: papermill executes ``notebooks/`` into ``papermill_runs/``, and requests are counted.

Examples
--------
>>> from biaslab.figures.regenerate import regenerate
>>> runs = regenerate(only=["position"], judge="simulated:position=0.5")  # doctest: +SKIP
>>> runs[0].figures, runs[0].asked  # doctest: +SKIP
(('position__by_attribute', 'position__human_gap'), 0)
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from biaslab.core.checks import did_you_mean, is_there, read, require_extra, require_whole, unknown
from biaslab.core.errors import InputError, NotebookError
from biaslab.core.output import AnyPath
from biaslab.core.project import PLACES, bundled, defaults, folder_of, parameters_cell, types_of
from biaslab.core.secrets import in_environment
from biaslab.figures.gallery import write_index, write_precision
from biaslab.figures.notebook import (
    Failure,
    NotebookRun,
    NotebookTask,
    changes,
    count_replies,
    execute,
    minutes,
    short_name,
)
from biaslab.store import Store

__all__ = ["NotebookRun", "list_notebooks", "regenerate"]


def regenerate(
    only: Sequence[str] | None = None,
    judge: str | None = None,
    dataset: str | None = None,
    path: AnyPath | None = None,
    contexts: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    jobs: int = 1,
    out: AnyPath | None = None,
    runs: AnyPath = "papermill_runs",
    store: AnyPath = "judgements.sqlite",
    notebooks: AnyPath | None = None,
    progress: bool = True,
    report: Callable[[NotebookRun], object] | None = None,
    changed: bool = False,
) -> list[NotebookRun]:
    """Execute notebooks, which write their figures, and write an ``index.html`` of all figures next to them.

    ``precision.csv`` reports for each study whether it was informative: `biaslab.figures.gallery.measure_precision`.

    Relative paths refer to the working directory, also inside the notebooks.

    Parameters
    ----------
    only : sequence of str, optional
        Names of notebooks, for example ``"position"``; a leading number may be omitted ("tour" is "00_tour").
    judge, dataset, path, contexts : optional
        Passed to notebooks with such a parameter (``contexts`` as ``n_contexts``); by default the notebook's own
        value.
    parameters : mapping, optional
        Further parameters by name, for notebooks that have them; they take precedence over the above. Text is parsed
        as the type of the notebook's own value: ``"1,2"`` as a list of numbers if that is one, ``"none"`` as None.
    jobs : int
        Number of notebooks executed in parallel, each in its own processes; those with a long declared duration
        (``"biaslab": {"minutes": 5}`` in the metadata) start first. Above 1, the calling script needs
        ``if __name__ == "__main__":``.
    out : str or path, optional
        Folder of the figures, created if missing. By default ``figures``; for a notebook executed with changed
        parameters a subfolder named after them, so that default figures are not overwritten.
    runs : str or path
        Folder of the executed notebooks, with the same subfolders.
    store : str or path
        The store of replies.
    notebooks : str or path, optional
        Their folder; by default ``notebooks`` in the working directory, else the bundled ones.
    progress : bool
        Show a progress bar per notebook (with one job).
    report : callable, optional
        Called with each `Run` as soon as it is complete.
    changed : bool
        Execute a notebook only if something that its figures depend on has changed since they were made:
        `biaslab.figures.regenerate.inputs`.

    Returns
    -------
    list of Run
        In the order of the notebooks' names; with `changed`, including those that are up to date.

    Raises
    ------
    InputError
        If a parameter is invalid or no notebook has it; then no notebook is started.
    NotebookError
        If notebooks failed, after all others have run; their replies are in the store.
    MissingDependencyError
        If the packages that execute notebooks are missing: the extra ``notebooks``.
    """
    require_extra("notebooks", "executing notebooks")
    chosen = _choose(list_notebooks(notebooks), only)
    options = {"judge": judge, "dataset": dataset, "path": path and str(path), "n_contexts": contexts}
    wanted = {name: value for name, value in options.items() if value is not None}
    wanted |= read_given(chosen, parameters or {})
    wanted = {name: in_environment(value) if isinstance(value, str) else value for name, value in wanted.items()}
    _check(wanted.get("judge"), wanted.get("dataset"), wanted.get("path"), wanted.get("n_contexts"), jobs)
    jobs = min(jobs, len(chosen))
    tasks = [_task(source, wanted, out, Path(runs), store, progress, jobs) for source in chosen]
    for task in tasks:
        _make_folder("out", Path(task.always["out"]))
        _make_folder("runs", task.target.parent)
    if Path(runs).samefile(chosen[0].parent):
        raise InputError("runs", str(runs), "another folder than that of the notebooks")
    Store(store).close()
    made_of = {task.source.stem: inputs(task) for task in tasks}
    results: dict[str, NotebookRun | Failure] = {}
    for task, result in _results(tasks, jobs, made_of if changed else {}):
        results[task.source.stem] = result
        if isinstance(result, NotebookRun) and not result.up_to_date:
            remember(task, result, made_of[task.source.stem])
        if report is not None and isinstance(result, NotebookRun):
            report(result)
    for folder in dict.fromkeys(task.always["out"] for task in tasks):
        own_results = [results[task.source.stem] for task in tasks if task.always["out"] == folder]
        write_precision(folder)
        write_index(folder, [run for run in own_results if isinstance(run, NotebookRun)])
    failures = [result for result in results.values() if isinstance(result, Failure)]
    if failures:
        error = NotebookError("; ".join(failure.message for failure in failures))
        for failure in failures:
            error.add_note(failure.traceback)
        raise error
    return [result for source in chosen if isinstance(result := results[source.stem], NotebookRun)]


def read_given(notebooks: Sequence[Path], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as values: strings are parsed as the type of the notebook's own value.

    Raises
    ------
    InputError
        If no notebook has a parameter, or a text is not a value of its type.
    """
    types: dict[str, Any] = {}
    for notebook in notebooks if parameters else ():
        with suppress(OSError, ValueError, KeyError, SyntaxError):  # a broken notebook fails when it is executed
            types = types_of(notebook) | types
    names = [name for name in types if name not in PLACES]
    for name in parameters:
        if name not in names:
            raise unknown("parameter", name, names, f"{name} has an option of its own" if name in PLACES else "")
    return {
        name: read(name, value, types[name]) if isinstance(value, str) else value for name, value in parameters.items()
    }


def _task(
    source: Path, wanted: dict[str, Any], out: AnyPath | None, runs: Path, store: AnyPath, progress: bool, jobs: int
) -> NotebookTask:
    """Choose the folders of a notebook's figures and of its executed copy."""
    apart = folder_of(changes(source, wanted))
    always = {"store": str(store), "out": str(Path("figures", apart) if out is None else out)}
    return NotebookTask(source, runs / apart / source.name, wanted, always, progress, jobs)


def list_notebooks(folder: AnyPath | None = None) -> list[Path]:
    """Return the notebooks of a folder, sorted by name.

    Parameters
    ----------
    folder : str or path, optional
        By default ``notebooks`` in the working directory, else the bundled ones.

    Raises
    ------
    InputError
        If the folder does not exist, or contains no notebook.
    """
    for place in [Path(folder)] if folder is not None else [Path("notebooks"), bundled()]:
        notebooks = sorted(place.glob("*.ipynb"))
        if notebooks:
            return notebooks
    remedy = "name another, or copy the notebooks there: biaslab notebooks copy FOLDER"
    raise InputError("notebooks", str(folder or "notebooks"), "a folder that holds notebooks (*.ipynb)", remedy)


def _choose(notebooks: Sequence[Path], only: Sequence[str] | None) -> list[Path]:
    """Return the notebooks with the given names, in their own order; all if None."""
    if only is None:
        return list(notebooks)
    if isinstance(only, str):
        raise InputError("only", only, "a list of names", f"write [{only!r}]")
    by_name = {short_name(path): path for path in notebooks} | {path.stem: path for path in notebooks}
    wanted = [name.removesuffix(".ipynb") for name in only]
    for name in wanted:
        if name not in by_name:
            names = [path.stem for path in notebooks]
            raise InputError("only", name, f"names among {', '.join(names)}", did_you_mean(name, by_name))
    return [path for path in notebooks if path in {by_name[name] for name in wanted}]


def _check(judge: Any, dataset: Any, path: Any, contexts: Any, jobs: Any) -> None:
    """Raise `InputError` for arguments that would make every notebook fail."""
    for name, value in (("contexts", contexts), ("jobs", jobs)):
        if value is not None:
            require_whole(name, value, 1)
    if path is not None and not Path(path).exists():
        raise InputError("path", str(path), "an existing file or folder")
    simulated = judge is not None and judge.split(":")[0] == "simulated"
    if dataset is None and not simulated:
        return
    from biaslab.datasets import load_dataset
    from biaslab.judges import load_judge

    data = load_dataset(dataset, path, limit=1) if dataset is not None else load_dataset("graded", limit=1)
    if simulated:
        load_judge(str(judge), data)


def _make_folder(name: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(name, str(folder), "a folder that exists or can be created") from error


def _results(
    tasks: Sequence[NotebookTask], jobs: int, made_of: Mapping[str, str]
) -> Iterator[tuple[NotebookTask, NotebookRun | Failure]]:
    """Yield the runs that are up to date, then the others; without `made_of` all are executed."""
    due = []
    for task in tasks:
        earlier = earlier_run(task, made_of[task.source.stem]) if made_of else None
        if earlier is None:
            due.append(task)
        else:
            yield task, earlier
    yield from _run_all(due, jobs)


def _run_all(tasks: Sequence[NotebookTask], jobs: int) -> Iterator[tuple[NotebookTask, NotebookRun | Failure]]:
    """Yield each task with its result, as it completes."""
    if jobs == 1:
        yield from ((task, execute(task)) for task in tasks)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_ignore_interrupts) as pool:
        longest_first = sorted(tasks, key=lambda task: minutes(task.source), reverse=True)  # avoids a lone straggler
        futures = {pool.submit(_execute_interruptibly, task): task for task in longest_first}
        try:
            for future in as_completed(futures):
                task = futures[future]
                try:
                    yield task, future.result()
                except BrokenProcessPool as error:
                    yield task, Failure(f"{task.source.name} failed: its process ended ({error})")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                os.kill(process.pid or 0, signal.SIGINT)
            raise


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _execute_interruptibly(task: NotebookTask) -> NotebookRun | Failure:
    """Execute in a process of a pool; the first Ctrl-C stops the kernel, a second does not interfere."""

    def stop(*_: object) -> NoReturn:
        _ignore_interrupts()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    try:
        return execute(task)
    finally:
        _ignore_interrupts()


_COUNTED = ("seconds", "asked", "stored", "asked_tokens", "stored_tokens", "estimates", "ignored")


def inputs(task: NotebookTask) -> str:
    """Return a digest of everything a notebook's figures depend on; empty if it cannot be read.

    That is the notebook, its parameters, the files they name, biaslab itself, and the versions of all installed
    packages. The model behind a name on the Hub or a server is not included.
    """
    try:
        parameters = task.wanted | task.always
        given = {name: parameters[name] for name in types_of(task.source) if name in parameters}
        values = defaults(parameters_cell(task.source)) | given
        files = [list(_stamps(value)) for name, value in sorted(values.items()) if name not in task.always]
        document = [task.source.read_text(encoding="utf-8"), values, files, _package(), _installed()]
    except (OSError, ValueError, KeyError, SyntaxError):
        return ""
    return _digest(json.dumps(document, sort_keys=True, default=repr).encode())


def remember(task: NotebookTask, run: NotebookRun, made_of: str) -> None:
    """Record in the executed notebook its inputs and outputs.

    Parameters
    ----------
    task : Task
        The executed task.
    run : Run
        Its result.
    made_of : str
        Its `inputs` before execution.
    """
    with suppress(OSError, ValueError, KeyError):  # then it is executed again
        document = json.loads(task.target.read_text(encoding="utf-8"))
        document["metadata"]["biaslab"] = document["metadata"].get("biaslab", {}) | {
            "made_of": made_of,
            "replies": count_replies(task),
            "files": {file.name: _digest(file.read_bytes()) for file in run.files},
            "run": {name: getattr(run, name) for name in _COUNTED},
        }
        written = task.target.with_suffix(".writing")
        written.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        written.replace(task.target)


def earlier_run(task: NotebookTask, made_of: str) -> NotebookRun | None:
    """Return the result of a notebook's last execution, if nothing has changed since.

    Parameters
    ----------
    task : Task
        The task to check.
    made_of : str
        Its `inputs`.

    Returns
    -------
    Run or None
        None if an input changed, a file that it made is missing or modified, or the store has fewer replies than then.
    """
    try:
        notes = json.loads(task.target.read_text(encoding="utf-8"))["metadata"]["biaslab"]
        files = {Path(task.always["out"]) / name: digest for name, digest in notes["files"].items()}
        fresh = made_of and notes["made_of"] == made_of and notes["replies"] <= count_replies(task)
        if not fresh or any(_digest(file.read_bytes()) != digest for file, digest in files.items()):
            return None
        run = NotebookRun(task.source.stem, tuple(files), **notes["run"], up_to_date=True)
        return replace(run, ignored=tuple(run.ignored))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _stamps(value: Any) -> Iterator[tuple[str, int, int]]:
    """Yield name, size and time of each file named by a parameter, directly or through its folder."""
    for text in value if isinstance(value, list | tuple) else [value]:
        named = Path(text) if isinstance(text, str | Path) and str(text) not in ("", ".") else None
        if named is None or not is_there(named):
            continue
        for file in sorted(named.rglob("*")) if named.is_dir() else [named]:
            if file.is_file():
                yield str(file), file.stat().st_size, file.stat().st_mtime_ns


@cache
def _package() -> str:
    """Return a digest of biaslab's own files."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*")):
        if file.is_file() and file.suffix != ".pyc":
            digest.update(f"{file.relative_to(root)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


@cache
def _installed() -> list[str]:
    releases = {f"{each.name}=={each.version}" for each in importlib.metadata.distributions()}
    return [sys.version, *sorted(releases)]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Copied(NamedTuple):
    """Paths of notebooks that were ``written``, were the ``same`` already, or ``kept`` because they differ."""

    written: tuple[Path, ...]
    same: tuple[Path, ...]
    kept: tuple[Path, ...]


def copy_notebooks(folder: AnyPath = "notebooks", overwrite: bool = False) -> Copied:
    """Copy all notebooks to a folder, to edit them there.

    Parameters
    ----------
    folder : str or path
        Target folder; created if missing.
    overwrite : bool
        Replace existing files that differ, for example notebooks that were edited or executed.

    Returns
    -------
    Copied
        The result for each notebook.

    Raises
    ------
    InputError
        If the folder cannot be created or written.

    Examples
    --------
    >>> import tempfile
    >>> made = tempfile.mkdtemp()
    >>> len(copy_notebooks(made).written) == len(copy_notebooks(made).same) > 0
    True
    """
    place = Path(folder)
    written, same, kept = [], [], []
    try:
        place.mkdir(parents=True, exist_ok=True)
        for source in sorted(bundled().glob("*.ipynb")):
            target = place / source.name
            if target.exists() and target.read_bytes() == source.read_bytes():
                same.append(target)
            elif target.exists() and not overwrite:
                kept.append(target)
            else:
                shutil.copyfile(source, target)
                written.append(target)
    except OSError as error:
        raise InputError("folder", str(folder), f"a folder that can be written ({error.strerror})") from error
    return Copied(tuple(written), tuple(same), tuple(kept))
