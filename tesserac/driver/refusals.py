"""Why a program is not compiled: the errors that asking for its code raises, with their diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tesserac.base.source import Span
from tesserac.base.targets import taken_on
from tesserac.check.model import typed
from tesserac.check.model.specs import OperatorSpec, Signature
from tesserac.diag.codes.files import E0904, E0905, E0906, E0907
from tesserac.diag.codes.kernels import E0513
from tesserac.diag.codes.names import E0217, E0299
from tesserac.diag.codes.runtime import E0925
from tesserac.diag.diagnostic import Code, Diagnostic
from tesserac.diag.sink import Sink
from tesserac.graph.devices import DevicesMissing
from tesserac.graph.dialect import PREFIX
from tesserac.graph.passes.fix_sizes import SizesDemanded
from tesserac.graph.passes.inline import written_symbol
from tesserac.ir.core import Op
from tesserac.ir.forms import Guard
from tesserac.ir.kernels import kernel_schedule
from tesserac.types.ty import TensorType, Type

if TYPE_CHECKING:
    from tesserac.schedule.machine import Machine
    from tesserac.schedule.model.legality import ImpossibleSchedule


class ProgramError(Exception):
    """The program has mistakes, so there is nothing to compile."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__("; ".join(d.title for d in diagnostics))
        self.diagnostics = diagnostics


class SizesMissing(ProgramError):
    """Code is made for each value of some sizes, and none was said."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...], demanded: SizesDemanded) -> None:
        super().__init__(diagnostics)
        self.demanded = demanded


class StaysInside(ProgramError):
    """A function whose result cannot leave the language: an operator, a function."""


class NoSuchFunction(Exception):
    """The program has no function of that name."""


def one_error(code: Code, at: Span, *, label: str = "", **values: str) -> ProgramError:
    sink = Sink()
    sink.error(code, at=at, label=label, **values)
    return ProgramError(sink.diagnostics)


def no_fit(signature: Signature, given: Sequence[Type]) -> tuple[Diagnostic, ...]:
    sink, function = Sink(), signature.node
    label = "what is known while compiling is of another kind than declared"
    draft = sink.error(E0217, at=function.name_span, name=function.name, label=label)
    for parameter, type_ in zip(signature.parameters, given, strict=True):
        if isinstance(parameter.spec, OperatorSpec) and isinstance(type_, TensorType):
            made = "`op.dense(m)` is that of a matrix, `op.diag(d)` of a vector; from Python `tessera.op.dense(m)`"
            draft.remark(f"`{parameter.name}` is an operator: {made}")
    return sink.diagnostics


OF_FUNCTIONS = "an operator that is made of functions"
"""What `op.implicit` and `op.jacobian` make."""


def stays_inside(function: typed.TypedFunction, what: str) -> StaysInside:
    """With what to do instead, where a result is something that a caller cannot be given."""
    sink = Sink()
    draft = sink.error(E0299, at=function.span, feature=f"a result that is {what}, called from outside")
    if what == OF_FUNCTIONS:
        draft.remark("a bundle has no code of the functions: give its matrix, `to_dense(A)`, or load the source")
    elif what.startswith("function"):
        draft.remark("functions stay inside the language: call it where it is made, as in `vjp(f, x)[1](dy)`")
    return StaysInside(sink.diagnostics)


def sizes_refused(function: typed.TypedFunction, guard: Guard) -> tuple[Diagnostic, ...]:
    sink, sides = Sink(), {"left": str(guard.left), "right": str(guard.right)}
    sink.error(E0925, at=function.span, function=function.name, rule=guard.text, **sides)
    return sink.diagnostics


def devices_missing(function: typed.TypedFunction, problem: DevicesMissing) -> tuple[Diagnostic, ...]:
    sink, given = Sink(), {"axis": problem.axis, "devices": str(problem.devices)}
    draft = sink.error(E0905, at=problem.span, function=function.name, **given)
    draft.remark(f'`pmap(..., axis_name="{problem.axis}")` computes for all devices on one')
    return sink.diagnostics


def impossible_schedule(
    problem: ImpossibleSchedule, reached: Mapping[str, typed.TypedFunction], machine: Machine
) -> tuple[Diagnostic, ...]:
    """It is told where it stands: at the kernel, or at the call or operator that says another one."""
    sink, op = Sink(), problem.op
    kernel = reached.get(written_symbol(str(op.attrs.get("name", ""))))
    program = None if kernel is None else kernel.program
    if kernel is None or program is None or program.said_at is None or not _says(program, op, machine):
        sink.error(E0513, at=op.span, problem=str(problem))
        return sink.diagnostics
    draft = sink.error(E0513, at=program.said_at, problem=str(problem))
    if op.span != kernel.span:
        draft.note(op.span, f"`{kernel.name}` is called here")
    return sink.diagnostics


def _says(program: typed.Program, kernel: Op, machine: Machine) -> bool:
    """Whether all that a kernel is scheduled by is what it says itself."""
    own = {name: value for name, (value, _) in taken_on(program.schedule, machine.target).items()}
    return kernel_schedule(kernel).items() <= own.items()


def check_requests(reached: Iterable[typed.TypedFunction], entry: str, machine: Machine) -> None:
    """What functions ask of where they run, and this machine is not, ends the compilation. Raises ProgramError."""
    sink = Sink()
    for request in (request for function in reached for request in function.requests):
        if request.device and request.device != machine.kind:
            named = {"request": request.text, "device": request.device.upper()}
            draft = sink.error(E0906, at=request.span, function=entry, arch=machine.arch, **named)
            draft.remark("a part that is placed on a device runs there or not at all")
        elif request.is_needed:
            sink.error(E0907, at=request.span, request=request.text).remark(request.why)
    if sink.has_errors:
        raise ProgramError(sink.diagnostics)


def sizes_missing(function: typed.TypedFunction, problem: SizesDemanded) -> tuple[Diagnostic, ...]:
    sink, names = Sink(), " and ".join(f'"{symbol}"' for symbol in problem.symbols)
    operator = problem.first.name.removeprefix(PREFIX)
    draft = sink.error(E0904, at=function.span, function=function.name, sizes=names)
    draft.remark(f"there is code of its own for every size of an `{operator}`")
    options = " ".join(f"--specialize {symbol}=..." for symbol in problem.symbols)
    draft.remark(f"write the size in the type, or say it: {options}")
    return sink.diagnostics
