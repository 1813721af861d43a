from .notebook import NotebookRun as NotebookRun
from .regenerate import list_notebooks as list_notebooks, regenerate as regenerate
