"""One mistake, one error: what is missing because a line did not parse, or a name is no size, is told once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Diagnostic, Severity
from tesserac.driver.session import Session

SESSION = Session()

MODEL = """\
struct Linear[D, H]:
    w: Tensor[D, H, f32] = zeros(D, H)
    b: Tensor[H, f32] = zeros(H)

    def apply(self, x: Tensor[B, D, f32]) -> Tensor[B, H, f32]:
        return x @ self.w + self.b

struct Net[D, H]:
    first: Linear[D, H]
    second: Linear[H, D]

    def apply(self, x: Tensor[B, D, f32]):
        return self.second(self.first(x))

def make(w: Tensor[D, H, f32], b: Tensor[H, f32]) -> Linear[D, H]:
    return Linear(w=w, b=b)

def new() -> Net[4, 8]:
    return Net[4, 8]()

def run(n: Net[D, H], l: Linear[D, H], x: Tensor[B, D, f32]) -> Tensor[B, H, f32]:
    y = n(x)
    return l.apply(y) + l(x) * sum(l.b)
"""


def errors(text: str) -> list[Diagnostic]:
    return [d for d in SESSION.check(SourceFile("own.tess", text)).diagnostics if d.severity is Severity.ERROR]


def without_one(text: str, first: str) -> Iterator[str]:
    """The text without one of the characters in the lines of the structs."""
    for struct in re.finditer(first, text, re.MULTILINE | re.DOTALL):
        for place in range(struct.start(), struct.end()):
            if text[place] in "[]():":
                yield text[:place] + text[place + 1 :]


def test_the_model_is_right() -> None:
    assert not errors(MODEL)


@pytest.mark.one_in(24)
def test_a_struct_that_does_not_parse_is_one_error() -> None:
    counts = []
    for text in without_one(MODEL, r"^struct .*?(?=^\S)"):
        found = errors(text)
        if any(d.code.startswith("E01") for d in found):
            assert len(found) == 1, (text, [d.title for d in found])
            counts.append(len(found))
    assert len(counts) >= 40


@pytest.mark.parametrize("line", ["w: Tensor[D, H, f32 =", "w Tensor[D, H, f32]", "w: = 3", ": f32"])
def test_a_field_that_does_not_parse_is_one_error(line: str) -> None:
    text = MODEL.replace("w: Tensor[D, H, f32] = zeros(D, H)", line)
    assert len(errors(text)) == 1


def test_what_has_nothing_to_do_with_it_is_still_said() -> None:
    text = MODEL.replace("    b: Tensor[H, f32] = zeros(H)", "    b: = zeros(H)")
    found = errors(text + "\ndef other(x: Tensor[N, f32]):\n    return x + wholly_unknown\n")
    assert [d.code for d in found] == ["E0101", "E0201"]


def test_a_return_that_does_not_parse_is_no_missing_value() -> None:
    text = "def f(x: Tensor[N, f32]):\n    return (x +\n\ndef g(x: Tensor[N, f32]):\n    return f(x) * 2.0\n"
    assert [d.code for d in errors(text)] == ["E0102"]


LOWER = """\
def f(x: Tensor[n, k, f32], y: Tensor[k, n, f32]) -> Tensor[n, n, f32]:
    a: Tensor[n, k, f32] = x
    z = zeros(n, k) + a
    for i in range(n):
        z[i] = z[i] + x[i]
    return (a + z) @ y + zeros(n, n)

def g(x: Tensor[n, k, f32]) -> Tensor[k, f32] where n > 2:
    return sum(x, axis=0) + sum(f(x, x.T))

struct S[Rows]:
    w: Tensor[Rows, k, f32]

def h(s: S[Rows], x: Tensor[n, f32]):
    return s.w, x
"""


def test_a_name_that_is_no_size_is_told_once_in_a_file() -> None:
    found = errors(LOWER)
    assert [d.title for d in found] == [f"invalid annotation: `{name}` is not a size" for name in "nk"]
    assert [len(d.secondary) for d in found] == [2, 2]


def test_a_size_that_is_misspelt_is_told_once() -> None:
    found = errors("def f(x: Tensor[N, head, f32], heads: int) -> Tensor[head, f32]:\n    return x[0] + float(head)\n")
    assert [d.title for d in found] == ["invalid annotation: `head` is not a size"]
    assert found[0].fixes


def test_a_size_of_the_result_alone_is_told_once() -> None:
    found = errors("def f(x: Tensor[N, f32]) -> Tensor[m, f32] where m > 2:\n    return x\n")
    assert [d.title for d in found] == ["invalid annotation: `m` is not a size"]


HALF_TYPED = (
    "k1, k2 =\n    return normal((3,), key=k1) + normal((3,), key=k2)",
    "mean =\n    return x - mean",
    "max = x.\n    return x - max",
    "sum: Tensor[N, f32] =\n    return sum * 2.0",
    "a, (b, sum) =\n    return sum * x + a",
    "x = x @\n    return zeros(7, 2) @ x",
    "for i in range(3):\n        x = x +\n    return zeros(7, 2) @ x",
    "@\n    def g(x): return x\n    return g(x)",
)


@pytest.mark.parametrize("body", HALF_TYPED)
def test_a_name_whose_value_is_being_typed_is_nothing_else(body: str) -> None:
    """Neither what the library has under this name, nor what it was before."""
    assert [d.code for d in errors(f"def f(x: Tensor[N, f32]):\n    {body}\n")] == ["E0101"]


BEGUN = (
    ("rest\n    return x - rest + 2.0 * rest", ["E0201"]),
    ("rest, more\n    for i in range(3):\n        rest = rest * x + more\n    return rest + more", ["E0201", "E0201"]),
    ("for i in range(3):\n        x = x * sin(x\n        x = x + 1.0\n    y = x\n    return y", ["E0102"]),
    ("going = True\n    while going:\n        going = any(x > max(x\n        x = x + 1.0\n    return x", ["E0102"]),
    ("going = True\n    while going:\n        going = wholly_unknown(x)\n        x = x + 1.0\n    return x", ["E0201"]),
)


@pytest.mark.parametrize(("body", "codes"), BEGUN)
def test_a_line_that_is_being_typed_is_told_at_itself(body: str, codes: list[str]) -> None:
    assert [d.code for d in errors(f"def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    {body}\n")] == codes


def test_an_element_that_is_being_typed_leaves_its_tensor() -> None:
    found = errors("def f(x: Tensor[N, f32], i: i32):\n    x[i] =\n    return x @ zeros(7, 2)\n")
    assert [d.code for d in found] == ["E0101"]


@pytest.mark.parametrize("before", ["", "@jit\n", "struct A[N]:\n    x: Tensor[N, f32]\n\n    "])
@pytest.mark.parametrize("line", ["@", "@kernel.", "@kernel(a,"])
def test_a_decorator_that_is_being_typed_hides_nothing(before: str, line: str) -> None:
    indent = " " * (len(before) - len(before.rstrip(" ")))
    text = f"{before}{line}\n{indent}def g(x: Tensor[N, f32]):\n{indent}    return x + wholly_unknown\n"
    assert [d.code for d in errors(text)][:1] == ["E0102" if "(" in line else "E0101"]
    assert len(errors(text)) <= 2
