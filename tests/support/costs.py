"""What the suite costs, in seconds of CPU: a pytest plugin that writes one file per process, and the sums over them.

    python -m pytest -p tests.support.costs --costs DIR -n 2
    python -m tests.support.costs DIR

Seconds of CPU, of the process and of the ones it waited for, hardly depend on what else the machine does.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest


def spent() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Costs:
    """Counts what each test of this process takes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.collected = 0.0
        self.tests: dict[str, float] = {}

    def pytest_collection_finish(self) -> None:
        self.collected = spent()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        start = spent()
        done = yield
        self.tests[item.nodeid] = spent() - start
        return done

    def pytest_sessionfinish(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        found = {"collected": self.collected, "total": spent(), "tests": self.tests}
        (self.folder / f"{os.getpid()}.json").write_text(json.dumps(found), encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", help="a folder for the seconds of CPU that every test takes")


def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("--costs")
    if folder:
        config.pluginmanager.register(Costs(Path(folder).resolve()))


def summary(folder: Path) -> str:
    """The sums by file and by function, dearest first."""
    files: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    lines = []
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        lines.append(f"{found['total']:8.1f}  process {path.stem}, of that {found['collected']:.1f} until collected")
        for name, seconds in found["tests"].items():
            files[name.split("::")[0]] += seconds
            functions[name.split("[")[0]] += seconds
    lines.append(f"{sum(files.values()):8.1f}  in tests")
    for title, counts in (("files", files), ("functions", functions)):
        lines += [f"\n{title}"] + [f"{seconds:8.2f}  {name}" for name, seconds in counts.most_common(120)]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(summary(Path(sys.argv[1])) + "\n")
