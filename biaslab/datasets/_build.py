"""Builds the two constructed sets anew.

Run ``python -m biaslab.datasets._build`` after a change of a source file or of ``_degrade.py``: it rewrites
``graded_built.csv`` and ``dialogues_built.csv``.
"""

from pathlib import Path

from biaslab.core.csv_files import write_csv
from biaslab.datasets import dialogues, graded
from biaslab.datasets._degrade import FOLDER


def main(folder: Path = FOLDER) -> None:
    """Write the built files of both sets."""
    for name, built in (("graded", graded.build()), ("dialogues", dialogues.build())):
        write_csv(built, folder / f"{name}_built.csv")


if __name__ == "__main__":
    main()
