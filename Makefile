PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo tour quick test test-gpu fuzz mutants docs format constraints clean

demo: $(VENV)/installed  ## train on 8×8 digits (a minute or two), compare, and write a page: demo/index.html
	$(BIN)/python examples/demo.py

tour: $(VENV)/installed  ## the circuits of the paper's figures, their properties, Z = 1 and a marginal
	$(BIN)/python examples/paper_tour.py

test: $(VENV)/installed  ## lint, types, import contract, tests, doctests, README snippets
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2 --dist loadgroup

quick: $(VENV)/installed  ## under a minute: lint, types, and the tests of the folders that have changed; AGAINST=main
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/quick.py $(if $(AGAINST),--against $(AGAINST))

test-gpu: $(VENV)/installed  ## the tests that need a CUDA device: kernels and captured steps
	$(BIN)/python -c 'import sys, torch; torch.cuda.is_available() or sys.exit("make test-gpu: there is no CUDA device here")'
	$(BIN)/python -m pytest -m gpu tests

fuzz: $(VENV)/installed  ## random circuits against an independent oracle: SECONDS=60, SEEDS=1000, SEED=17, JOBS=2
	$(BIN)/python fuzz/run.py $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS))

mutants: $(VENV)/installed  ## small mistakes that the tests must notice: NAMES="haar-sign polar-order", JOBS=2
	$(BIN)/python tests/kill_mutants.py $(NAMES) $(if $(JOBS),--jobs $(JOBS))

docs: $(VENV)/installed  ## the site, in build/docs/index.html; notebooks are executed where they have changed
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs build/docs

format: $(VENV)/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

constraints: $(VENV)/installed  ## pin what is installed now
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//; s/ @ .*//' > constraints.txt

clean:
	rm -rf $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("squircuit needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable '.[compress,data,dev,docs,estimators,explore,networks,plot,tensorboard,yaml]'
	touch $@
