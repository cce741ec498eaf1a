"""Neutral kernels of many shapes, by name, for the tests of the CPU target. Sizes are A, B and C."""

from __future__ import annotations

_CONFIG = '{config = #config<warps=1, roles="uniform">, grid = [GRID]}'


def _kernel(name: str, grid: str, arguments: str, body: str) -> str:
    config = _CONFIG.replace("GRID", grid)
    return f"tile.kernel @{name} {config} {{\n  ^({arguments}):\n{body}\n    tile.return()\n}}\n"


_SIZES = """
    %zero = index.dim() {dim = `0`} : index
    %a = index.dim() {dim = `A`} : index
    %b = index.dim() {dim = `B`} : index
    %c = index.dim() {dim = `C`} : index"""

_BROADCAST = (
    _SIZES
    + """
    %w = index.dim() {dim = `16`} : index
    %r0 = index.mul(%p, %w) : index
    %r = tile.axis(%r0, %a) : axis<16>
    tile.for(%zero, %b) {step = 64} {
      ^(%j: index):
        %s = tile.axis(%j, %b) : axis<64>
        %xt = tile.load(%x, %q, %r, %s) : tile<[16, 64], f32>
        %yt = tile.load(%y, %r) : tile<[16], f32>
        %zt = tile.load(%z, %s) : tile<[64], f32>
        %k = tile.load(%u, %q) : tile<[], f32>
        %n = tile.iota(%s) : tile<[64], i64>
        %m = tile.map(%xt, %yt, %zt, %k, %n) {maps = [[0, 1], [0], [1], [], [1]]} : tile<[16, 64], f32> {
          ^(%1: scalar<f32>, %2: scalar<f32>, %3: scalar<f32>, %4: scalar<f32>, %5: scalar<i64>):
            %6 = scalar.fma(%1, %2, %3) : scalar<f32>
            %7 = scalar.cast(%5) {dtype = dtype<f32>} : scalar<f32>
            %8 = scalar.mul(%4, %7) : scalar<f32>
            %9 = scalar.sub(%6, %8) : scalar<f32>
            form.yield(%9)
        }
        %h = tile.map(%m) {maps = [[0, 1]]} : tile<[16, 64], f32> {
          ^(%1: scalar<f32>):
            %2 = scalar.tanh(%1) : scalar<f32>
            form.yield(%2)
        }
        tile.store(%m, %o, %q, %r, %s)
        tile.store(%h, %t, %q, %r, %s)
        tile.yield()
    }"""
)

_REPEATED = (
    _SIZES
    + """
    %w = index.dim() {dim = `16`} : index
    %r0 = index.mul(%p, %w) : index
    %r = tile.axis(%r0, %a) : axis<16>
    %s = tile.axis(%zero, %b) : axis<600>
    %xt = tile.load(%x, %r, %s) : tile<[16, 600], f32>
    %zt = tile.load(%z, %s) : tile<[600], f32>
    %e = tile.map(%zt) {maps = [[0]]} : tile<[600], f32> {
      ^(%1: scalar<f32>):
        %2 = scalar.exp(%1) : scalar<f32>
        form.yield(%2)
    }
    %m = tile.map(%xt, %e) {maps = [[0, 1], [1]]} : tile<[16, 600], f32> {
      ^(%1: scalar<f32>, %2: scalar<f32>):
        %3 = scalar.mul(%1, %2) : scalar<f32>
        form.yield(%3)
    }
    tile.store(%m, %o, %r, %s)"""
)

_TRANSPOSE = (
    _SIZES
    + """
    %w = index.dim() {dim = `32`} : index
    %r0 = index.mul(%p, %w) : index
    %s0 = index.mul(%q, %w) : index
    %r = tile.axis(%r0, %a) : axis<32>
    %s = tile.axis(%s0, %b) : axis<32>
    %t = tile.load(%x, %r, %s) : tile<[32, 32], f32>
    tile.store(%t, %y, %r, %s)
    %u = tile.load(%x, %r, %s) : tile<[32, 32], f32>
    %v = tile.map(%u) {maps = [[1, 0]]} : tile<[32, 32], f32> {
      ^(%1: scalar<f32>):
        %2 = scalar.neg(%1) : scalar<f32>
        form.yield(%2)
    }
    tile.store(%v, %z, %s, %r)"""
)

_COLUMN_SUM = (
    _SIZES
    + """
    %w = index.dim() {dim = `48`} : index
    %s0 = index.mul(%p, %w) : index
    %s = tile.axis(%s0, %b) : axis<48>
    %blocks = index.dim() {dim = `ceil_div(A, 512)`} : index
    %none = tile.full() {value = 0.0} : tile<[48], f32>
    %sum = tile.tree(%blocks, %none) : tile<[48], f32> {
      ^(%i: index):
        %len = index.dim() {dim = `512`} : index
        %i0 = index.mul(%i, %len) : index
        %r = tile.axis(%i0, %a) : axis<512>
        %t = tile.load(%x, %r, %s) : tile<[512, 48], f32>
        %q = tile.map(%t) {maps = [[0, 1]]} : tile<[512, 48], f32> {
          ^(%1: scalar<f32>):
            %2 = scalar.mul(%1, %1) : scalar<f32>
            form.yield(%2)
        }
        %u = tile.reduce(%q, %r) {axes = [0], kind = "sum", order = #blocks<block=512, lanes=64>} : tile<[48], f32>
        tile.yield(%u)
    } {
      ^(%l: tile<[48], f32>, %r: tile<[48], f32>):
        %m = tile.map(%l, %r) {maps = [[0], [0]]} : tile<[48], f32> {
          ^(%1: scalar<f32>, %2: scalar<f32>):
            %3 = scalar.add(%1, %2) : scalar<f32>
            form.yield(%3)
        }
        tile.yield(%m)
    }
    tile.store(%sum, %y, %s)"""
)

_EXTREMES = (
    _SIZES
    + """
    %low = tile.full() {value = -inf} : tile<[8], f32>
    %high = tile.full() {value = inf} : tile<[8], f32>
    %w = index.dim() {dim = `8`} : index
    %r0 = index.mul(%p, %w) : index
    %r = tile.axis(%r0, %a) : axis<8>
    %top, %bottom = tile.for(%zero, %b, %low, %high) {step = 100} : tile<[8], f32>, tile<[8], f32> {
      ^(%j: index, %m: tile<[8], f32>, %n: tile<[8], f32>):
        %s = tile.axis(%j, %b) : axis<100>
        %t = tile.load(%x, %r, %s) : tile<[8, 100], f32>
        %u = tile.reduce(%t, %s) {axes = [1], kind = "max"} : tile<[8], f32>
        %v = tile.reduce(%t, %s) {axes = [1], kind = "min"} : tile<[8], f32>
        %k = tile.map(%m, %u) {maps = [[0], [0]]} : tile<[8], f32> {
          ^(%1: scalar<f32>, %2: scalar<f32>):
            %3 = scalar.max(%1, %2) : scalar<f32>
            form.yield(%3)
        }
        %l = tile.map(%n, %v) {maps = [[0], [0]]} : tile<[8], f32> {
          ^(%1: scalar<f32>, %2: scalar<f32>):
            %3 = scalar.min(%1, %2) : scalar<f32>
            form.yield(%3)
        }
        tile.yield(%k, %l)
    }
    tile.store(%top, %y, %r)
    tile.store(%bottom, %z, %r)"""
)

_MIDDLE_MAX = (
    _SIZES
    + """
    %w = index.dim() {dim = `4`} : index
    %r0 = index.mul(%p, %w) : index
    %r = tile.axis(%r0, %c) : axis<4>
    %s = tile.axis(%zero, %a) : axis<600>
    %t = tile.axis(%zero, %b) : axis<600>
    %x3 = tile.load(%x, %r, %s, %t) : tile<[4, 600, 600], i32>
    %m = tile.reduce(%x3, %s) {axes = [1], kind = "max"} : tile<[4, 600], i32>
    tile.store(%m, %y, %r, %t)"""
)

_INTEGERS = (
    _SIZES
    + """
    %w = index.dim() {dim = `100`} : index
    %r0 = index.mul(%p, %w) : index
    %r = tile.axis(%r0, %a) : axis<100>
    %xt = tile.load(%x, %r) : tile<[100], i32>
    %yt = tile.load(%y, %r) : tile<[100], i32>
    %n = tile.map(%xt, %yt) {maps = [[0], [0]]} : tile<[100], i32> {
      ^(%1: scalar<i32>, %2: scalar<i32>):
        %three = scalar.constant() {value = 3} : scalar<i32>
        %3 = scalar.floor_div(%1, %three) : scalar<i32>
        %one = scalar.constant() {value = 1} : scalar<i32>
        %4 = scalar.or(%2, %one) : scalar<i32>
        %5 = scalar.mod(%1, %4) : scalar<i32>
        %6 = scalar.floor_div(%1, %4) : scalar<i32>
        %7 = scalar.mul(%3, %6) : scalar<i32>
        %8 = scalar.xor(%7, %5) : scalar<i32>
        %9 = scalar.lt(%8, %2) : scalar<bool>
        %10 = scalar.neg(%8) : scalar<i32>
        %11 = scalar.abs(%2) : scalar<i32>
        %12 = scalar.select(%9, %10, %11) : scalar<i32>
        form.yield(%12)
    }
    %big = tile.map(%xt, %yt) {maps = [[0], [0]]} : tile<[100], bool> {
      ^(%1: scalar<i32>, %2: scalar<i32>):
        %3 = scalar.le(%1, %2) : scalar<bool>
        %4 = scalar.eq(%1, %2) : scalar<bool>
        %5 = scalar.not(%4) : scalar<bool>
        %6 = scalar.and(%3, %5) : scalar<bool>
        form.yield(%6)
    }
    %f = tile.cast(%n) : tile<[100], f32>
    %u = tile.cast(%f) : tile<[100], u8>
    tile.store(%n, %z, %r)
    tile.store(%big, %v, %r)
    tile.store(%u, %t, %r)"""
)

_NARROW = (
    _SIZES
    + """
    %w = index.dim() {dim = `100`} : index
    %r0 = index.mul(%p, %w) : index
    %r = tile.axis(%r0, %a) : axis<100>
    %xt = tile.load(%x, %r) : tile<[100], bf16 @accum(f32)>
    %ht = tile.load(%h, %r) : tile<[100], f16>
    %e = tile.map(%xt) {maps = [[0]]} : tile<[100], bf16 @accum(f32)> {
      ^(%1: scalar<f32>):
        %2 = scalar.exp(%1) : scalar<f32>
        form.yield(%2)
    }
    %s = tile.map(%e, %xt) {maps = [[0], [0]]} : tile<[100], bf16 @accum(f32)> {
      ^(%1: scalar<f32>, %2: scalar<f32>):
        %3 = scalar.mul(%1, %2) : scalar<f32>
        %4 = scalar.add(%3, %1) : scalar<f32>
        form.yield(%4)
    }
    %g = tile.map(%ht) {maps = [[0]]} : tile<[100], f16> {
      ^(%1: scalar<f16>):
        %2 = scalar.mul(%1, %1) : scalar<f16>
        %3 = scalar.add(%2, %1) : scalar<f16>
        %4 = scalar.sqrt(%3) : scalar<f16>
        form.yield(%4)
    }
    %d = tile.cast(%g) : tile<[100], f64>
    %k = tile.cast(%d) : tile<[100], bf16 @accum(f32)>
    tile.store(%s, %y, %r)
    tile.store(%g, %i, %r)
    tile.store(%k, %j, %r)"""
)

_ROUNDINGS = (
    _SIZES
    + """
    %w = index.dim() {dim = `100`} : index
    %r0 = index.mul(%p, %w) : index
    %r = tile.axis(%r0, %a) : axis<100>
    %x0 = tile.load(%x, %r) : tile<[100], i64>
    %d0 = tile.load(%d, %r) : tile<[100], f64>
    %big = tile.map(%x0) {maps = [[0]]} : tile<[100], i64> {
      ^(%1: scalar<i64>):
        %2 = scalar.mul(%1, %1) : scalar<i64>
        %3 = scalar.mul(%2, %2) : scalar<i64>
        %4 = scalar.mul(%3, %3) : scalar<i64>
        %5 = scalar.add(%4, %1) : scalar<i64>
        form.yield(%5)
    }
    %b0 = tile.cast(%big) : tile<[100], bf16 @accum(f32)>
    %h0 = tile.cast(%x0) : tile<[100], f16>
    %h1 = tile.cast(%d0) : tile<[100], f16>
    %h2 = tile.map(%h0, %h1) {maps = [[0], [0]]} : tile<[100], f16> {
      ^(%1: scalar<f16>, %2: scalar<f16>):
        %3 = scalar.fma(%1, %2, %2) : scalar<f16>
        form.yield(%3)
    }
    %i0 = tile.cast(%d0) : tile<[100], i32>
    %f0 = tile.cast(%big) : tile<[100], f32>
    tile.store(%b0, %o1, %r)
    tile.store(%h2, %o2, %r)
    tile.store(%i0, %o3, %r)
    tile.store(%f0, %o4, %r)"""
)

_MOMENTS = (
    _SIZES
    + """
    %blocks = index.dim() {dim = `ceil_div(B, 512)`} : index
    %none = tile.full() {value = 0.0} : tile<[], f64>
    %one = tile.full() {value = 1.0} : tile<[], f64>
    %sum, %prod = tile.tree(%blocks, %none, %one) : tile<[], f64>, tile<[], f64> {
      ^(%i: index):
        %len = index.dim() {dim = `512`} : index
        %i0 = index.mul(%i, %len) : index
        %r = tile.axis(%i0, %b) : axis<512>
        %t = tile.load(%x, %p, %r) : tile<[512], f64>
        %u = tile.reduce(%t, %r) {axes = [0], kind = "sum", order = #blocks<block=512, lanes=64>} : tile<[], f64>
        %v = tile.reduce(%t, %r) {axes = [0], kind = "prod", order = #blocks<block=512, lanes=64>} : tile<[], f64>
        tile.yield(%u, %v)
    } {
      ^(%l: tile<[], f64>, %m: tile<[], f64>, %n: tile<[], f64>, %o: tile<[], f64>):
        %s = tile.map(%l, %n) {maps = [[], []]} : tile<[], f64> {
          ^(%1: scalar<f64>, %2: scalar<f64>):
            %3 = scalar.add(%1, %2) : scalar<f64>
            form.yield(%3)
        }
        %t = tile.map(%m, %o) {maps = [[], []]} : tile<[], f64> {
          ^(%1: scalar<f64>, %2: scalar<f64>):
            %3 = scalar.mul(%1, %2) : scalar<f64>
            form.yield(%3)
        }
        tile.yield(%s, %t)
    }
    tile.store(%sum, %y, %p)
    tile.store(%prod, %z, %p)"""
)

_DOT = (
    _SIZES
    + """
    %w = index.dim() {dim = `40`} : index
    %v = index.dim() {dim = `50`} : index
    %r0 = index.mul(%p, %w) : index
    %s0 = index.mul(%q, %v) : index
    %r = tile.axis(%r0, %a) : axis<40>
    %s = tile.axis(%s0, %b) : axis<50>
    %none = tile.full() {value = ZERO} : tile<[40, 50], TYPE>
    %acc = tile.for(%zero, %c, %none) {step = 3} : tile<[40, 50], TYPE> {
      ^(%k: index, %held: tile<[40, 50], TYPE>):
        %ks = tile.axis(%k, %c) : axis<3>
        %l = tile.load(%x, %r, %ks) : tile<[40, 3], TYPE>
        %m = tile.map(%l) {maps = [[0, 1]]} : tile<[40, 3], TYPE> {
          ^(%1: scalar<TYPE>):
            %2 = scalar.add(%1, %1) : scalar<TYPE>
            form.yield(%2)
        }
        %n = tile.load(%y, %ks, %s) {stage = #stage<layout="panels", depth=1>} : tile<[3, 50], TYPE>
        %d = tile.dot(%m, %n, %held) : tile<[40, 50], TYPE>
        tile.yield(%d)
    }
    %bias = tile.load(%u, %s) : tile<[50], TYPE>
    %out = tile.map(%acc, %bias) {maps = [[0, 1], [1]]} : tile<[40, 50], TYPE> {
      ^(%1: scalar<TYPE>, %2: scalar<TYPE>):
        %3 = scalar.add(%1, %2) : scalar<TYPE>
        form.yield(%3)
    }
    tile.store(%out, %z, %r, %s)"""
)


def _dot(name: str, dtype: str, zero: str, left: str) -> str:
    arguments = (
        f"%p: index, %q: index, %x: memref<[A, C], {dtype}{left}, global>, %y: memref<[C, B], {dtype}, global>, "
        f"%u: memref<[B], {dtype}, global>, %z: memref<[A, B], {dtype}, global>"
    )
    body = _DOT.replace("TYPE", dtype).replace("ZERO", zero)
    return _kernel(name, "`ceil_div(A, 40)`, `ceil_div(B, 50)`", arguments, body)


_RESCALED = (
    _SIZES
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

RESCALED = _kernel(
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
    return _kernel(f"elementwise_{dtype}", "`1`", arguments, body.replace("TYPE", dtype))


PLANE_SUM = _kernel(
    "plane_sum",
    "`A`",
    "%p: index, %x: memref<[A, B, C], f32, global>, %y: memref<[A], f32, global>",
    _SIZES
    + """
    %r = tile.axis(%zero, %b) : axis<64>
    %s = tile.axis(%zero, %c) : axis<8>
    %t = tile.load(%x, %p, %r, %s) : tile<[64, 8], f32>
    %u = tile.reduce(%t, %r, %s) {axes = [0, 1], kind = "sum", order = #blocks<block=512, lanes=64>} : tile<[], f32>
    tile.store(%u, %y, %p)""",
)
"""Two dims folded as one sequence."""

TEXTS = {
    "broadcast": _kernel(
        "broadcast",
        "`ceil_div(A, 16)`, `C`",
        "%p: index, %q: index, %x: memref<[C, A, B], f32, strides=[1, B*C, C], global>, "
        "%y: memref<[A], f32, global>, %z: memref<[B], f32, global>, %u: memref<[C], f32, global>, "
        "%o: memref<[C, A, B], f32, global>, %t: memref<[C, A, B], f32, strides=[B, B*C, 1], global>",
        _BROADCAST,
    ),
    "repeated": _kernel(
        "repeated",
        "`ceil_div(A, 16)`",
        "%p: index, %x: memref<[A, B], f32, global>, %z: memref<[B], f32, global>, %o: memref<[A, B], f32, global>",
        _REPEATED,
    ),
    "transpose": _kernel(
        "transpose",
        "`ceil_div(A, 32)`, `ceil_div(B, 32)`",
        "%p: index, %q: index, %x: memref<[A, B], f32, global>, %y: memref<[A, B], f32, strides=[1, A], global>, "
        "%z: memref<[B, A], f32, global>",
        _TRANSPOSE,
    ),
    "column_sum": _kernel(
        "column_sum",
        "`ceil_div(B, 48)`",
        "%p: index, %x: memref<[A, B], f32, global>, %y: memref<[B], f32, global>",
        _COLUMN_SUM,
    ),
    "row_sum_of_columns": _kernel(
        "row_sum_of_columns",
        "`ceil_div(B, 48)`",
        "%p: index, %x: memref<[A, B], f32, strides=[1, A], global>, %y: memref<[B], f32, global>",
        _COLUMN_SUM,
    ),
    "extremes": _kernel(
        "extremes",
        "`ceil_div(A, 8)`",
        "%p: index, %x: memref<[A, B], f32, global>, %y: memref<[A], f32, global>, %z: memref<[A], f32, global>",
        _EXTREMES,
    ),
    "middle_max": _kernel(
        "middle_max",
        "`ceil_div(C, 4)`",
        "%p: index, %x: memref<[C, A, B], i32, global>, %y: memref<[C, B], i32, global>",
        _MIDDLE_MAX,
    ),
    "integers": _kernel(
        "integers",
        "`ceil_div(A, 100)`",
        "%p: index, %x: memref<[A], i32, global>, %y: memref<[A], i32, global>, %z: memref<[A], i32, global>, "
        "%v: memref<[A], bool, global>, %t: memref<[A], u8, global>",
        _INTEGERS,
    ),
    "narrow": _kernel(
        "narrow",
        "`ceil_div(A, 100)`",
        "%p: index, %x: memref<[A], bf16 @accum(f32), global>, %h: memref<[A], f16, global>, "
        "%y: memref<[A], bf16 @accum(f32), global>, %i: memref<[A], f16, global>, "
        "%j: memref<[A], bf16 @accum(f32), global>",
        _NARROW,
    ),
    "roundings": _kernel(
        "roundings",
        "`ceil_div(A, 100)`",
        "%p: index, %x: memref<[A], i64, global>, %d: memref<[A], f64, global>, "
        "%o1: memref<[A], bf16 @accum(f32), global>, %o2: memref<[A], f16, global>, "
        "%o3: memref<[A], i32, global>, %o4: memref<[A], f32, global>",
        _ROUNDINGS,
    ),
    "sum_and_product": _kernel(
        "sum_and_product",
        "`A`",
        "%p: index, %x: memref<[A, B], f64, global>, %y: memref<[A], f64, global>, %z: memref<[A], f64, global>",
        _MOMENTS,
    ),
}

DOTS = {
    "dot_f64": _dot("dot_f64", "f64", "0.0", ""),
    "dot_tf32": _dot("dot_tf32", "tf32", "0.0", ""),
    "dot_i32": _dot("dot_i32", "i32", "0", ""),
    "dot_of_transposed": _dot("dot_of_transposed", "f32", "0.0", ", strides=[1, A]"),
}
"""2 * x times y plus a row, with nothing packed beforehand."""
