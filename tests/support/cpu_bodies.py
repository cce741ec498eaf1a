"""Bodies of neutral kernels: what `cpu_texts` makes kernels of. Sizes are A, B and C."""

from __future__ import annotations

_CONFIG = '{config = #config<warps=1, roles="uniform">, grid = [GRID]}'


def kernel(name: str, grid: str, arguments: str, body: str) -> str:
    config = _CONFIG.replace("GRID", grid)
    return f"tile.kernel @{name} {config} {{\n  ^({arguments}):\n{body}\n    tile.return()\n}}\n"


SIZES = """
    %zero = index.dim() {dim = `0`} : index
    %a = index.dim() {dim = `A`} : index
    %b = index.dim() {dim = `B`} : index
    %c = index.dim() {dim = `C`} : index"""

BROADCAST = (
    SIZES
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

REPEATED = (
    SIZES
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

TRANSPOSE = (
    SIZES
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

COLUMN_SUM = (
    SIZES
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

EXTREMES = (
    SIZES
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

MIDDLE_MAX = (
    SIZES
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

INTEGERS = (
    SIZES
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

NARROW = (
    SIZES
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

ROUNDINGS = (
    SIZES
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

MOMENTS = (
    SIZES
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

DOT = (
    SIZES
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
