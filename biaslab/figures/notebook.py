"""Execute a notebook with papermill, and count the requests of its judges."""

from __future__ import annotations

import csv
import json
import logging
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

from biaslab.core.files import read_csv
from biaslab.core.output import replacing
from biaslab.core.project import PROJECT, defaults, differing, parameters_cell, recorded, types_of
from biaslab.store import Store
from biaslab.store.stored_judge import PROCESS, Tally

_IMAGES = {".png", ".pdf", ".svg"}
_TALLY = "BIASLAB_TALLY"  # environment variable of a kernel: the file for its counts
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class NotebookRun:
    """Result of executing a notebook.

    Parameters
    ----------
    notebook : str
        Name, without the suffix.
    files : tuple of Path
        Files written or rewritten in the folder of figures, sorted.
    seconds : float
        Wall-clock time, including the start of the kernel.
    asked : int
        Replies newly given by a judge: the growth of the store or, with ``jobs`` above 1, as counted in the kernel.
    stored : int
        Replies from the store.
    asked_tokens, stored_tokens : int
        Input and output tokens of both.
    estimates : int
        Number of rows in the CSV files among ``files``.
    ignored : tuple of str
        Parameters that were given but do not exist in the notebook.
    up_to_date : bool
        Whether it was not executed because nothing would change; the other fields then describe the last execution.
    """

    notebook: str
    files: tuple[Path, ...]
    seconds: float
    asked: int
    stored: int
    asked_tokens: int
    stored_tokens: int
    estimates: int
    ignored: tuple[str, ...] = ()
    up_to_date: bool = False

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures among the files; a figure in several formats counts once."""
        return tuple(dict.fromkeys(file.stem for file in self.files if file.suffix in _IMAGES))


@dataclass(frozen=True)
class NotebookTask:
    """A notebook to execute.

    Parameters
    ----------
    source, target : Path
        The notebook, and the path of its executed copy.
    wanted : dict
        Parameters given by the user.
    always : dict
        Parameters that are always set: ``store`` and ``out``.
    progress : bool
        Show a progress bar, if it is the only notebook.
    jobs : int
        Number of notebooks executed in parallel.
    """

    source: Path
    target: Path
    wanted: dict[str, Any]
    always: dict[str, Any]
    progress: bool
    jobs: int


@dataclass(frozen=True)
class Failure:
    """A failed notebook: a one-line message, and the traceback of its cell."""

    message: str
    traceback: str = ""


def minutes(source: Path) -> float:
    """Return the declared duration of a notebook (``biaslab.minutes`` in its metadata); 0 if undeclared."""
    try:
        return float(json.loads(source.read_text(encoding="utf-8"))["metadata"]["biaslab"]["minutes"])
    except (OSError, ValueError, KeyError, TypeError):  # an unreadable notebook fails when it is executed
        return 0.0


def changes(source: Path, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a run that differ from the notebook's own; empty if it cannot be read."""
    try:
        return differing(defaults(parameters_cell(source)) | dict(wanted), recorded(source))
    except (OSError, ValueError, KeyError, SyntaxError):  # it fails when it is executed
        return {}


def execute(task: NotebookTask) -> NotebookRun | Failure:
    """Execute a notebook; failures are returned, never raised."""
    out, started = Path(task.always["out"]), time.monotonic()
    files, stored = _files(out), count_replies(task)
    task.target.unlink(missing_ok=True)
    try:
        with tempfile.TemporaryDirectory() as folder, _quietly():
            tally = Path(folder) / "tally.json"
            ignored = _papermill(task, tally)
            counts = json.loads(tally.read_text(encoding="utf-8")) if tally.exists() else Tally().counts
    except Exception as error:  # papermill, the kernel and the notebook may raise anything
        return _failure(task, error)
    except KeyboardInterrupt:
        _silence_leftover_tasks()
        raise
    if task.jobs == 1:
        counts["asked"] = count_replies(task) - stored
    written = tuple(file for file, stamp in _files(out).items() if files.get(file) != stamp and _is_own(task, file))
    add_alt_texts(task.target, [file for file in written if file.suffix == ".png"])
    rows = sum(_n_rows(file) for file in written if file.suffix == ".csv")
    return NotebookRun(task.source.stem, written, time.monotonic() - started, **counts, estimates=rows, ignored=ignored)


def add_alt_texts(notebook: Path, pictures: Sequence[Path]) -> None:
    """Give each picture in an executed notebook the headline of the figure that its cell saved, as alternative text."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    for cell in content["cells"]:
        source = "".join(cell["source"])
        places = {file: source.find(f'{file.stem.partition("__")[2]}"') for file in pictures}
        saved = sorted((file for file in pictures if places[file] >= 0), key=lambda file: places[file])
        shown = [output for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
        for output, file in zip(shown, saved, strict=True) if len(shown) == len(saved) else ():
            output["metadata"].setdefault("image/png", {})["alt"] = find_headline(file.with_suffix(".csv"))
    with replacing(notebook) as partial:
        partial.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def find_headline(path: Path) -> str:
    """Return the sentence in the column ``headline`` of a CSV file; empty if there is none."""
    try:
        sentences = read_csv(path, usecols=["headline"])["headline"].dropna().unique()
    except (OSError, ValueError):
        return ""
    return str(sentences[0]) if len(sentences) == 1 else ""


def load_ipython_extension(shell: Any) -> None:
    """Record in a notebook's kernel the requests of judges with a store; loaded by IPython, see `_kernel`."""
    target = Path(os.environ[_TALLY])
    shell.events.register("post_run_cell", lambda _: target.write_text(json.dumps(PROCESS.counts), encoding="utf-8"))


def _papermill(task: NotebookTask, tally: Path) -> tuple[str, ...]:
    """Execute with the parameters that exist in the notebook; return the names of the others."""
    import papermill

    types, own = types_of(task.source), recorded(task.source)
    parameters = {name: value for name, value in (task.wanted | task.always).items() if name in types}
    if parameters.get("out") == own.get("out") and not changes(task.source, task.wanted):
        parameters.pop("out", None)  # for a later manual run of the executed notebook with other parameters
    kernel = {"kernel_name": "python3", "kernel_manager_class": _kernel(tally, task.jobs)}
    how = {"parameters": parameters, "progress_bar": task.progress and task.jobs == 1, **kernel}
    papermill.execute_notebook(_plain(task.source), _plain(task.target), **how)
    return tuple(name for name in task.wanted if name not in types)


def _plain(path: Path) -> str:
    return str(path).replace("{", "{{").replace("}", "}}")  # papermill formats braces


def _kernel(tally: Path, jobs: int) -> type:
    """Return the class of a silent kernel that counts requests and runs this interpreter, whatever "python3" is."""
    from ipykernel.kernelspec import RESOURCES, get_kernel_dict
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    environment = {_TALLY: str(tally), PROJECT: str(Path.cwd())}
    if jobs > 1:
        share = str(max(1, (os.cpu_count() or 1) // jobs))
        environment |= {name: os.environ.get(name, share) for name in _THREADS}
    options = [f"--InteractiveShellApp.extra_extensions={__name__}"]

    class Kernel(AsyncKernelManager):
        @property
        def kernel_spec(self) -> KernelSpec:
            return KernelSpec(resource_dir=RESOURCES, **get_kernel_dict(options))

        async def start_kernel(self, **settings: Any) -> None:  # type: ignore[override]
            settings |= {"env": os.environ | environment, "stdout": DEVNULL, "stderr": DEVNULL}
            await self._async_start_kernel(**settings)

    return Kernel


def _failure(task: NotebookTask, error: Exception) -> Failure:
    name, text = getattr(error, "ename", type(error).__name__), getattr(error, "evalue", str(error))
    where = f"; partially executed copy: {task.target}" if task.target.exists() else ""
    return Failure(" ".join(f"{task.source.name} failed with {name}: {text}".split()) + where, str(error))


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep log messages and warnings of papermill and Jupyter off the terminal."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _silence_leftover_tasks() -> None:
    """Silence the event loop about tasks left over from an interrupt, such as that of a killed kernel."""
    from jupyter_core.utils import ensure_event_loop

    if not (loop := ensure_event_loop()).is_running():  # otherwise it is the user's own, in JupyterLab
        loop.set_exception_handler(lambda *_: None)


def count_replies(task: NotebookTask) -> int:
    """Return the number of replies in the store of a task."""
    with Store(task.always["store"]) as store:
        return len(store)


def _files(folder: Path) -> dict[Path, tuple[int, int]]:
    files = sorted(file for file in folder.iterdir() if file.is_file())
    return {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in files}


def _is_own(task: NotebookTask, file: Path) -> bool:
    """Return whether a file belongs to this notebook, by the name before the two underscores, as others may run too."""
    return task.jobs == 1 or file.name.split("__")[0] in (task.source.stem, short_name(task.source))


def short_name(notebook: Path) -> str:
    """Return a notebook's name without suffix and leading number: "tour" of "00_tour.ipynb"."""
    return notebook.stem.lstrip("0123456789").lstrip("_") or notebook.stem


def _n_rows(table: Path) -> int:
    with table.open(encoding="utf-8", newline="") as lines:
        return max(0, sum(1 for _ in csv.reader(lines)) - 1)
