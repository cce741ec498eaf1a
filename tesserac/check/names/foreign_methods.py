"""Methods of PyTorch's tensors and modules: the text that does the same here.

Enters: the name of a method, the text of what it is called on, and that of its arguments. Leaves: words on it, and what
stands for the call: behind the receiver, for the whole call, or for the statement that it is; None where that is not
known.
"""

from __future__ import annotations

import ast
import re

from tesserac.base.dataclass import dataclass
from tesserac.check.names.foreign_names import DTYPE_WORDS, LEFT_OUT, LOADED
from tesserac.porting.layers import NoCounterpart, arguments

PRODUCTS = ("dot", "mm", "bmm", "mv")
"""Products of vectors, matrices, and lists of these: `@` is all of them."""
_NEW = {"zero_": "zeros_like({x})", "fill_": "full_like({x}, {given})", "copy_": "{given}"}
"""What a tensor is after a method that takes nothing of what it was."""
_BY_AXIS = {
    "gather": (["dim", "index"], "take_along_axis({x}, {index}, axis={dim})"),
    "index_add": (["dim", "index", "source"], "scatter_add({x}, {index}, {source}, axis={dim})"),
    "index_select": (["dim", "index"], "gather({x}, {index}, axis={dim})"),
}
"""Methods that take the axis before the places: their parameters, and the call here."""
_AS_ANOTHER = {"expand_as": "expand", "reshape_as": "reshape", "view_as": "reshape"}
"""Methods that take a tensor for its shape."""
_LIKE = {
    "new_empty": ("zeros",), "new_full": ("full",), "new_ones": ("ones",), "new_tensor": ("array",),
    "new_zeros": ("zeros",),
}  # fmt: skip
"""Methods that make a tensor of the same dtype."""
_ASKS_FOR_GRADIENTS = ("requires_grad_", "retain_grad")
_NOT_RECORDED = "nothing is recorded: `grad(f)` is a derivative, where it is asked for"
_IN_PLACE = "nothing changes a tensor in place: bind the name again"
_OLD_TENSORS = {
    "BoolTensor": "bool", "ByteTensor": "u8", "CharTensor": "i8", "DoubleTensor": "f64", "FloatTensor": "f32",
    "HalfTensor": "f16", "IntTensor": "i32", "LongTensor": "i64", "ShortTensor": "i16",
}  # fmt: skip
_PLACE = re.compile(r"dev|cuda|cpu|gpu|rank")
"""What names and texts of a device have in them."""
_OF_MODULES = {
    "train": "whether a network is trained is an argument of its call: `training=`",
    "eval": "whether a network is trained is an argument of its call: `training=False`",
    "zero_grad": "a gradient is computed anew each time; nothing has to be cleared",
    "requires_grad_": _NOT_RECORDED,
}
"""Methods of modules that are statements, and why there is no need of them."""


@dataclass(frozen=True)
class Rewritten:
    """Words on a call, its text here, and whether that is the whole call's or what stands behind the receiver."""

    words: str
    text: str
    is_whole: bool = False


def method_here(name: str, receiver: str, given: str) -> Rewritten | None:
    """What a call of a method of tensors is here, `given` being what stands in its brackets."""
    if name in LEFT_OUT and (not given or name in ("cpu", "cuda")):
        return Rewritten(LEFT_OUT[name], "")
    if name in _ASKS_FOR_GRADIENTS:
        return Rewritten(_NOT_RECORDED, "")
    try:
        call = ast.parse(f"f({given})", mode="eval").body
        assert isinstance(call, ast.Call)
        return _converted(name, call) or _by_places(name, receiver, call)
    except (NoCounterpart, SyntaxError, ValueError):
        return None


def _converted(name: str, call: ast.Call) -> Rewritten | None:
    """`to`, `type` and `type_as`: another dtype, another device, or both."""
    if name == "type_as" and len(call.args) == 1 and not call.keywords:
        return _as_type(f"{_operand(call.args[0])}.dtype")
    if name not in ("to", "type") or not (call.args or call.keywords):
        return None
    said = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg in ("device", "dtype"))]
    dtypes = [dtype for value in said if (dtype := _dtype(value))]
    if dtypes:
        return _as_type(dtypes[0])
    if name == "to" and (not said or _PLACE.search(ast.unparse(said[0]))):
        return Rewritten(LOADED, "")
    return None


def _as_type(dtype: str) -> Rewritten:
    return Rewritten(f"here it is `x.astype({dtype})`", f".astype({dtype})")


def _dtype(value: ast.expr) -> str:
    """The dtype that a value names; empty where it is a device, or may be."""
    text = ast.unparse(value)
    word = text.rpartition(".")[2].strip("'\"")
    if _PLACE.search(text) or not word.isidentifier():
        return ""
    if isinstance(value, ast.Attribute) and value.attr == "dtype":
        return text
    named = word if isinstance(value, ast.Name | ast.Attribute) else ""
    return _OLD_TENSORS.get(word) or DTYPE_WORDS.get(word) or named


def _by_places(name: str, receiver: str, call: ast.Call) -> Rewritten | None:
    """Methods whose arguments stand in another order here, and those that are operators."""
    if name in _BY_AXIS:
        names, text = _BY_AXIS[name]
        given = {key: ast.unparse(value) for key, value in arguments(call, names).items()}
        written = text.format(x=receiver, **given) if len(given) == len(names) else ""
    elif name in _AS_ANOTHER:
        (other,) = arguments(call, ["other"]).values()
        written = f"{_AS_ANOTHER[name]}({receiver}, {_operand(other)}.shape)"
    elif name in _LIKE:
        written = _made_like(receiver, call, *_LIKE[name])
    elif name in PRODUCTS:
        (other,) = arguments(call, ["other"]).values()
        written = f"{receiver} @ {_operand(other)}"
    else:
        return None
    return Rewritten(f"here it is `{written}`", written, is_whole=True) if written else None


def _made_like(receiver: str, call: ast.Call, function: str) -> str:
    """`x.new_zeros(3, 4)`: of the dtype of x."""
    said = [ast.unparse(value) for value in call.args]
    named = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg != "device"}
    if not said or set(named) - {"dtype"}:
        raise NoCounterpart
    return f"{function}({', '.join(said)}, dtype={named.get('dtype', f'{receiver}.dtype')})"


def _operand(value: ast.expr) -> str:
    text = ast.unparse(value)
    return text if isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.Call) else f"({text})"


def in_place_here(name: str, receiver: str, given: str, known: bool) -> Rewritten | None:
    """What a statement such as `x.add_(y)` is: an assignment. `known`: whether there is a function without the `_`."""
    if name in _NEW and bool(given) == ("given" in _NEW[name]):
        value = _NEW[name].format(x=receiver, given=given)
    elif name.rstrip("_") in _BY_AXIS and (moved := method_here(name.rstrip("_"), receiver, given)) is not None:
        value = moved.text
    elif known and name.endswith("_") and not name.startswith("_"):
        value = f"{receiver}.{name.rstrip('_')}({given})"
    else:
        return None
    written = f"{receiver} = {value}"
    return Rewritten(f"{_IN_PLACE}: `{written}`" if len(written) < 50 else _IN_PLACE, written, is_whole=True)


def module_method_here(name: str) -> str | None:
    """Why a call of a method of PyTorch's modules can be left out, of a struct that has none of that name."""
    return LOADED if name in ("to", "cuda", "cpu") else _OF_MODULES.get(name)


def words_on_module(name: str) -> str | None:
    """What to say of a method of PyTorch's modules that no text stands for."""
    return {
        "parameters": "a struct is its weights: `grad(f)(net)` is one of gradients, `net - lr * g` moves all of them",
        "named_parameters": "a struct is its weights; from Python they are its fields, `net.fc1.weight`",
        "state_dict": "weights are its fields, which Python reads: `net.fc1.weight`",
        "load_state_dict": "weights are set from Python: `net.fc1.weight = array`",
        "forward": "a call of a struct calls its method `apply`: `net(x)`",
    }.get(name)
