# Everything runs in the project's own virtual environment; the first use of a target makes it.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types tests bench docs site wheel vsix clean

demo: .venv/installed
	$(BIN)/python examples/demo.py

test: lint types tests

lint: .venv/tools
	$(BIN)/ruff check .

types: .venv/tools
	$(BIN)/mypy

tests: .venv/tools
	$(BIN)/python -m pytest -q --numprocesses auto --dist loadfile

# Writes the generated pages; `make tests` fails while they are out of date.
docs: .venv/tools
	$(BIN)/python -m docs.generate

# The site in build/site, from the Markdown of the project; a broken link is an error.
site: .venv/installed
	$(BIN)/python -m pip install --quiet -e '.[site]'
	$(BIN)/python -m docs.site build
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet -f build/mkdocs.yml

# The wheel and the source archive in dist/, built twice and compared byte for byte.
wheel: .venv/tools
	.ci/wheel dist $(BIN)/python

bench: .venv/installed
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python -m benchmarks

# The extension for Visual Studio Code, tested and packed into vscode-extension/tessera.vsix. Needs node 18 or newer.
vsix: vscode-extension/node_modules
	cd vscode-extension && npm test && npm run package

vscode-extension/node_modules: vscode-extension/package-lock.json
	cd vscode-extension && npm ci --prefer-offline --ignore-scripts --no-audit --no-fund
	touch $@

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
