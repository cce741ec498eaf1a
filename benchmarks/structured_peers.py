"""One library on the programs of `structured_cases.py`, alone in its process and on one core:
`python structured_peers.py LIBRARY [0/4]` prints for each, or for every fourth, a name, the processor's seconds of a
call, the least of many, and the largest error relative to the largest number of the result in f64. It imports nothing
of the project but for `tessera`. `python structured_peers.py turns TEXT` has the cases whose name has the text in one
process, all libraries in turns, so that the clock of the processor is the same for all."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TESSERA_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"], os.environ["CUDA_VISIBLE_DEVICES"] = "cpu", ""
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])  # JAX takes more threads than it is told to
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np  # noqa: E402  (threads are counted when it is loaded)
from structured_cases import CASES, Case, inputs_of  # noqa: E402

SECONDS, LEAST = 0.15, 3
REFERENCES = Path(__file__).resolve().parents[1] / "build" / "structured.npz"
SIDE = 128
"""Of the Kronecker operator whose gradient's memory is told."""


def numpy_names() -> dict[str, Any]:
    names: dict[str, Any] = {"np": np, "linalg_solve": np.linalg.solve, "linalg_slogdet": np.linalg.slogdet}
    try:
        import scipy.linalg
        import scipy.sparse.linalg

        names["scipy"] = scipy
    except ImportError:
        pass
    return names


def of_tessera(code: str, case: Case) -> Callable[[], Any]:
    import tessera

    tessera.set_num_threads(1)
    inputs = inputs_of(case)
    dtype = {"f4": "f32", "f8": "f64"}[case.dtype]
    params = ", ".join(f"{name}: Tensor[{', '.join(map(str, v.shape))}, {dtype}]" for name, v in inputs.items())
    function, args = tessera.compile(f"def f({params}):\n    return {code}\n").f, list(inputs.values())
    return lambda: function(*args)


def of_numpy(code: str, case: Case) -> Callable[[], Any]:
    inputs = inputs_of(case)
    function = eval(f"lambda {', '.join(inputs)}: {code}", numpy_names())
    return lambda: function(*inputs.values())


def of_jax(code: str, case: Case) -> Callable[[], Any]:
    import jax
    import jax.numpy as jnp
    import jax.scipy.linalg

    jax.config.update("jax_enable_x64", case.dtype == "f8")
    inputs = {name: jnp.asarray(value) for name, value in inputs_of(case).items()}
    function = jax.jit(eval(f"lambda {', '.join(inputs)}: {code}", {"jax": jax, "jnp": jnp}))
    return lambda: np.asarray(function(*inputs.values()).block_until_ready())


def of_torch(library: str) -> Callable[[str, Case], Callable[[], Any]]:
    """PyTorch, and the libraries of operators over it."""

    def made(code: str, case: Case) -> Callable[[], Any]:
        import torch

        torch.set_num_threads(1)
        names: dict[str, Any] = {"torch": torch, "np": np}
        if library == "cola":
            import cola

            names["cola"] = cola
        if library == "linear_operator":
            from linear_operator import operators

            names["lo"] = operators
        inputs = {name: torch.from_numpy(value) for name, value in inputs_of(case).items()}
        function = eval(f"lambda {', '.join(inputs)}: {whole(code, library, case)}", names)
        if library == "torch":
            function = _compiled(torch, function, inputs)

        def call() -> Any:
            with torch.no_grad():
                found = function(*inputs.values())
            return (found.to_dense() if hasattr(found, "to_dense") else found).numpy()

        return call

    return made


def whole(code: str, library: str, case: Case) -> str:
    """With the operator made in each call, as ours is: an operator that was asked before keeps the answer."""
    return f"(lambda A: {code})({case.made[library]})" if library in case.made else code


def _compiled(torch: Any, function: Callable[..., Any], inputs: dict[str, Any]) -> Callable[..., Any]:
    """By `torch.compile`, where that works."""
    try:
        compiled = torch.compile(function)
        compiled(*inputs.values())
        return compiled  # type: ignore[no-any-return]
    except Exception:  # no compiler for C++ on this machine
        return function


def of_pylops(code: str, case: Case) -> Callable[[], Any]:
    import pylops

    inputs = inputs_of(case)
    function = eval(f"lambda {', '.join(inputs)}: {whole(code, 'pylops', case)}", {"pylops": pylops, "np": np})
    return lambda: function(*inputs.values())


MAKERS: dict[str, Callable[[str, Case], Callable[[], Any]]] = {
    "tessera": of_tessera,
    "numpy": of_numpy,
    "jax": of_jax,
    "torch": of_torch("torch"),
    "cola": of_torch("cola"),
    "linear_operator": of_torch("linear_operator"),
    "pylops": of_pylops,
}


def code_of(library: str, case: Case) -> str:
    return case.ours if library == "tessera" else case.theirs.get(library, "")


def best_times(*calls: Callable[[], Any]) -> list[float]:
    """The processor's seconds of a call of each, the least of many turns: other programs do not count, and the clock of
    a processor changes from process to process, not within a turn."""
    repeats = [_repeats(call) for call in calls]
    found = [float("inf")] * len(calls)
    until, count = time.process_time() + SECONDS * len(calls), 0
    while count < LEAST or time.process_time() < until:
        for place, (call, repeat) in enumerate(zip(calls, repeats, strict=True)):
            found[place] = min(found[place], _turn(call, repeat))
        count += LEAST if sum(found) > 2.0 else 1
    return found


def _turn(call: Callable[[], Any], repeat: int) -> float:
    start = time.process_time()
    for _ in range(repeat):
        call()
    return (time.process_time() - start) / repeat


def _repeats(call: Callable[[], Any]) -> int:
    """As many calls as take the clock of the processor's time, itself a microsecond, out of the figure."""
    return max(1, int(1e-4 / max(_turn(call, 2), 1e-9)))


def error_of(call: Callable[[], Any], case: Case) -> float:
    kept = np.load(REFERENCES) if REFERENCES.exists() else {}
    found = np.asarray(call(), "f8")
    if case.name not in kept:
        return float("nan")
    expected = kept[case.name]
    return float(abs(found.reshape(expected.shape) - expected).max() / abs(expected).max())


def keep_references() -> None:
    """What NumPy and SciPy compute in f64, for all libraries to be compared with."""
    found = {}
    for case in CASES:
        inputs = {name: value.astype("f8") for name, value in inputs_of(case).items()}
        try:
            found[case.name] = np.asarray(eval(case.reference, {**numpy_names(), **inputs}))
        except NameError:  # a machine without SciPy
            continue
    REFERENCES.parent.mkdir(exist_ok=True)
    np.savez(REFERENCES, **found)


def gradient_memory(library: str) -> float | None:
    """MiB that the gradient of |kron(a, b) x|^2 by a, b and x takes at its peak beyond what was there before."""
    rng = np.random.default_rng(0)
    a, b, x = (rng.standard_normal(s).astype("f4") for s in ((SIDE, SIDE), (SIDE, SIDE), (SIDE * SIDE,)))
    call = _gradient(library, a, b, x)
    if call is None:
        return None
    call(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    call(0)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def _gradient(library: str, a: Any, b: Any, x: Any) -> Callable[[int], Any] | None:
    """A function of how small the matrices are: with 1 only what is loaded for all sizes is loaded."""
    if library == "tessera":
        import tessera

        text = (
            "def loss(a: Tensor[N, N, f32], b: Tensor[N, N, f32], x: Tensor[N*N, f32]):\n"
            "    return sum((op.kronecker(op.dense(a), op.dense(b)) @ x) ** 2)\n"
            "def f(a: Tensor[N, N, f32], b: Tensor[N, N, f32], x: Tensor[N*N, f32]):\n"
            "    return grad(loss, wrt=(0, 1, 2))(a, b, x)\n"
        )
        function = tessera.compile(text).f
        return lambda small: function(a[:2, :2], b[:2, :2], x[:4]) if small else function(a, b, x)
    if library not in ("torch", "cola", "linear_operator"):
        return None
    import torch

    torch.set_num_threads(1)
    applied = _applied(library, torch)

    def call(small: int) -> Any:
        parts = (a[:2, :2], b[:2, :2], x[:4]) if small else (a, b, x)
        leaves = [torch.from_numpy(part.copy()).requires_grad_() for part in parts]
        applied(*leaves).square().sum().backward()
        return [leaf.grad for leaf in leaves]

    return call


def _applied(library: str, torch: Any) -> Callable[..., Any]:
    if library == "cola":
        import cola

        return lambda a, b, x: cola.ops.Kronecker(cola.ops.Dense(a), cola.ops.Dense(b)) @ x
    if library == "linear_operator":
        from linear_operator import operators as lo

        return lambda a, b, x: lo.KroneckerProductLinearOperator(lo.to_linear_operator(a), lo.to_linear_operator(b)) @ x
    return lambda a, b, x: torch.kron(a, b) @ x


def in_turns(text: str) -> None:
    """Of the cases whose name has the text: every library that is there, each in turn with the others."""
    for case in (case for case in CASES if text in case.name):
        calls = {"by hand": of_tessera(case.hand, case)} if case.hand else {}
        for call in calls.values():
            call()  # compiles: how often it is repeated in a turn follows from the time of a warm call
        for library, make in MAKERS.items():
            try:
                calls[library] = make(code_of(library, case) or "missing", case)
                calls[library]()
            except Exception:  # it is not installed, or has no such operator
                calls.pop(library, None)
        for name, seconds in zip(calls, best_times(*calls.values()), strict=True):
            print(f"{case.name}\t{name}\t{seconds * 1e6:.1f}", flush=True)


def main(library: str) -> None:
    if library == "references":
        keep_references()
        return
    if library == "turns":
        in_turns(sys.argv[2])
        return
    first, step = map(int, sys.argv[2].split("/")) if sys.argv[2:] else (0, 1)
    if first == 0:
        memory = gradient_memory(library)
        print(f"gradient memory\t{memory if memory is not None else 'nan'}\t0", flush=True)
    for case in CASES[first::step]:
        code = code_of(library, case)
        if not code:
            continue
        try:
            calls = {"": MAKERS[library](code, case)} | (beside_ours(case) if library == "tessera" else {})
            errors = [error_of(call, case) for call in calls.values()]
            for name, seconds, error in zip(calls, best_times(*calls.values()), errors, strict=True):
                print(f"{name}{case.name}\t{seconds:.9f}\t{error:.3g}", flush=True)
        except Exception as problem:  # one that fails leaves the others their figures
            print(f"{case.name}\tnan\t{type(problem).__name__}: {str(problem)[:200]!r}", flush=True)


def beside_ours(case: Case) -> dict[str, Callable[[], Any]]:
    """What runs in turns with ours: forms by hand, in our language and in NumPy, where that has what they need."""
    found = {"by hand: ": of_tessera(case.hand, case)} if case.hand else {}
    try:
        call = of_numpy(code_of("numpy", case) or "missing", case)
        call()
        return found | {"numpy: ": call}
    except (ImportError, NameError):
        return found


if __name__ == "__main__":
    main(sys.argv[1])
