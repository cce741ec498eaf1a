"""Neutral kernels of many shapes, by name, for the tests of the CPU target. Sizes are A, B and C."""

from __future__ import annotations

from tests.support.cpu_bodies import (
    BROADCAST,
    COLUMN_SUM,
    DOT,
    EXTREMES,
    INTEGERS,
    MIDDLE_MAX,
    MOMENTS,
    NARROW,
    REPEATED,
    ROUNDINGS,
    SIZES,
    TRANSPOSE,
    kernel,
)


def _dot(name: str, dtype: str, zero: str, left: str) -> str:
    arguments = (
        f"%p: index, %q: index, %x: memref<[A, C], {dtype}{left}, global>, %y: memref<[C, B], {dtype}, global>, "
        f"%u: memref<[B], {dtype}, global>, %z: memref<[A, B], {dtype}, global>"
    )
    body = DOT.replace("TYPE", dtype).replace("ZERO", zero)
    return kernel(name, "`ceil_div(A, 40)`, `ceil_div(B, 50)`", arguments, body)


_RESCALED = (
    SIZES
    + """
    %r = tile.axis(%zero, %a) : axis<40>
    %s = tile.axis(%zero, %b) : axis<50>
    %first = tile.load(%z, %r, %s) : tile<[40, 50], f32>
    %acc = tile.for(%zero, %c, %first) {step = 3} : tile<[40, 50], f32> {
      ^(%k: index, %held: tile<[40, 50], f32>):
        %ks = tile.axis(%k, %c) : axis<3>
        %l = tile.load(%x, %r, %ks) : tile<[40, 3], f32>
        %n = tile.load(%y, %ks, %s) : tile<[3, 50], f32>
        %f = tile.load(%u, %r) : tile<[40], f32>
        %g = tile.map(%held, %f) {maps = [[0, 1], [0]]} : tile<[40, 50], f32> {
          ^(%1: scalar<f32>, %2: scalar<f32>):
            %3 = scalar.mul(%1, %2) : scalar<f32>
            form.yield(%3)
        }
        %d = tile.dot(%l, %n, %g) : tile<[40, 50], f32>
        tile.yield(%d)
    }
    tile.store(%acc, %o, %r, %s)"""
)

RESCALED = kernel(
    "rescaled",
    "`1`",
    "%p: index, %x: memref<[A, C], f32, global>, %y: memref<[C, B], f32, global>, %u: memref<[A], f32, global>, "
    "%z: memref<[A, B], f32, global>, %o: memref<[A, B], f32, global>",
    _RESCALED,
)
"""An accumulator that starts from memory and is multiplied by a column before every block of k."""


def elementwise(dtype: str) -> str:
    """z = max(x, y) and the largest and smallest of them, for one element type."""
    body = """
    %n = index.dim() {dim = `A`} : index
    %zero = index.dim() {dim = `0`} : index
    %r = tile.axis(%zero, %n) : axis<600>
    %xt = tile.load(%x, %r) : tile<[600], TYPE>
    %yt = tile.load(%y, %r) : tile<[600], TYPE>
    %m = tile.map(%xt, %yt) {maps = [[0], [0]]} : tile<[600], TYPE> {
      ^(%1: scalar<TYPE>, %2: scalar<TYPE>):
        %3 = scalar.lt(%1, %2) : scalar<bool>
        %4 = scalar.max(%1, %2) : scalar<TYPE>
        %5 = scalar.select(%3, %4, %1) : scalar<TYPE>
        form.yield(%5)
    }
    tile.store(%m, %z, %r)
    %top = tile.reduce(%m, %r) {axes = [0], kind = "max"} : tile<[], TYPE>
    %low = tile.reduce(%m, %r) {axes = [0], kind = "min"} : tile<[], TYPE>
    %one = index.dim() {dim = `1`} : index
    tile.store(%top, %o, %zero)
    tile.store(%low, %o, %one)"""
    arguments = "%p: index, " + ", ".join(f"%{name}: memref<[A], {dtype}, global>" for name in "xyz")
    arguments += f", %o: memref<[2], {dtype}, global>"
    return kernel(f"elementwise_{dtype}", "`1`", arguments, body.replace("TYPE", dtype))


PLANE_SUM = kernel(
    "plane_sum",
    "`A`",
    "%p: index, %x: memref<[A, B, C], f32, global>, %y: memref<[A], f32, global>",
    SIZES
    + """
    %r = tile.axis(%zero, %b) : axis<64>
    %s = tile.axis(%zero, %c) : axis<8>
    %t = tile.load(%x, %p, %r, %s) : tile<[64, 8], f32>
    %u = tile.reduce(%t, %r, %s) {axes = [0, 1], kind = "sum", order = #blocks<block=512, lanes=64>} : tile<[], f32>
    tile.store(%u, %y, %p)""",
)
"""Two dims folded as one sequence."""

TEXTS = {
    "broadcast": kernel(
        "broadcast",
        "`ceil_div(A, 16)`, `C`",
        "%p: index, %q: index, %x: memref<[C, A, B], f32, strides=[1, B*C, C], global>, "
        "%y: memref<[A], f32, global>, %z: memref<[B], f32, global>, %u: memref<[C], f32, global>, "
        "%o: memref<[C, A, B], f32, global>, %t: memref<[C, A, B], f32, strides=[B, B*C, 1], global>",
        BROADCAST,
    ),
    "repeated": kernel(
        "repeated",
        "`ceil_div(A, 16)`",
        "%p: index, %x: memref<[A, B], f32, global>, %z: memref<[B], f32, global>, %o: memref<[A, B], f32, global>",
        REPEATED,
    ),
    "transpose": kernel(
        "transpose",
        "`ceil_div(A, 32)`, `ceil_div(B, 32)`",
        "%p: index, %q: index, %x: memref<[A, B], f32, global>, %y: memref<[A, B], f32, strides=[1, A], global>, "
        "%z: memref<[B, A], f32, global>",
        TRANSPOSE,
    ),
    "column_sum": kernel(
        "column_sum",
        "`ceil_div(B, 48)`",
        "%p: index, %x: memref<[A, B], f32, global>, %y: memref<[B], f32, global>",
        COLUMN_SUM,
    ),
    "row_sum_of_columns": kernel(
        "row_sum_of_columns",
        "`ceil_div(B, 48)`",
        "%p: index, %x: memref<[A, B], f32, strides=[1, A], global>, %y: memref<[B], f32, global>",
        COLUMN_SUM,
    ),
    "extremes": kernel(
        "extremes",
        "`ceil_div(A, 8)`",
        "%p: index, %x: memref<[A, B], f32, global>, %y: memref<[A], f32, global>, %z: memref<[A], f32, global>",
        EXTREMES,
    ),
    "middle_max": kernel(
        "middle_max",
        "`ceil_div(C, 4)`",
        "%p: index, %x: memref<[C, A, B], i32, global>, %y: memref<[C, B], i32, global>",
        MIDDLE_MAX,
    ),
    "integers": kernel(
        "integers",
        "`ceil_div(A, 100)`",
        "%p: index, %x: memref<[A], i32, global>, %y: memref<[A], i32, global>, %z: memref<[A], i32, global>, "
        "%v: memref<[A], bool, global>, %t: memref<[A], u8, global>",
        INTEGERS,
    ),
    "narrow": kernel(
        "narrow",
        "`ceil_div(A, 100)`",
        "%p: index, %x: memref<[A], bf16 @accum(f32), global>, %h: memref<[A], f16, global>, "
        "%y: memref<[A], bf16 @accum(f32), global>, %i: memref<[A], f16, global>, "
        "%j: memref<[A], bf16 @accum(f32), global>",
        NARROW,
    ),
    "roundings": kernel(
        "roundings",
        "`ceil_div(A, 100)`",
        "%p: index, %x: memref<[A], i64, global>, %d: memref<[A], f64, global>, "
        "%o1: memref<[A], bf16 @accum(f32), global>, %o2: memref<[A], f16, global>, "
        "%o3: memref<[A], i32, global>, %o4: memref<[A], f32, global>",
        ROUNDINGS,
    ),
    "sum_and_product": kernel(
        "sum_and_product",
        "`A`",
        "%p: index, %x: memref<[A, B], f64, global>, %y: memref<[A], f64, global>, %z: memref<[A], f64, global>",
        MOMENTS,
    ),
}

DOTS = {
    "dot_f64": _dot("dot_f64", "f64", "0.0", ""),
    "dot_tf32": _dot("dot_tf32", "tf32", "0.0", ""),
    "dot_i32": _dot("dot_i32", "i32", "0", ""),
    "dot_of_transposed": _dot("dot_of_transposed", "f32", "0.0", ", strides=[1, A]"),
}
"""2 * x times y plus a row, with nothing packed beforehand."""
