"""Signals end a call that runs, from Python, soon and without harm to others. In processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tesserac.base.interrupts import interrupts_kept
from tesserac.ir.core import Module
from tesserac.ir.passes import Level, Pass, run_passes
from tests.support.paths import ROOT

PROGRAM = """
import os, signal, sys, threading, time
import numpy as np
import tessera

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs do not have
m = tessera.compile('''
def turns(x: Tensor[N, f32]) -> Tensor[N, f32]:
    y = x
    for i in range(2000000000):
        y = y * 0.999 + x
    return y

def within(x: f32) -> f32:
    y = x
    for a in range(60):
        for b in range(60):
            for c in range(60):
                for d in range(60):
                    for e in range(60):
                        for f in range(60):
                            y = y * 0.999 + x
    return y

def search(x: f32) -> f32:
    y = x
    while y > -1.0:
        y = y * 0.999
    print("behind the loop")
    return y

def launches(a: Tensor[N, N, f32]) -> Tensor[N, N, f32]:
    y = a
    for i in range(1000000):
        y = y @ a
    return y

@export(donate=(x,))
def taken(x: Tensor[N, f32]) -> Tensor[N, f32]:
    for i in range(2000000000):
        x = x * 0.999 + 1.0
    return x

def small(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return x + 1.0
''')
tessera.set_num_threads(int(sys.argv[1]))
for name in ("turns", "within", "search", "launches", "taken"):
    m[name]._specialized(())  # a signal ends a running call, not the compilation before it
x = np.ones(5, np.float32)
assert m.small(x).tolist() == [2] * 5
calls = {
    "turns": lambda: m.turns(x),
    "wide turns": lambda: m.turns(np.ones(100_000, np.float32)),
    "within": lambda: m.within(1.0),
    "search": lambda: m.search(1.0),
    "launches": lambda: m.launches(np.eye(400, dtype=np.float32)),
    "taken": lambda: m.taken(np.ones(5, np.float32)),
    "careful": lambda: m.turns(x, out=np.empty(5, np.float32)),
}
"""
EACH = PROGRAM + """
import faulthandler
faulthandler.dump_traceback_later(100, exit=True)
for name, call in calls.items():
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        call()
        print(name, "returned")
    except KeyboardInterrupt:
        print(name, "stopped")
    assert m.small(x).tolist() == [2] * 5, "later calls are as ever"
"""
OWN = PROGRAM + """
class Late(Exception): pass
def handler(*_): raise Late("own")
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 1.0)
try:
    m.turns(x)
except Late as error:
    print("raised", error)
seen = []
def second(*_):
    seen.append(len(seen))
    if len(seen) == 2: os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGALRM, second)
signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
try:
    m.turns(x)
except KeyboardInterrupt:
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("handlers that return let the call go on:", seen)
"""
OTHERS = PROGRAM + """
results, stop = [], threading.Event()
def work():
    while not stop.is_set():
        results.append(m.small(np.zeros(3, np.float32)).tolist() == [1] * 3)
        m.launches  # other threads go on
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
signal.setitimer(signal.ITIMER_REAL, 1.0)
try:
    m.turns(x)
except KeyboardInterrupt:
    print("stopped")
before = len(results)
time.sleep(0.3)
stop.set()
for thread in threads: thread.join()
print(all(results) and len(results) > before)
"""


def run(text: str, *words: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in (".", "runtime"))}
    command = [sys.executable, "-c", text, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.one_in(48)
@pytest.mark.parametrize("threads", ["1", "2"])
def test_an_interrupt_ends_a_call(threads: str) -> None:
    names = ["turns", "wide turns", "within", "search", "launches", "taken", "careful"]
    assert run(EACH, threads) == [f"{name} stopped" for name in names]


@pytest.mark.one_in(24)
def test_what_a_handler_raises_is_raised() -> None:
    assert run(OWN, "2") == ["raised own", "handlers that return let the call go on: [0, 1]"]


@pytest.mark.one_in(48)
def test_other_threads_are_not_interrupted() -> None:
    assert run(OTHERS, "2") == ["stopped", "True"]


class Dying:
    """Python asks for signals while it drops an object, and has nobody to raise to."""

    def __del__(self) -> None:
        raise KeyboardInterrupt


def test_what_comes_while_an_object_is_dropped_is_raised_by_the_next_pass_or_at_the_end() -> None:
    level = Level("graph", frozenset())
    steps: list[str] = []

    def drops(module: Module) -> Module:
        steps.append("drops")
        Dying()
        return module

    passes = [Pass("drops", level, level, drops), Pass("never", level, level, drops)]
    hook = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt), interrupts_kept():
        run_passes(Module(), passes, verify=False)
    assert steps == ["drops"]
    with pytest.raises(KeyboardInterrupt), interrupts_kept():
        Dying()
    with interrupts_kept():
        pass
    assert sys.unraisablehook is hook
