"""Execute one notebook with papermill, and count what its judges were asked."""

from __future__ import annotations

import csv
import json
import logging
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

from biaslab.core.parameters import defaults, differing, parameters_cell, recorded, types_of
from biaslab.core.project import PROJECT
from biaslab.store import Store
from biaslab.store.stored import PROCESS, Tally

_IMAGES = {".png", ".pdf", ".svg"}
_TALLY = "BIASLAB_TALLY"  # in a kernel's environment: the file into which it writes what was asked
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Run:
    """Result of executing a notebook.

    Parameters
    ----------
    notebook : str
        Its name, without the suffix.
    files : tuple of Path
        What it wrote or wrote again in the folder of the figures, sorted.
    seconds : float
        Wall-clock time, the start of the kernel included.
    asked : int
        Replies that a judge gave now: by how many the store grew or, with ``jobs`` above 1, as counted in the kernel.
    stored : int
        Replies that came from the store.
    asked_tokens, stored_tokens : int
        Tokens, read and written, of both.
    estimates : int
        Rows of the CSV files among ``files``.
    ignored : tuple of str
        Parameters that were given and that the notebook does not have.
    up_to_date : bool
        It was not executed, as it would do the same again: the rest says what it did when it was.
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
        """Names of the figures among the files; one in several formats is one figure."""
        return tuple(dict.fromkeys(file.stem for file in self.files if file.suffix in _IMAGES))


@dataclass(frozen=True)
class Task:
    """One notebook to execute.

    Parameters
    ----------
    source, target : Path
        The notebook, and where its executed copy goes.
    wanted : dict
        Parameters that a user gave.
    always : dict
        Parameters that are always given: ``store`` and ``out``.
    progress : bool
        Show a progress bar, where it is the only notebook.
    jobs : int
        How many notebooks run at once.
    """

    source: Path
    target: Path
    wanted: dict[str, Any]
    always: dict[str, Any]
    progress: bool
    jobs: int


@dataclass(frozen=True)
class Failure:
    """A notebook that failed: in one line, and the traceback of its cell."""

    message: str
    traceback: str = ""


def minutes(source: Path) -> float:
    """Return how long a notebook says that it takes (``biaslab.minutes`` in its metadata); 0 where it does not say."""
    try:
        return float(json.loads(source.read_text(encoding="utf-8"))["metadata"]["biaslab"]["minutes"])
    except (OSError, ValueError, KeyError, TypeError):  # a notebook that cannot be read fails when it is executed
        return 0.0


def changes(source: Path, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a run that are not those which the notebook came with; none where it cannot be read."""
    try:
        return differing(defaults(parameters_cell(source)) | dict(wanted), recorded(source))
    except (OSError, ValueError, KeyError, SyntaxError):  # it fails when it is executed
        return {}


def execute(task: Task) -> Run | Failure:
    """Execute one notebook; a failure of it is returned, never raised."""
    out, started = Path(task.always["out"]), time.monotonic()
    files, stored = _files(out), count_replies(task)
    task.target.unlink(missing_ok=True)
    try:
        with tempfile.TemporaryDirectory() as folder, _quietly():
            tally = Path(folder) / "tally.json"
            ignored = _papermill(task, tally)
            counts = json.loads(tally.read_text(encoding="utf-8")) if tally.exists() else Tally().counts
    except Exception as error:  # whatever papermill, the kernel or the notebook raises
        return _failure(task, error)
    except KeyboardInterrupt:
        _silence_what_is_left()
        raise
    if task.jobs == 1:
        counts["asked"] = count_replies(task) - stored
    written = tuple(file for file, stamp in _files(out).items() if files.get(file) != stamp and _is_own(task, file))
    rows = sum(_n_rows(file) for file in written if file.suffix == ".csv")
    return Run(task.source.stem, written, time.monotonic() - started, **counts, estimates=rows, ignored=ignored)


def load_ipython_extension(shell: Any) -> None:
    """Write in a notebook's kernel what judges with a store were asked; IPython loads it, see `_kernel`."""
    target = Path(os.environ[_TALLY])
    shell.events.register("post_run_cell", lambda _: target.write_text(json.dumps(PROCESS.counts), encoding="utf-8"))


def _papermill(task: Task, tally: Path) -> tuple[str, ...]:
    """Execute with the parameters that the notebook has; return the names of those it does not have."""
    import papermill

    types, own = types_of(task.source), recorded(task.source)
    parameters = {name: value for name, value in (task.wanted | task.always).items() if name in types}
    if parameters.get("out") == own.get("out") and not changes(task.source, task.wanted):
        parameters.pop("out", None)  # who runs the executed notebook again with other parameters gave none
    papermill.execute_notebook(
        _plain(task.source),
        _plain(task.target),
        parameters=parameters,
        kernel_name="python3",
        progress_bar=task.progress and task.jobs == 1,
        kernel_manager_class=_kernel(tally, task.jobs),
    )
    return tuple(name for name in task.wanted if name not in types)


def _plain(path: Path) -> str:
    return str(path).replace("{", "{{").replace("}", "}}")  # papermill fills in what stands in braces


def _kernel(tally: Path, jobs: int) -> type:
    """Make the class of a kernel: this interpreter whatever is installed as "python3", silent, with a tally."""
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


def _failure(task: Task, error: Exception) -> Failure:
    name, text = getattr(error, "ename", type(error).__name__), getattr(error, "evalue", str(error))
    where = f"; executed as far as it came: {task.target}" if task.target.exists() else ""
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


def _silence_what_is_left() -> None:
    """Let the event loop say nothing of the tasks that an interrupt left in it, such as one whose kernel was ended."""
    from jupyter_core.utils import ensure_event_loop

    if not (loop := ensure_event_loop()).is_running():  # else it is the user's own, in JupyterLab
        loop.set_exception_handler(lambda *_: None)


def count_replies(task: Task) -> int:
    """Return how many replies the store of a task has."""
    with Store(task.always["store"]) as store:
        return len(store)


def _files(folder: Path) -> dict[Path, tuple[int, int]]:
    files = sorted(file for file in folder.iterdir() if file.is_file())
    return {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in files}


def _is_own(task: Task, file: Path) -> bool:
    """Return whether a file is of this notebook, by the name before the two underscores: others may run too."""
    return task.jobs == 1 or file.name.split("__")[0] in (task.source.stem, short_name(task.source))


def short_name(notebook: Path) -> str:
    """Return a notebook's name without suffix and leading number: "tour" of "00_tour.ipynb"."""
    return notebook.stem.lstrip("0123456789").lstrip("_") or notebook.stem


def _n_rows(table: Path) -> int:
    with table.open(encoding="utf-8", newline="") as lines:
        return max(0, sum(1 for _ in csv.reader(lines)) - 1)
