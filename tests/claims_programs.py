"""Section 1, programs: what a module is made of, updates, constants, control flow, functions, asserts."""

# ruff: noqa: E501
from __future__ import annotations

from claims_support import Checks, Claim, Fails, Refused, Runs, body, floats

X = floats(1, 2, 3)

SYNTAX: list[Claim] = [
    Runs("semicolons and one-line suites", "def f(x: Tensor[N, f32]): y = x + 1.0; return y * 2.0\n", (X,), [4, 6, 8]),
    Runs("a lambda is a value", body("g = lambda v: v * 2.0", "return g(x)"), (X,), [2, 4, 6]),
    Runs("list literals", body("l = [x, x + 1.0]", "return l[0] + l[1]"), (X,), [3, 5, 7]),
    Runs("dict literals", body('d = {"a": x, "b": 2.0}', 'return d["a"] * d["b"]'), (X,), [2, 4, 6]),
    Runs("dicts with int keys", body("d = {1: x, 2: x + 1.0}", "return d[2]"), (X,), [2, 3, 4]),
    Runs("an empty dict has no items", body("d = {}", "for k in d: x = x + 1.0", "return x * float(len(d))"), (X,), [0, 0, 0]),
    Runs("a loop over a dict is one over its keys", body('d = {"a": 1.0, "b": 2.0}', "for k in d: x = x + d[k]", "return x"), (X,), [4, 5, 6]),
    Runs(
        "items, keys and values of a dict",
        body('d = {"a": x, "b": x * 2.0}', "y = x", "for k, v in d.items(): y = y + v", "for v in d.values(): y = y + v",
             "return y * float(len(d.keys()))"),
        (X,), [14, 28, 42],
    ),
    Runs(
        "a comprehension of a dict",
        body("d = {i: x * float(i) for i in range(3) if i != 1}", "return d[0] + d[2] * float(len(d))"),
        (X,), [4, 8, 12],
    ),
    Runs("an item of a dict is rebound", body('d = {"a": x}', 'd["a"] += 1.0', 'd["b"] = x', 'return d["a"] + d["b"]'), (X,), [3, 5, 7]),
    Refused("a key that a dict lacks", body('d = {"first": x}', 'return d["frist"]'), "E0208", "did you mean"),
    Refused("keys are known while compiling", body("d = {s: x}", "return x", given="x: Tensor[N, f32], s: f32"), "E0210"),
    Refused("a key stands in a dict once", body('d = {"a": 1, "a": 2}', "return x"), "E0202"),
    Runs("a conditional expression", body("return x if N > 2 else -x"), (X,), [1, 2, 3]),
    Runs("chained comparison", body("return 1.0 < x <= 3.0"), (X,), [False, True, True]),
    Runs("digits in groups", body("return x * 1_000.0 + 1_0"), (X,), [1010, 2010, 3010]),
    Runs("Unicode identifiers", body("σ = sum(x)", "return x / σ", given="x: Tensor[N, f32]"), (floats(1, 1),), [0.5, 0.5]),
    Refused("an f-string elsewhere", body('y = f"{N}"', "return x"), "E0219", "f-string"),
    Runs("an f-string in assert", body('assert min(x) > 0.0, f"least {min(x):.1f} of {N}"', "return x"), (X,), [1, 2, 3]),
    Fails("its text is that of the values", body('assert min(x) > 9.0, f"least {min(x):.1f} of {N}"', "return x"), (X,), "E0933", "least 1.0 of 3"),
    Refused("no class", "class A:\n    pass\n", "E0107"),
    Refused("no try", body("try: y = 1", "return x"), "E0107"),
    Refused("no walrus", body("if (n := 1) > 0: pass", "return x"), "E0107"),
    Refused("no star arguments", body("return concat(*[x, x])"), "E0107"),
    Refused("no set literals", body("s = {1, 2}", "return x"), "E0107"),
    Checks("struct, param, test, where, uses are names elsewhere", body("struct = x", "param = struct", "test = param", "uses = test", "return uses")),
    Refused("_names are private to their module: a call from outside finds none", "def _f(x: Tensor[N, f32]): return y\n", "E0201"),
    Runs("constants may be used before their line", body("return x * K") + "K = 3.0\n", (X,), [3, 6, 9]),
    Runs("types may be used before their line", "def f(x: Tensor[N, elem]): return x\nelem = f32\n", (X,), [1, 2, 3]),
    Runs("a lambda captures", body("k = 2.0", "g = lambda v: v * k", "k = 3.0", "return g(x) * k"), (X,), [6, 12, 18]),
]

UPDATES: list[Claim] = [
    Runs("an update rebinds the name on the left", body("y = x", "x[0] = 9.0", "return x, y"), (X,), ([9, 2, 3], [1, 2, 3])),
    Runs("x += v", body("y = x", "x += 1.0", "return x, y"), (X,), ([2, 3, 4], [1, 2, 3])),
    Runs("x[i] += v", body("x[1] += 5.0", "return x"), (X,), [1, 7, 3]),
    Runs("x.at[i].set(v)", body("return x.at[0].set(7.0), x"), (X,), ([7, 2, 3], [1, 2, 3])),
    Runs("a subscript beside a name", body("y, x[0] = x, 5.0", "return y, x"), (X,), ([1, 2, 3], [5, 2, 3])),
    Runs("subscripts are set from left to right", body("x[0], x[1] = x[1], x[0]", "return x"), (X,), [2, 1, 3]),
    Runs("nested targets", body("(a, b), c = (x, x + 1.0), x * 2.0", "return a + b + c"), (X,), [5, 9, 13]),
    Runs("several targets", body("a = b = x + 1.0", "return a * b"), (X,), [4, 9, 16]),
    Refused("only names are rebound", body("relu(x)[0] = 1.0", "return x"), "E0111", "result of a call"),
    Refused("a literal is not assigned to", body("1 = 2", "return x"), "E0111"),
    Refused("an unused value is a warning", body("x + 1.0", "return x"), "W0201"),
    Refused("an annotation without a value", body("y: Tensor[N, f32]", "return x"), "E0220", "value"),
]

STRUCTS = """
struct P[D]:
    w: Tensor[D, f32] = ones(D)
    v: Tensor[D, f32] = zeros(D)
    n: int = 2

    def apply(self, x: Tensor[D, f32]) -> Tensor[D, f32]:
        return self.w * x

struct Q[D]:
    p: P[D]
    l: List[2, P[D]]

"""

STRUCT_CLAIMS: list[Claim] = [
    Runs("a field is rebound", body("m = P[N]()", "o = m", "m.w = x", "return m.w + o.w", head=STRUCTS), (X,), [2, 3, 4]),
    Runs("an item of a field", body("m = P[N]()", "m.w[0] = 9.0", "m.w[1] += 4.0", "return m.w", head=STRUCTS), (X,), [9, 5, 1]),
    Runs("a field of a field", body("q = Q[N]()", "q.p.w = x", "q.p.w[0] = 7.0", "return q.p.w", head=STRUCTS), (X,), [7, 2, 3]),
    Runs("a field of an item of a list", body("q = Q[N]()", "q.l[1].w = x", "return q.l[0].w + q.l[1].w", head=STRUCTS), (X,), [2, 3, 4]),
    Runs("an item of a tuple", body("t = (x, x)", "t[1] = x * 2.0", "return t[0] + t[1]"), (X,), [3, 6, 9]),
    Runs("fields in a loop", body("m = P[N]()", "for i in range(3):", "    m.w += x", "return m.w", head=STRUCTS), (X,), [4, 7, 10]),
    Runs("structs are vectors", body("m = P[N]()", "return (m - 0.5 * m + m).w", head=STRUCTS), (X,), [1.5, 1.5, 1.5]),
    Refused(
        "structs of two kinds do not add", body("return (P[N]() + Q[N]()).w", head=STRUCTS), "E0210"
    ),
    Runs("calling a struct calls its apply", body("return P[N](w=x)(x)", head=STRUCTS), (X,), [1, 4, 9]),
    Refused("a field that is not there", body("m = P[N]()", "m.q = x", "return x", head=STRUCTS), "E0208"),
]

CONSTANTS: list[Claim] = [
    Runs("constants unpack", body("return x * A + B", head="A, B = 2.0, 1.0\n"), (X,), [3, 5, 7]),
    Runs("nested", body("return x * A + C", head="(A, B), C = (2.0, 1.0), 3.0\n"), (X,), [5, 7, 9]),
    Runs("several targets", body("return x * A + B", head="A = B = 2.0\n"), (X,), [4, 6, 8]),
    Runs("a dict is a constant", body('return x * C["k"]', head='C = {"k": 4.0}\n'), (X,), [4, 8, 12]),
    Refused("the number of names must fit", "A, B = 1, 2, 3\n", "E0205"),
    Refused("a constant that is no tuple", "A, B = 1\n", "E0210"),
    Runs("sizes from constants", "A, B = 2, 3\ndef f(x: Tensor[A, B, f32]): return x * 2.0\n", (floats([1, 2, 3], [4, 5, 6]),), [[2, 4, 6], [8, 10, 12]]),
    Checks("they are evaluated when used", "half = bf16 @accum(f32)\nV = Tensor[4, half]\ndef f(x: V) -> V:\n    return x + x\n"),
]

N = "n: i32, x: Tensor[N, f32]"
CONTROL: list[Claim] = [
    Runs("a range is a loop", body("for i in range(N): x = x + float(i)", "return x"), (X,), [4, 5, 6]),
    Runs("a trip count may be a tensor", body("for k in range(n): x = x * 2.0", "return x", given=N), (3, X), [8, 16, 24]),
    Runs("so may start and step", body("for k in range(n, n + 6, n): x = x + 1.0", "return x", given=N), (2, X), [4, 5, 6]),
    Runs("a negative step", body("for k in range(n, 0, -2): x = x + cast(k, f32)", "return x", given=N), (5, X), [10, 11, 12]),
    Runs("the index is a value", body("t = cast(0, i32)", "for k in range(n): t = t + k * 2", "return t", given=N), (4, X), 12),
    Runs("and an index", body("s = cast(0.0, f32)", "for k in range(n): s = s + x[k]", "return s", given=N), (3, X), 6),
    Fails("an index out of range ends the call", body("s = cast(0.0, f32)", "for k in range(n): s = s + x[k]", "return s", given=N), (4, X), "E0927"),
    Runs("no turns", body("for k in range(n): x = x * 2.0", "return x", given=N), (-1, X), [1, 2, 3]),
    Runs("break in such a loop", body("for k in range(n):", "    if k > 1: break", "    x = x * 2.0", "return x", given=N), (9, X), [4, 8, 12]),
    Refused("a float is no trip count", body("for k in range(s): x = x", "return x", given="x: Tensor[N, f32], s: f32"), "E0210"),
    Refused("nor a vector", body("for k in range(v): x = x", "return x", given="x: Tensor[N, f32], v: Tensor[K, i32]"), "E0210"),
    Refused("a step of zero", body("for k in range(0, 5, 0): x = x", "return x"), "E0215"),
    Refused("a name keeps its type", body("y = x", "for i in range(3): y = sum(y)", "return y"), "E0212"),
    Runs("a loop over a tuple unrolls", body("for w in (1.0, 2.0): x = x * w", "return x"), (X,), [2, 4, 6]),
    Refused("a tensor is not iterated", body("for v in x: pass", "return x"), "E0213"),
    Refused("both branches are checked", body("if True: y = x\n    else: y = nope", "return y"), "E0201"),
    Refused("a name of one branch", body("if sum(x) > 0.0: y = x", "return y"), "E0203"),
    Refused("types agree after if", body("if sum(x) > 0.0: y = x\n    else: y = sum(x)", "return y"), "E0212"),
    Runs("return in a branch", body("if sum(x) > 0.0: return x", "return -x"), (-X,), [1, 2, 3]),
    Refused("return in a loop", body("for i in range(3): return x", "return x"), "E0211"),
    Runs("continue", body("for i in range(4):", "    if i % 2 == 0: continue", "    x = x * 2.0", "return x"), (X,), [4, 8, 12]),
    Runs("while", body("while max(x) < 10.0: x = x * 2.0", "return x"), (X,), [4, 8, 12]),
    Runs("recursion on compile-time arguments", "def p(x: Tensor[N, f32], n: int):\n    if n == 0:\n        return x\n    return p(x, n - 1) * 2.0\n" + body("return p(x, 3)"), (X,), [8, 16, 24]),
    Refused("recursion without an end", "def p(x: Tensor[N, f32], n: int):\n    return p(x, n + 1) * 2.0\n" + body("return p(x, 3)"), "E0217", ""),
    Refused("recursion on tensors", "def p(x: Tensor[N, f32]):\n    if sum(x) > 0.0:\n        return x\n    return p(x + 1.0)\n", "E0206"),
]

MEMBERSHIP: list[Claim] = [
    Runs("in a tuple", body("return x if 1 in (1, 2) else -x"), (X,), [1, 2, 3]),
    Runs("not in a list of strings", body('return x if k not in ["a", "b"] else -x', given="x: Tensor[N, f32], k: str"), (X, "a"), [-1, -2, -3]),
    Runs("a key of a dict", body('return x if "a" in {"a": 1} else -x'), (X,), [1, 2, 3]),
    Runs("a part of a string", body('return x if "re" in k else -x', given="x: Tensor[N, f32], k: str"), (X, "relu"), [1, 2, 3]),
    Runs("a dtype among dtypes", body("return x if x.dtype in (f32, f64) else -x"), (X,), [1, 2, 3]),
    Refused("not in a tensor", body("return 1.0 in x"), "E0210", "any(x == "),
    Refused("values are known", body("return s in (1.0, 2.0)", given="x: Tensor[N, f32], s: f32"), "E0215"),
    Refused("is asks for None only", body("return x if s is x else x", given="x: Tensor[N, f32], s: f32"), "E0218", "=="),
    Runs("is None", body("return x if m is None else x * m", given="x: Tensor[N, f32], m: Tensor[N, f32] | None = None"), (X,), [1, 2, 3]),
]

FUNCTIONS: list[Claim] = [
    Runs("defaults", body("return x * s", given="x: Tensor[N, f32], s: float = 2.0"), (X,), [2, 4, 6]),
    Runs("keyword-only", "def g(x: Tensor[N, f32], *, s: float = 2.0): return x * s\n" + body("return g(x, s=3.0)"), (X,), [3, 6, 9]),
    Refused("they are not positional", "def g(x: Tensor[N, f32], *, s: float = 2.0): return x * s\n" + body("return g(x, 3.0)"), "E0205"),
    Runs("function parameters", "def g(h: fn(Tensor[N, f32]) -> Tensor[f32], x: Tensor[N, f32]): return h(x)\n" + body("return g(sum, x)"), (X,), 6),
    Runs("optional functions", "def g(x: Tensor[N, f32], h: (fn(Tensor[N, f32]) -> Tensor[N, f32]) | None = None):\n    if h is not None:\n        return h(x)\n    return x\n" + body("return g(x) + g(x, lambda v: v * 2.0)"), (X,), [3, 6, 9]),
    Runs("no annotation is generic", "def g(a, b): return a + b\n" + body("return g(x, 1.0) + g(x, x)"), (X,), [4, 7, 10]),
    Runs("bare tensors are generic", "def g(x: Tensor, y: Tensor): return x @ y\n" + body("return g(x[None, :], x[:, None])"), (X,), [[14]]),
    Checks("and checked at each instantiation", "def g(x: Tensor, y: Tensor): return x @ y\ndef h(x: Tensor): return x + 1\n"),
    Refused("where a call does not fit", "def g(x: Tensor, y: Tensor): return x @ y\n" + body("return g(x[None, :], x[None, :])"), "E0217"),
    Refused("names in it are checked", "def g(x: Tensor): return x + nope\n", "E0201"),
    Runs("bare structs are generic", STRUCTS + "def g(m: P, x: Tensor): return m(x)\n" + body("return g(P[N](w=x), x)"), (X,), [1, 4, 9]),
    Runs("lists of structs", STRUCTS + "def g(l: List[K, P[D]], x: Tensor[D, f32]):\n    for p in l: x = p(x)\n    return x\n" + body("return g([P[N](w=x), P[N](w=x)], x)"), (X,), [1, 8, 27]),
    Runs("comprehensions", body("return sum(stack([x * w for w in (1.0, 2.0) for k in range(2)]), axis=0)"), (X,), [6, 12, 18]),
]

ASSERTS: list[Claim] = [
    Refused("false while compiling", body("assert 1 > 2", "return x"), "E0216"),
    Fails("on dims a guard", body("assert N > 4", "return x"), (X,), "E0925"),
    Fails("also of equality", body("assert N == 4", "return x"), (X,), "E0925"),
    Fails("several at once", body("assert 1 < N and N < 3", "return x"), (X,), "E0925"),
    Fails("chained", body("assert 1 < N < 3", "return x"), (X,), "E0925"),
    Fails("on tensors a check of the run", body('assert sum(x) > 9.0, "small"', "return x"), (X,), "E0933", "small"),
]

NUMERICS: list[Claim] = [
    Runs("numerics(fast)", body("with numerics(fast): y = x + x", "return y"), (X,), [2, 4, 6]),
    Runs("several items", body("with device(cpu), numerics(fast): y = x + x", "return y"), (X,), [2, 4, 6]),
    Runs("prefetch", body('with device(cpu), prefetch(x, into="smem", overlap="compute"): y = x + x', "return y"), (X,), [2, 4, 6]),
    Runs("names live on", body("with device(cpu):", "    x = x * 2.0", "    y = x", "return x + y"), (X,), [4, 8, 12]),
    Runs("return inside", body("with device(cpu): return x * 2.0"), (X,), [2, 4, 6]),
    Refused("an unknown mode", body("with numerics(fsat): y = x", "return x"), "E0603", "fast"),
    Refused("an unknown device", body("with device(tpu): y = x", "return x"), "E0603"),
    Refused("something else", body("with relu(x): y = x", "return x"), "E0603"),
    Refused("what to prefetch is a value", body('with prefetch(1, into="smem"): y = x', "return x"), "E0603"),
    Refused("where to is a memory", body('with prefetch(x, into="disk"): y = x', "return x"), "E0603"),
    Refused("only fast(nondet) shows the effect", "def f(x: Tensor[N, f32]) -> Tensor[N, f32] uses none:\n    with numerics(fast(nondet)): return x + x\n", "E0601"),
]

PROGRAMS = {
    "syntax": SYNTAX, "updates": UPDATES, "structs": STRUCT_CLAIMS, "constants": CONSTANTS, "control": CONTROL,
    "membership": MEMBERSHIP, "functions": FUNCTIONS, "asserts": ASSERTS, "numerics": NUMERICS,
}  # fmt: skip
