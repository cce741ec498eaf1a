"""What the suite costs, in seconds of CPU: a pytest plugin that writes one file per process, and the sums over them.

    python -m pytest -p tests.support.costs --costs DIR -n 2
    python -m tests.support.costs DIR

Seconds of CPU, of the process and of the ones it waited for, hardly depend on what else the machine does.
"""

from __future__ import annotations

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
    """Writes a line for each test of this process: what it took, and what the process has taken so far."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.lines = (folder / f"{os.getpid()}.txt").open("w", encoding="utf-8", buffering=1)

    def write(self, name: str, start: float) -> None:
        now = spent()
        self.lines.write(f"{now - start:.4f} {now:.2f} {name}\n")

    def pytest_collection_finish(self) -> None:
        self.write("collected", 0.0)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        start = spent()
        done = yield
        self.write(item.nodeid, start)
        return done


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
    processes = []
    for path in sorted(folder.glob("*.txt")):
        lines = [line.split(" ", 2) for line in path.read_text(encoding="utf-8").splitlines()]
        if not lines:  # who only hands out tests
            continue
        processes.append(f"{float(lines[-1][1]):8.1f}  process {path.stem}, of that {lines[0][0]} until collected")
        for seconds, _, name in lines[1:]:
            files[name.split("::")[0]] += float(seconds)
            functions[name.split("[")[0]] += float(seconds)
    report = [*processes, f"{sum(files.values()):8.1f}  in tests"]
    for title, counts in (("files", files), ("functions", functions)):
        report += [f"\n{title}"] + [f"{seconds:8.2f}  {name}" for name, seconds in counts.most_common()]
    return "\n".join(report)


if __name__ == "__main__":
    sys.stdout.write(summary(Path(sys.argv[1])) + "\n")
