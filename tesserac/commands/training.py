"""`tessera train FILE --steps N`: calls `step` again and again, shows the loss, keeps checkpoints.

Enters: a program with `init` and `step`, perhaps `data` and `evaluate` (docs/training-command.md). Leaves: a
checkpoint, a plot of the loss, an exit status. A run that was stopped and resumed has the bits of one that was not: the
state is all that a step knows, and the random stream of step k follows from the seed and k.
"""

from __future__ import annotations

import itertools
import math
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import tessera
from tessera.checkpoint import Checkpoint, encode_checkpoint, leaves_of, load_checkpoint, save_checkpoint, write_whole
from tessera.errors import NO_SUCH_FUNCTION, WRONG_ARGUMENTS, failure
from tessera.module import Function
from tessera.random_stream import fold_in, read_seed
from tesserac.base.dataclass import dataclass
from tesserac.commands.loss_plot import loss_plot
from tesserac.commands.outcome import FAULT, MISTAKES, OK, UsageMistake
from tesserac.commands.progress import Progress
from tesserac.commands.showing import show_value
from tesserac.driver.faults import INTERNAL_FAULT

INTERRUPTED = 130
Say = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """`steps` counts from the very first, also where a run is resumed; then the seed is that of the checkpoint."""

    file: str
    steps: int
    checkpoint: str | None
    resume: bool
    plot: str | None
    save_every: int
    seed: int | None
    threads: int | None
    device: str = "cpu"

    @property
    def is_on_gpu(self) -> bool:
        return self.device != "cpu"


def train(wanted: Wanted, say: Say, complain: Say) -> int:
    """Runs a training; `say` and `complain` print. Gives the exit status."""
    _refuse(wanted)
    try:
        if wanted.threads is not None:
            tessera.set_num_threads(wanted.threads)
        return _Run(wanted, say, complain).whole()
    except tessera.TesseraError as error:
        complain(f"{error.text}\n")
        return FAULT if error.code == INTERNAL_FAULT else MISTAKES


def _refuse(wanted: Wanted) -> None:
    """Raises UsageMistake for what would fail, or overwrite something, only at the end."""
    if wanted.resume and wanted.checkpoint is None:
        raise UsageMistake("--resume goes with --checkpoint FILE, which says where to go on from")
    if wanted.resume and wanted.seed is not None:
        raise UsageMistake("--resume goes on with the seed that the checkpoint has: leave --seed out")
    if wanted.checkpoint is not None and not wanted.resume and os.path.exists(wanted.checkpoint):
        raise UsageMistake(f"`{wanted.checkpoint}` is there already: go on from it by --resume, or name another file")
    for path in (wanted.checkpoint, wanted.plot):
        if path is not None and not Path(path).absolute().parent.is_dir():
            raise UsageMistake(f"cannot write `{path}`: there is no such folder")


class _Run:
    """`state` after `step` steps with these losses. A step may take the memory of the state before it."""

    def __init__(self, wanted: Wanted, say: Say, complain: Say) -> None:
        self.wanted, self.say, self.complain = wanted, say, complain
        self.module, self.seed = tessera.load(wanted.file, device=wanted.device), read_seed(wanted.seed or 0)
        self.data = self._data()
        self.state = self._first_state()
        self.form = _form(self.state)
        self.step, self.losses, self.saved = 0, list[float](), 0
        if wanted.resume and wanted.checkpoint is not None:
            self.state, self.step, losses, self.seed = load_checkpoint(wanted.checkpoint, self.state)
            self.losses, self.saved = list(losses), self.step
        if wanted.is_on_gpu:  # from here on they stay there; checkpoints and the loss are copied back
            self.data = tuple(tessera.to_device(value, wanted.device) for value in self.data)
            self.state = tessera.to_device(self.state, wanted.device)

    def _function(self, name: str) -> Function:
        found = self.module[name] if name in dir(self.module) else None
        if not isinstance(found, Function):
            note = "`init` makes the first state, `step` a state and a loss of a state"
            raise failure(NO_SUCH_FUNCTION, f"`{self.wanted.file}` has no function `{name}` to train with", (note,))
        return found

    def _data(self) -> tuple[object, ...]:
        if "data" not in dir(self.module):
            return ()
        found = self._function("data")()
        return found if isinstance(found, tuple) else (found,)

    def _first_state(self) -> object:
        init = self._function("init")
        seeded = any(parameter.name == "seed" for parameter in init.interface.parameters)
        state = init(seed=self.wanted.seed or 0) if seeded else init()
        encode_checkpoint(Checkpoint(state, 0, ()))  # a state that cannot be saved is refused before any work
        return state

    def whole(self) -> int:
        status = self._iterations()
        if status == OK and "evaluate" in dir(self.module):
            self.say(f"evaluate: {show_value(tessera.to_host(self._evaluated()))}")
        if self.wanted.plot is not None and self.losses:
            write_whole(self.wanted.plot, loss_plot(self.losses, Path(self.wanted.file).stem).encode())
            self.say(f"wrote {self.wanted.plot}\n")
        return status

    def _evaluated(self) -> object:
        return self._function("evaluate")(self.state, *self.data)

    def _iterations(self) -> int:
        """All steps that are left, to the end, an interruption or a loss that is no number."""
        step = self._function("step")
        with _interruptions() as interrupted, Progress(self.wanted.steps, self.step, self.say) as progress:
            while self.step < self.wanted.steps and not interrupted():
                self._one_step(step)
                progress.show(self.step, self.losses[-1])
                if not math.isfinite(self.losses[-1]):
                    return self._diverged()
                if self.step % self.wanted.save_every == 0:
                    self._save()
        if self.step < self.wanted.steps:
            return self._interrupted()
        self._save()
        return OK

    def _one_step(self, step: Function) -> None:
        self.module.seed(fold_in(self.seed, self.step))
        result = step(self.state, *self.data)
        if not isinstance(result, tuple) or len(result) != 2 or getattr(result[1], "shape", None) != ():
            raise failure(WRONG_ARGUMENTS, "`step` must return the new state and the loss, which is one number")
        self.state, loss = result
        self.step += 1
        self.losses.append(float(loss))
        if self.step == 1:
            self._compare_states()

    def _compare_states(self) -> None:
        made = _form(tessera.to_host(self.state))
        for name in (*self.form, *made):
            if self.form.get(name) != made.get(name):
                message = f"`step` must return a state like that of `init`, but `{name}` differs"
                raise failure(WRONG_ARGUMENTS, message)

    def _save(self) -> None:
        if self.wanted.checkpoint is not None:
            self._save_as(self.wanted.checkpoint)

    def _save_as(self, path: str) -> None:
        save_checkpoint(path, Checkpoint(tessera.to_host(self.state), self.step, tuple(self.losses), self.seed))
        self.saved = self.step

    def _interrupted(self) -> int:
        path = self.wanted.checkpoint or _free_name(Path(self.wanted.file).stem)
        self._save_as(path)
        again = f"tessera train {self.wanted.file} --steps {self.wanted.steps} --checkpoint {path} --resume"
        self.complain(f"stopped after step {self.step}; its state is in {path}\ngo on: {again}\n")
        return INTERRUPTED

    def _diverged(self) -> int:
        """The state is worth nothing: the checkpoint stays that of an earlier step."""
        kept = f"; {self.wanted.checkpoint} has the state after step {self.saved}" if self.saved else ""
        self.complain(f"error: the loss of step {self.step} is {self.losses[-1]}{kept}\n")
        return MISTAKES


def _form(state: object) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (str(array.dtype), array.shape) for name, array in leaves_of(state, "state")}


def _free_name(stem: str) -> str:
    names = itertools.chain([f"{stem}.checkpoint"], (f"{stem}-{number}.checkpoint" for number in itertools.count(2)))
    return next(name for name in names if not os.path.exists(name))


@contextmanager
def _interruptions() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed: a step that has begun is finished. Pressed twice, it ends the program at once."""
    pressed: list[int] = []

    def press(number: int, frame: object) -> None:
        pressed.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)
