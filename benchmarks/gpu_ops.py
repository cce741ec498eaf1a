"""Runs every operator, every function of the library and the programs of `gpu_ops.tess` on a GPU and compares the bits.

    python -m benchmarks.gpu_ops --out DIR [--arch sm_90a] [--jobs 8] [--only TEXT,...] [--repeat 2]
        [--random 1000] [--gradients 200] [--first SEED] [--limit SECONDS]

So are random programs and gradients, as many as are asked for. Operators are compared with the interpreter, programs
with the CPU's code, each result with that of a second run. The report goes to DIR/gpu_ops.json. Work is dealt to
processes (`benchmarks.dealing`).
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import numpy as np  # noqa: E402

from benchmarks.bits import Array, digest, run_on_gpu  # noqa: E402
from benchmarks.dealing import Lost, Row, add_options, deal, report, run_share  # noqa: E402

SMALL = {"B": 2, "M": 3, "N": 5, "K": 4}
"""Of the library's examples."""
PRODUCTS = [{"N": n, "K": k, "D": d} for n, k, d in ((1, 1, 1), (67, 4100, 90), (300, 515, 517), (1100, 129, 1300))]
BEYOND = [{"N": 300, "D": 40, "K": 7}, {"N": 1, "D": 1, "K": 1}, {"N": 2000, "D": 1500, "K": 3000}]
SIZES: dict[str, list[dict[str, int]]] = {
    "": BEYOND,
    "running": [{"N": n} for n in (0, 1, 511, 512, 513, 5000, 100_001)],
    "running_pairs": [{"N": n} for n in (0, 1, 511, 513, 5000)],
    "factored": [{"N": 70, "D": 40}, {"N": 40, "D": 70}],
    "sorted_whole": [{"N": n} for n in (0, 1, 2, 3, 1000, 4097, 100_000)],
    "sorted_rows": [{"N": 5, "D": d} for d in (1, 3, 129, 1000, 20_000)],
    "transformed": [{"K": 1}, {"K": 9}],
    "transformed_prime": [{"K": 5}],
    "convolved": [{"K": 4}],
    "convolved_channels": [{"B": 2, "K": 5, "N": 6, "O": 5}, {"B": 1, "K": 14, "N": 14, "O": 48}],
    "convolved_any": [{"B": b, "C": c, "K": 9, "N": 8, "O": 33} for b, c in ((1, 16), (2, 32), (1, 48), (3, 5))],
    "solved": [{}],
    "embedded": [{"N": 50, "D": 30, "K": 200}],
    "losses": [{"N": 300, "D": 40}, {"N": 3, "D": 5000}],
    "add_to": [*BEYOND, {"N": 9000, "D": 600, "K": 9000}],
    "put": [*BEYOND, {"N": 9000, "D": 600, "K": 9000}],
    "words": [*PRODUCTS, {"N": 2500, "K": 70, "D": 3001}, {"N": 3072, "K": 33, "D": 3072}],
    "words_turned": [*PRODUCTS, {"N": 2500, "K": 70, "D": 3001}],
    "words_of_batches": PRODUCTS,
    "words_known": [{}],
    "words_bent": [*PRODUCTS, {"N": 2304, "K": 40, "D": 3300}],
    "words_gated": [*PRODUCTS, {"N": 1537, "K": 50, "D": 2050}],
    "words_and_rows": PRODUCTS,
    "spelled": PRODUCTS,
    "neighbours": [{"N": n, "D": d} for n, d in ((2, 2), (3, 40), (300, 517))],
    "eliminated": [{"N": n} for n in (1, 2, 77)],
    "chosen": [{"N": n, "D": d} for n, d in ((1, 1), (33, 600), (700, 40))],
    "column_sums": [{"N": n, "D": d} for n, d in ((0, 3), (1, 40), (64, 33), (65, 500), (129, 7), (5000, 20))],
    "shortest": [{"N": n} for n in (1, 45, 130)],
}


def main() -> None:
    options = _options()
    if options.inside is not None:
        run_share(chosen(options), lambda case: case[0], lambda case: run_one(case[1], options.repeat), options)
    else:
        report(deal("benchmarks.gpu_ops", options), options.out / "gpu_ops.json", ["equal"])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--only", default="")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--gradients", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first seed of random programs and gradients")
    add_options(parser, limit=600.0)
    return parser.parse_args()


# --- in a process of its own ----------------------------------------------------------------------------------------


Check = Callable[[int], str]
"""Runs a case so many times; gives what is wrong with it."""


def chosen(options: argparse.Namespace) -> list[tuple[str, Check]]:
    every = (*cases(options.arch), *random_cases(options))
    return [case for case in every if any(text in case[0] for text in options.only.split(","))]


def run_one(check: Check, repeat: int) -> Row:
    try:
        problem = check(repeat)
    except Exception as error:
        row = {"outcome": "failed", "problem": traceback.format_exc()}
        if "CUDA" in row["problem"] or "cu" in repr(error)[:8]:
            raise Lost(row) from error  # the device is of no use to this process any more
        return row
    return {"outcome": "differs" if problem else "equal", "problem": problem}


def cases(arch: str) -> Iterator[tuple[str, Check]]:
    from tests.support.registry_cases import registry_cases

    for name, operator, types in registry_cases():
        yield f"op {name}", partial(check_operator, operator, types, arch)
    for name, text in library_examples():
        yield f"lib {name}", partial(check_program, text, "f", SMALL, arch)
    text = (Path(__file__).parent / "gpu_ops.tess").read_text()
    for line in text.splitlines():
        if line.startswith("def "):
            name = line[4:].partition("(")[0]
            for sizes in SIZES.get(name, SIZES[""]):
                yield f"more {name} {sizes}", partial(check_program, text, name, sizes, arch)


def random_cases(options: argparse.Namespace) -> Iterator[tuple[str, Check]]:
    first = options.first
    for seed in range(first, first + options.random):
        yield f"random {seed}", partial(check_random, seed, options.arch)
    for seed in range(first, first + options.gradients):
        yield f"gradient {seed}", partial(check_gradient, seed, options.arch)


def library_examples() -> Iterator[tuple[str, str]]:
    from tesserac.base.resources import stdlib_files
    from tesserac.base.source import SourceFile
    from tesserac.syntax import ast
    from tesserac.syntax.parse import parse_module

    for path, text in stdlib_files().items():
        for item in parse_module(SourceFile(path, text)).module.items:
            if isinstance(item, ast.FunctionDef) and not item.name.startswith("_") and item.doc:
                doc = inspect.cleandoc(item.doc)
                yield item.name, doc[doc.index("def ") :]


def check_operator(operator: Any, types: tuple[str, ...], arch: str, repeat: int) -> str:
    import tesserac.schedule.dialect
    import tesserac.tile.dialect  # noqa: F401  (register the operations)
    from tesserac.graph.interp import run_function
    from tesserac.graph.passes.fold_views import fold_views
    from tesserac.graph.passes.generalize import generalize
    from tesserac.graph.passes.split_complex import split_complex
    from tesserac.ir.passes import run_passes
    from tesserac.pipeline import schedule_passes
    from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, gpu_program
    from tesserac.tile.build import tile_pass
    from tests.support.registry_cases import module_of, parse_type, sample

    gpu, tensors, rng = PLATFORMS[arch], [parse_type(t) for t in types], np.random.default_rng(0)
    arrays = [np.ascontiguousarray(sample(ty, rng)).reshape([d.evaluate({}) for d in ty.dims]) for ty in tensors]
    graph = [generalize, split_complex, fold_views]
    forms = run_passes(module_of(operator, tensors), graph, verify=False)
    expected = tuple(run_function(forms, "f", arrays))
    passes = [*schedule_passes(gpu.schedule), tile_pass(gpu.schedule), gpu_pass(gpu.schedule)]
    lowered = run_passes(forms, passes, verify=False)
    program = gpu_program(lowered, "f", gpu, lambda span: ("", 0, 0), name="f", returns_tuple=True)
    return compared(program, arrays, expected, repeat)


@cache
def _session() -> Any:
    from tesserac.driver.session import Session

    return Session()


def check_program(text: str, name: str, sizes: dict[str, int], arch: str, repeat: int) -> str:
    return check_text(text, name, lambda signature: [inputs(name + text, signature, sizes)], arch, repeat)


def check_random(seed: int, arch: str, repeat: int) -> str:
    from tests.support.edge_statements import random_program
    from tests.support.random_runs import arguments

    program = random_program(seed)
    given = [arguments(program, sizes, number) for number, sizes in enumerate(program.sizes)]
    return check_text(program.text, "f", lambda _: given, arch, repeat, level=0)


def check_gradient(seed: int, arch: str, repeat: int) -> str:
    from tests.support.gradient_gen import gradient_program
    from tests.support.gradient_runs import sample

    program, rng = gradient_program(seed, 3, 4), np.random.default_rng(seed)
    given = [[*sample(program, sizes, rng), *sample(program, sizes, rng)] for sizes in program.sizes]
    return check_text(program.text, "first", lambda _: given, arch, repeat, level=0)


def check_text(
    text: str, name: str, given: Callable[[Any], list[list[Array]]], arch: str, repeat: int, level: int = 3
) -> str:
    """A function of a text with several lists of arguments, on both machines; a call may end in the same error. The
    bits of the CPU do not depend on the `level` of LLVM; one call with few elements is worth no optimisation."""
    from tessera.errors import TesseraError
    from tessera.function import CompiledFunction
    from tesserac.base.collecting import collection_paused
    from tesserac.base.source import SourceFile
    from tesserac.target.cpu.build import host_platform
    from tesserac.target.nvptx.build import PLATFORMS

    session, source = _session(), SourceFile("m.tess", text)
    with collection_paused():  # as where the runtime compiles: the collector takes a third to a half of the time
        function = session.function(source, name)
        program = session.gpu_program(source, function, PLATFORMS[arch])
        host = host_platform()
        cpu = replace(host, code=replace(host.code, level=level))
        expect = CompiledFunction(session.artifact(source, function, cpu))
    session.forget(source.path)
    for arrays in given(program.signature):
        arrays = [np.ascontiguousarray(array).reshape(np.shape(array)) for array in arrays]
        try:
            expected = expect(*arrays)
        except TesseraError as error:
            problem = same_error(program, arrays, error.code)
        else:
            problem = compared(program, arrays, expected if isinstance(expected, tuple) else (expected,), repeat)
        if problem:
            return f"{[array.shape for array in arrays]}: {problem}"
    return ""


def same_error(program: Any, arrays: list[Array], code: str) -> str:
    from tessera.errors import TesseraError

    try:
        run_on_gpu(program, *arrays)
    except TesseraError as error:
        return "" if error.code == code else f"ends with {error.code}, not {code}"
    return f"does not end with {code}"


def inputs(name: str, signature: Any, sizes: dict[str, int]) -> list[Array]:
    from tessera.dtypes import numpy_dtype

    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))
    made = []
    for spec in signature.parameters:
        shape, dtype = tuple(size.evaluate(sizes) for size in spec.sizes), numpy_dtype(spec.dtype)
        least = min(sizes.get("N", 5), sizes.get("D", sizes.get("N", 5)))
        if dtype.kind in "iu":
            made.append(rng.integers(0, max(least, 1), shape).astype(dtype))
        else:
            made.append(rng.normal(size=shape).astype(dtype))
    return made


def compared(program: Any, arrays: list[Array], expected: tuple[Array, ...], repeat: int) -> str:
    """Empty where every run gives these bits."""
    wanted = [digest(np.asarray(array)) for array in expected]
    for number in range(repeat):
        got = run_on_gpu(program, *arrays)
        for position, (array, hash_) in enumerate(zip(got, wanted, strict=True)):
            if digest(array) != hash_:
                return f"run {number}, result {position}: {_difference(np.asarray(expected[position]), array)}"
    return ""


def _difference(wanted: Array, got: Array) -> str:
    if wanted.shape != got.shape or wanted.dtype != got.dtype:
        return f"{got.dtype}{got.shape} instead of {wanted.dtype}{wanted.shape}"
    kind = np.complex128 if wanted.dtype.kind == "c" else np.float64
    left, right = wanted.astype(kind).ravel(), got.astype(kind).ravel()
    where = np.flatnonzero((left != right) & ~(np.isnan(left) & np.isnan(right)))
    first = [(int(i), str(left[i]), str(right[i])) for i in where[:3]]
    return f"{wanted.dtype}{wanted.shape}: {len(where)} of {left.size} differ, such as {first}"


if __name__ == "__main__":
    main()
