"""The command line: ``biaslab screen``, ``figures``, ``probe``, ``plan``, ``list``, ``audit``, ``doctor`` and more."""

from __future__ import annotations

import contextlib
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated

import typer

from biaslab.cli import audit, figures, probe, report, store
from biaslab.cli.command import CommandGroup
from biaslab.core import errors
from biaslab.core.output import count
from biaslab.core.secrets import require_none_in_command
from biaslab.core.stopping import Stopped, dropped

__all__ = ["app", "main"]

_INTERRUPTED = 130
_EPILOG = """
\b
Start here:
  biaslab audit verdicts.csv      kappa, TPR, TNR, leniency against ground truth;
                                  biases that the log reveals
  biaslab screen smollm2-135m --out card
  biaslab figures --only position --contexts 4
  biaslab probe position --attribute coherence --out position.csv
\b
Exit codes: 0 success, 1 outside the limits (check), 2 wrong command or input,
3 any other failure, 4 more than half of a log could not be read, or the study
is too small to tell (check), 130 stopped by Ctrl-C, 143 stopped by SIGTERM.
"""

app = typer.Typer(
    cls=CommandGroup,
    help="Measure the biases of LLM judges.",
    epilog=_EPILOG,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for commands in (probe.study_app, figures.figures_app, report.estimates_app, audit.logs_app, store.view_app):
    app.add_typer(commands)
app.add_typer(store.store_app, name="store")
app.add_typer(probe.batch_app, name="batch")
app.add_typer(audit.atlas_app, name="atlas")
app.add_typer(figures.notebooks_app, name="notebooks")
app.add_typer(probe.protocol_app, name="protocol")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0: success, 1: outside limits, 2: wrong input, 3: other failure, 4: unreadable log or too small study, 130: stopped.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments after ``biaslab``; default: those of the command line.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning  # type: ignore[assignment]
        warnings.simplefilter("ignore", errors.NearestDesignWarning)  # the output itself says it
        try:
            require_none_in_command(words)
            code: int = app(words or ["--help"], prog_name="biaslab", standalone_mode=False) or 0
        except Stopped:
            with contextlib.suppress(OSError):  # the terminal is closed
                typer.echo(_stopped(), err=True)
            raise
        except Exception as error:
            if debug:
                traceback.print_exc()
            code, message = _explain(error)
            typer.echo(message, err=True)
    if code == _INTERRUPTED:
        typer.echo(_stopped(), err=True)
    return code


def _stopped() -> str:
    """Say what is in the store after a stop, and how many requests in flight are not."""
    lost = f", but {count(dropped(), 'request')} in flight had to be dropped" if dropped() else ""
    return f"biaslab: stopped; all replies so far are in the store{lost}; run the same command again to continue"


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"biaslab {metadata.version('biaslab')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; allowed anywhere.")] = False,
) -> None:
    pass


def _explain(error: Exception) -> tuple[int, str]:
    """Return the exit code and the one-line message of an error; lines of a mapping to copy stay separate."""
    words = str(error)
    if isinstance(error, errors.BudgetExceededError) and error.options:
        words = f"{error.reason}; {error.options}"
    lines = words.split("\n  ") if isinstance(error, errors.InputError) else [words]
    text = "\n  ".join(" ".join(line.split()) for line in lines)
    if isinstance(error, errors.BiaslabError):
        code = 2 if isinstance(error, errors.InputError) else 3
        code = audit.UNREAD if isinstance(error, errors.UnreadableLogError) else code
        return code, f"biaslab: {text}"
    if isinstance(error, typer.Abort):
        return 3, "biaslab: not confirmed; nothing was changed"
    if isinstance(error, typer.TyperException):
        if error.message.startswith("Usage:"):  # a group without a command shows its help
            return 2, error.message
        return 2, f"biaslab: {' '.join(error.format_message().split())}"
    return 3, f"biaslab: unexpected {type(error).__name__}: {text}; run with --debug to see where"


def _show_warning(message: Warning | str, category: type[Warning], *_: object) -> None:
    prefix = "" if issubclass(category, errors.MissingDataWarning) else f"{category.__name__}: "
    typer.echo(f"biaslab: warning: {prefix}{' '.join(str(message).split())}", err=True)


def __dir__() -> list[str]:
    return __all__
