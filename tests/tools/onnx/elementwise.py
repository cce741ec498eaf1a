"""Forms of operators that work element by element, on dtypes, and on axes."""

from __future__ import annotations

import numpy as np

from tests.tools.onnx.node import CODES, DTYPES, Node, NotInTheLanguage, called, form, plain

UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan",
    "Atanh": "atanh", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Floor": "floor",
    "HardSwish": "hardswish", "IsNaN": "isnan", "Log": "log", "Mish": "mish", "Neg": "neg",
    "Not": "logical_not", "Reciprocal": "reciprocal", "Relu": "relu", "Round": "rint", "Sigmoid": "sigmoid",
    "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Softplus": "softplus", "Softsign": "softsign", "Sqrt": "sqrt",
    "Tan": "tan", "Tanh": "tanh", "Det": "det", "BitwiseNot": "bitwise_not", "NonZero": "nonzero",
}  # fmt: skip
BINARY = {
    "Add": "+", "Sub": "-", "Mul": "*", "BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^", "And": "&", "Or": "|",
    "Xor": "^", "Equal": "==", "Greater": ">", "GreaterOrEqual": ">=", "Less": "<", "LessOrEqual": "<=",
    "MatMul": "@",
}  # fmt: skip
FOLDED = {"Max": "maximum({}, {})", "Min": "minimum({}, {})", "Sum": "({} + {})"}


@form(*UNARY)
def unary(n: Node) -> str:
    if n.op == "NonZero":
        return f"stack(nonzero(x0, {n.size()[1]}))"
    return f"{UNARY[n.op]}(x0)"


@form(*BINARY)
def binary(n: Node) -> str:
    return f"x0 {BINARY[n.op]} x1"


@form(*FOLDED)
def folded(n: Node) -> str:
    text = "x0"
    for i in range(1, len(n.inputs)):
        text = FOLDED[n.op].format(text, f"x{i}")
    return text


@form("Mean")
def mean_of(n: Node) -> str:
    return f"({' + '.join(f'x{i}' for i in range(len(n.inputs)))}) / {float(len(n.inputs))}"


@form("Div")
def div(n: Node) -> str:
    if n.is_float():
        return "x0 / x1"
    if n.dtype()[0] == "u":
        return "x0 // x1"
    return "where((x0 < 0) != (x1 < 0), -(abs(x0) // abs(x1)), abs(x0) // abs(x1))"


@form("Mod")
def mod(n: Node) -> str:
    return "fmod(x0, x1)" if n.attr("fmod") else "x0 % x1"


@form("Pow")
def power(n: Node) -> str:
    one, two = n.dtype(0), n.dtype(1)
    if one == two:
        return "x0 ** x1"
    if n.is_float(0):
        return f"x0 ** cast(x1, {one})"
    return f"cast(cast(x0, f64) ** cast(x1, f64), {one})" if n.is_float(1) else f"x0 ** cast(x1, {one})"


@form("BitShift")
def shift(n: Node) -> str:
    return "x0 << x1" if n.attr("direction") == b"LEFT" else "x0 >> x1"


def _target(n: Node) -> str:
    name = str(plain(n.results[0]).dtype)
    if name not in DTYPES:
        raise NotInTheLanguage(f"elements of {'text' if name == 'object' or name[0] in '<|' else name}")
    saturates = DTYPES[name].startswith(("fp8", "fp4")) and n.attr("saturate", 1)
    return DTYPES[name] + (" @saturate" if saturates and DTYPES[name] in ("fp8_e4m3", "fp8_e5m2") else "")


@form("Cast", "CastLike")
def cast(n: Node) -> str:
    source, wanted = str(n.inputs[0].dtype), str(n.results[0].dtype)
    given = "x0" if source not in CODES else f'codes_to_float(x0, "{CODES[source]}")'
    if wanted == "float8_e8m0fnu" and n.attr("round_mode", b"up") != b"nearest":
        rounded = "floor" if n.attr("round_mode", b"up") == b"down" else "ceil"
        given = f"exp2(maximum({rounded}(log2(cast(x0, f64))), -127.0))"
    elif wanted in WRAPPED and wanted != source:
        given = _wrapped(f"cast({given}, i32)", wanted)
    return _to_format(n, given)


WRAPPED = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}
"""Bits of integers whose range ONNX leaves by wrapping around, where a `cast` of ours takes the nearest number."""


def _wrapped(numbers: str, wanted: str) -> str:
    bits = WRAPPED[wanted]
    half = 0 if wanted[0] == "u" else 1 << (bits - 1)
    return f"((({numbers} + {half}) & {(1 << bits) - 1}) - {half})"


def _to_format(n: Node, numbers: str) -> str:
    wanted = str(n.results[0].dtype)
    if wanted in CODES:
        return f'float_codes({numbers}, "{CODES[wanted]}", {bool(n.attr("saturate", 1))})'
    return f"cast({numbers}, {_target(n)})"


@form("BitCast")
def bits(n: Node) -> str:
    return f"bitcast(x0, {_target(n).split(' ')[0]})"


@form("Clip")
def clip(n: Node) -> str:
    return called("clamp", "x0", min="x1" if n.has(1) else None, max="x2" if n.has(2) else None)


@form("Celu", "Elu", "LeakyRelu", "PRelu", "ThresholdedRelu", "Shrink", "HardSigmoid", "Selu", "Gelu", "Swish", "IsInf")
def activation(n: Node) -> str:
    alpha = n.attr("alpha")
    match n.op:
        case "Celu" | "Elu":
            return called(n.op.lower(), "x0", 1.0 if alpha is None else alpha)
        case "LeakyRelu":
            return f"leaky_relu(x0, {0.01 if alpha is None else alpha})"
        case "PRelu":
            return "where(x0 >= 0.0, x0, x1 * x0)"
        case "ThresholdedRelu":
            return f"threshold(x0, {1.0 if alpha is None else alpha})"
        case "Shrink":
            return f"shrink(x0, {n.attr('lambd', 0.5)}, {n.attr('bias', 0.0)})"
        case "HardSigmoid":
            return f"hardsigmoid(x0, {0.2 if alpha is None else alpha}, {n.attr('beta', 0.5)})"
        case "Selu":
            a, g = alpha, n.attr("gamma")
            return "selu(x0)" if a is None and g is None else f"{g} * elu(x0, {a})"
        case "Gelu":
            return called("gelu", "x0", approximate=n.attr("approximate"))
        case "Swish":
            return f"x0 * sigmoid({1.0 if alpha is None else alpha} * x0)"
    positive, negative = n.attr("detect_positive", 1), n.attr("detect_negative", 1)
    return "isinf(x0)" if positive and negative else "isposinf(x0)" if positive else "isneginf(x0)"


@form("SwiGLU")
def swiglu(n: Node) -> str:
    alpha = n.attr("alpha")
    return "swiglu(x0, x1)" if alpha is None else f"x0 * sigmoid({alpha} * x0) * x1"


@form("Where")
def where(n: Node) -> str:
    return "where(x0, x1, x2)"


@form("Binarizer")
def binarizer(n: Node) -> str:
    return f"cast(x0 > {n.attr('threshold', 0.0)}, {n.dtype()})"


@form("CumSum", "CumProd")
def running(n: Node) -> str:
    axis = int(np.asarray(n.inputs[1]).reshape(()))
    text = called(n.op.lower(), "x0", axis, exclusive=bool(n.attr("exclusive", 0)), reverse=bool(n.attr("reverse", 0)))
    return text if n.is_float() else f"cast({text}, {n.dtype()})"


@form("ArgMax", "ArgMin")
def arg(n: Node) -> str:
    axis, keep = n.axis(0), bool(n.attr("keepdims", 1))
    name = n.op.lower()
    if not n.attr("select_last_index", 0):
        return called(name, "x0", axis=axis, keep=keep)
    return f"{n.shape()[axis] - 1} - {name}(flip(x0, {axis}), axis={axis}, keep={keep})"


REDUCED = {
    "ReduceL1": "sum(abs(x0){})", "ReduceL2": "sqrt(sum(square(x0){}))", "ReduceLogSum": "log(sum(x0{}))",
    "ReduceLogSumExp": "logsumexp_safe(x0{})", "ReduceMax": "max(x0{})", "ReduceMean": "mean(x0{})",
    "ReduceMin": "min(x0{})", "ReduceProd": "prod(x0{})", "ReduceSum": "sum(x0{})",
    "ReduceSumSquare": "sum(square(x0){})",
}  # fmt: skip


@form(*REDUCED)
def reduced(n: Node) -> str:
    axes = n.value(1) if n.has(1) else n.attr("axes")
    if not axes and n.attr("noop_with_empty_axes", 0):
        return {
            "ReduceL1": "abs(x0)",
            "ReduceL2": "abs(x0)",
            "ReduceLogSum": "log(x0)",
            "ReduceSumSquare": "square(x0)",
        }.get(n.op, "x0")
    if n.dtype() == "bool":
        return called(
            {"ReduceMax": "any", "ReduceMin": "all"}[n.op], "x0", axis=tuple(axes), keep=bool(n.attr("keepdims", 1))
        )
    inside = ", axis=" + str(tuple(axes) if len(axes) > 1 else axes[0]) if axes else ""
    text = REDUCED[n.op].format(inside + (", keep=True" if n.attr("keepdims", 1) else ""))
    return text if n.is_float() or n.op not in ("ReduceProd", "ReduceSum") else f"cast({text}, {n.dtype()})"
