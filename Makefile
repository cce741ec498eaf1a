# Everything runs in the project's own virtual environment; the first use of a target makes it.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest -q --numprocesses auto --dist worksteal

.PHONY: demo test quick thorough coverage lint types tests bench docs site wheel vsix clean

demo: .venv/installed
	$(BIN)/python examples/demo.py

# The whole check. mypy runs beside the tests: it takes one core for a while.
test: .venv/tools
	$(MAKE) --jobs=2 lint types tests

# What most changes break, in two minutes: the text, the checker, messages, the levels' own rules, one program.
quick: .venv/tools
	$(BIN)/ruff check .
	$(PYTEST) -m 'not slow' $(addprefix tests/,test_layers.py base diag types syntax ir check) \
	    tests/programs/test_four_programs.py

# Every case of every sweep, and as many random programs as an hour holds. What is found is told in build/thorough.
thorough: .venv/tools
	mkdir -p build/thorough
	$(PYTEST) --thorough --junit-xml build/thorough/tests.xml
	$(BIN)/python -m tests.tools.random_programs build/thorough/programs.md --count 10000 --seconds 1200
	$(BIN)/python -m tests.tools.random_gradients build/thorough/gradients.md --count 1000 --seconds 1200
	$(BIN)/python -m tests.tools.mutants build/thorough/mutants.md --count 1000
	$(BIN)/python -m tests.tools.random_branches --count 300
	$(BIN)/python -m tests.tools.composed_transforms --count 300 --length 3

# The lines that `make tests` runs, file by file; those it does not are marked in build/coverage/index.html.
coverage: .venv/tools
	$(BIN)/python -m pip install --quiet -e '.[coverage]'
	$(PYTEST) --cov --cov-report term:skip-covered --cov-report html:build/coverage

lint: .venv/tools
	$(BIN)/ruff check .

types: .venv/tools
	$(BIN)/mypy

# PART=N asks for one of the 48 parts of what takes turns; without, the commit chooses. To rewrite the assertions of all
# files takes as long as a hundred tests; what fails runs again with them rewritten, so that its values are shown. The
# library is checked and kept first: all workers would do it at once.
tests: .venv/tools
	$(BIN)/python -c 'from tesserac.modules.library import load_library; load_library()'
	$(PYTEST) --assert plain $(if $(PART),--part $(PART)) || \
	    { $(PYTEST) --last-failed --last-failed-no-failures none $(if $(PART),--part $(PART)); exit 1; }

# Writes the generated pages; `make tests` fails while they are out of date.
docs: .venv/tools
	$(BIN)/python -m docs.generate

# The site in build/site, from the Markdown of the project; a broken link is an error.
site: .venv/installed
	$(BIN)/python -m pip install --quiet -e '.[site]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# The wheel and the source archive in dist/, built twice and compared byte for byte.
wheel: .venv/tools
	.ci/wheel dist $(BIN)/python

bench: .venv/installed
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.table

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
