"""Shared test set-up: `--update` re-blesses golden files, `--thorough` runs every sweep whole, `--part` chooses what is
run of the sweeps that take turns; hypothesis has no time limits, since machines are noisy, and draws the same examples
on every run but a thorough one; the garbage collector runs seldom."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.support import folding, importing, levels, rotation, sampling

pytest_plugins = ("tests.support.costs",)

_ALWAYS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("brief", _ALWAYS, max_examples=20, derandomize=True)
settings.register_profile("thorough", _ALWAYS, max_examples=200)
settings.load_profile("brief")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite golden files with what the code gives now")
    parser.addoption("--thorough", action="store_true", help="every case of every sweep, and more random programs")
    parser.addoption("--part", type=int, help=f"which of {rotation.PARTS**2} parts of the sweeps that take turns")
    parser.addoption("--case", default="", help="only the cases of folded tests whose names contain this text")


def pytest_configure(config: pytest.Config) -> None:
    importing.share_bytecode(config)
    folding.only = config.getoption("--case")
    rotation.choose_part(config.getoption("--part"))
    if config.getoption("--thorough"):
        sampling.thorough = True
        settings.load_profile("thorough")
    else:
        _draw_the_same_everywhere()


def _draw_the_same_everywhere() -> None:
    """Hypothesis takes constants out of all modules that happen to be loaded, so that what it draws depends on what ran
    before; and to read the compiler for them takes seconds in each worker."""
    providers.is_local_module_file = lambda path: False  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(rotation.summary())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whoever names tests gets them."""
    named = config.getoption("keyword") or any("::" in arg for arg in config.args)
    if not (named or sampling.thorough):
        config.hook.pytest_deselected(items=rotation.select(items))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    importing.import_from_ones_place_on(session.config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    levels.choose_level(item)


def pytest_collection_finish() -> None:
    """What collecting has made, sixteen thousand tests and the library, lives to the end: walking it over and over for
    garbage took a sixth of the suite's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 10)


class Golden:
    """Compares text with a kept file, or rewrites the file under `--update`."""

    def __init__(self, update: bool) -> None:
        self.update = update

    def check(self, path: Path, text: str) -> None:
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing; run pytest --update and read the diff"
        assert text == path.read_text(encoding="utf-8")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(bool(request.config.getoption("--update")))
