# Everything runs in the project's own virtual environment; the first use of a target makes it.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types tests bench clean

demo: .venv/installed
	$(BIN)/python examples/demo.py

test: lint types tests

lint: .venv/installed
	$(BIN)/ruff check .

types: .venv/installed
	$(BIN)/mypy

tests: .venv/installed
	$(BIN)/python -m pytest -q

bench: .venv/installed
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python -m benchmarks

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@

clean:
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
