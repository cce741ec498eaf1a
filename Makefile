# Everything runs in the project's own virtual environment; the first use of a target makes it.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types tests bench docs clean

demo: .venv/installed
	$(BIN)/python examples/demo.py

test: lint types tests

lint: .venv/tools
	$(BIN)/ruff check .

types: .venv/tools
	$(BIN)/mypy

tests: .venv/tools
	$(BIN)/python -m pytest -q

# Writes the generated pages; `make tests` fails while they are out of date.
docs: .venv/tools
	$(BIN)/python -m docs.generate

bench: .venv/installed
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python -m benchmarks

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e .
	touch $@

.venv/tools: .venv/installed
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@

clean:
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
