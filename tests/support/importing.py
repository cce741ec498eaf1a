"""Workers of a parallel run import the test modules each from another place on.

Every worker imports all of them, and what takes longest is to rewrite their assertions, which is kept on disk. If all
began with the first, each would rewrite all; so each rewrites a share, and finds the others' when it comes to them.
"""

from __future__ import annotations

import importlib
from contextlib import suppress

import pytest

from tests.support.paths import ROOT


def import_from_ones_place_on(config: pytest.Config) -> None:
    """In a worker that collects all tests; what cannot be imported is told by collecting."""
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    start = int(worker["workerid"].removeprefix("gw")) * len(files) // int(worker["workercount"])
    for path in files[start:] + files[:start]:
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
