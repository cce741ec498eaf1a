"""What makes importing cheap for the workers of a parallel run, and for the processes that tests start.

Every worker imports all test modules, and what takes longest is to rewrite their assertions, which is kept on disk. If
all began with the first, each would rewrite all; so each begins at another place, rewrites a share, and finds the
others' when it comes to them. The library, which takes as long to check where none is kept, is checked by one worker
while the others import.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import sys
import tempfile
from contextlib import suppress

import pytest

from tests.support.paths import ROOT


def share_bytecode(config: pytest.Config) -> None:
    """Where the environment forbids to keep bytecode beside the code, the processes that tests start (and the workers
    of a parallel run) keep it in a folder of this run: each would compile all of the compiler for itself, which takes
    four times as long as importing it. One that is still starting when all is over may write there meanwhile."""
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        folder = tempfile.TemporaryDirectory(prefix="tessera-bytecode-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        os.environ["PYTHONPYCACHEPREFIX"] = folder.name
        _take_along(folder.name)


def _take_along(folder: str) -> None:
    """Bytecode that lies beside installed modules is not looked for by who has a folder: that of the modules in use is
    copied there."""
    importlib.import_module("numpy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "pycache_prefix", folder)
        for module in list(sys.modules.values()):
            spec = getattr(module, "__spec__", None)
            if spec is None or not spec.has_location or not os.path.isfile(spec.cached or ""):
                continue
            copy = importlib.util.cache_from_source(spec.origin)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            shutil.copyfile(spec.cached, copy)


def import_from_ones_place_on(config: pytest.Config) -> None:
    """In a worker that collects all tests; what cannot be imported is told by collecting."""
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    number = int(worker["workerid"].removeprefix("gw"))
    if number == 0:
        _load_library()
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    start = number * len(files) // int(worker["workercount"])
    for path in files[start:] + files[:start]:
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    _load_library()


def _load_library() -> None:
    """Who comes while another worker checks it waits, and finds it kept. A library with a mistake is told by tests."""
    with open(__file__, encoding="utf-8") as lock, suppress(AssertionError):
        fcntl.flock(lock, fcntl.LOCK_EX)
        importlib.import_module("tesserac.modules.library").load_library()
