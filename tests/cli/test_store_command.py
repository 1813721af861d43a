import subprocess
import sys
from pathlib import Path

import pandas as pd
from typer.testing import CliRunner

from biaslab.cli.store import app
from biaslab.core import Completion, Reply
from biaslab.core.errors import InputError, StoreError
from biaslab.store import Store


def test_cli_shows_exports_and_prunes(tmp_path: Path) -> None:
    run, store = CliRunner().invoke, str(tmp_path / "replies.sqlite")
    with Store(store) as file:
        for number in range(90):
            file.put(Completion(f"Say {number}."), "hash", Reply(text=str(number)))
    assert "90 replies" in run(app, ["info", store]).output
    out = tmp_path / "out.csv"
    assert "90 replies written" in run(app, ["export", store, str(out)]).output
    assert len(pd.read_csv(out)) == 90
    prune = ["prune", store, "--judge", "hash"]
    assert "90 of 90" in run(app, [*prune, "--dry-run"]).output
    assert run(app, prune, input="n\n").exit_code == 1
    assert "90 replies deleted, 0 kept" in run(app, [*prune, "--yes"]).output
    assert "nothing to delete" in run(app, prune).output
    assert isinstance(run(app, ["prune", store]).exception, InputError)
    missing = tmp_path / "missing.sqlite"
    assert isinstance(run(app, ["info", str(missing)]).exception, StoreError)
    assert not missing.exists()


def test_import_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'openai', 'matplotlib', 'pandas', 'pyarrow'}"
    script = f"import sys, biaslab.store, biaslab.cli.store; sys.exit(len({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
