"""The notebooks come with the package; copies of them are the user's."""

import json
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import InputError
from biaslab.core.project import bundled
from biaslab.figures.regenerate import copy_notebooks, list_notebooks

NAMES = sorted(path.name for path in bundled().glob("*.ipynb"))


@pytest.fixture(autouse=True)
def _work_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_bundled_notebooks_include_one_per_probe():
    assert {f"{name}.ipynb" for name in bl.probes.available()} <= set(NAMES)
    assert [path.name for path in list_notebooks()] == NAMES  # there is no folder of notebooks here


def test_copies_are_run_instead_of_the_originals(capsys):
    assert main(["notebooks", "copy"]) == 0
    assert f"{len(NAMES)} notebooks written to notebooks, 0 there already" in capsys.readouterr().out
    assert {path.parent for path in list_notebooks()} == {Path("notebooks")}
    for name in NAMES:
        assert Path("notebooks", name).read_bytes() == (bundled() / name).read_bytes()


def test_changed_copies_are_kept_unless_overwrite(capsys):
    copy_notebooks("mine")
    changed, lost = Path("mine/position.ipynb"), Path("mine/source.ipynb")
    changed.write_text(json.dumps({"mine": True}))
    lost.unlink()
    Path("mine/my_own.ipynb").write_text("{}")
    done = copy_notebooks("mine")
    assert (done.written, done.kept, len(done.same)) == ((lost,), (changed,), len(NAMES) - 2)
    assert main(["notebooks", "copy", "mine"]) == 0
    assert "kept your changed versions of: position.ipynb; use --overwrite to replace them" in capsys.readouterr().out
    assert json.loads(changed.read_text()) == {"mine": True}
    assert main(["notebooks", "copy", "mine", "--overwrite"]) == 0
    assert changed.read_bytes() == (bundled() / "position.ipynb").read_bytes()
    assert Path("mine/my_own.ipynb").read_text() == "{}"


def test_unwritable_folder_is_refused_in_one_sentence(capsys):
    Path("file").write_text("")
    with pytest.raises(InputError, match=r"folder is 'file/deep', allowed: a folder that can be written"):
        copy_notebooks("file/deep")
    assert main(["notebooks", "copy", "file"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
