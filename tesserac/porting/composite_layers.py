"""Layers whose calls are written out: recurrent ones of several levels or both directions, and attention with heads.

    self.lstm = nn.LSTM(d, h, num_layers=2)            lstm: LSTM[D, H]
                                                       lstm_more: List[2 - 1, LSTM[H, H]]
    self.lstm(x)                                       lstm(x, [self.lstm.weights()] + [layer.weights() for ...], None)

Enters: the name of a field and the call that makes it. Leaves: the fields, and how what is called is written.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tesserac.porting.layers import TRAINING, NoCounterpart, Sizes, arguments
from tesserac.porting.methods import Field

RECURRENT = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn"}
ATTENTION = "MultiheadAttention"
_GIVEN = ["input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"]
_MORE = {"LSTM": ["proj_size"], "RNN": ["nonlinearity"]}
_FLAGS = ("batch_first", "bidirectional")


def layers_of(kind: str, name: str, call: ast.Call, size: Sizes, option: Sizes) -> Field | None:
    """The fields of a recurrent layer of several levels, or with options; None for one level in one direction."""
    given = arguments(call, [*_GIVEN, *_MORE.get(kind, [])], 3 if kind == "RNN" else len(_GIVEN))
    if not given.keys() - {"input_size", "hidden_size", "batch_first"}:
        return None
    flags = {flag: given[flag] for flag in _FLAGS if flag in given and not _is(given[flag], False)}
    both = "bidirectional" in flags
    if any(not _is(flag, True) for flag in flags.values()):
        raise NoCounterpart
    struct = _struct(kind, given)
    hidden = size(given["hidden_size"])
    sizes = f"{hidden}, {size(given['proj_size'])}" if struct.endswith("Projected") else hidden
    first = [name, f"{name}_reverse"] if both else [name]
    declared = [f"{field}: {struct}[{size(given['input_size'])}, {sizes}]" for field in first]
    rest, levels = list[str](), given.get("num_layers", ast.Constant(1))
    if not _is(levels, 1):
        rest = [f"{name}_more", f"{name}_more_reverse"] if both else [f"{name}_more"]
        count = size(ast.BinOp(levels, ast.Sub(), ast.Constant(1)))
        out = given["proj_size" if struct.endswith("Projected") else "hidden_size"]
        inner = size(ast.BinOp(ast.Constant(2), ast.Mult(), out) if both else out)
        declared += [f"{field}: List[{count}, {struct}[{inner}, {sizes}]]" for field in rest]
    return Field(tuple(declared), recurrent=_call(kind, first, rest, [*(f"{flag}=True" for flag in flags),
                                                                      *_options(given, option)]))  # fmt: skip


def _struct(kind: str, given: Mapping[str, ast.expr]) -> str:
    """The layer whose weights are those of the options."""
    biased, projected = given.get("bias", ast.Constant(True)), not _is(given.get("proj_size", ast.Constant(0)), 0)
    if not (_is(biased, True) or _is(biased, False)) or (projected and not _is(biased, True)):
        raise NoCounterpart
    return f"{kind}Projected" if projected else kind if _is(biased, True) else f"{kind}NoBias"


def _options(given: Mapping[str, ast.expr], option: Sizes) -> list[str]:
    """What the call takes besides. Nothing is dropped of a single level, whose number PyTorch ignores too."""
    written = list[str]()
    if "nonlinearity" in given:
        written.append(f"nonlinearity={option(given['nonlinearity'])}")
    dropped = given.get("dropout", ast.Constant(0))
    if not _is(dropped, 0) and not _is(dropped, 0.0) and not _is(given.get("num_layers", ast.Constant(1)), 1):
        written += [f"dropout={option(dropped)}", f"{TRAINING}={TRAINING}"]
    return written


def _call(kind: str, first: list[str], rest: list[str], said: list[str]) -> str:
    """The call, of an `{x}` and a `{state}`."""
    weights = f"[{', '.join(f'self.{field}.weights()' for field in first)}]"
    if len(rest) == 1:
        weights += f" + [layer.weights() for layer in self.{rest[0]}]"
    elif rest:
        forth, back = rest
        weights += f" + [way.weights() for pair in zip(self.{forth}, self.{back}) for way in pair]"
    return ", ".join([f"{RECURRENT[kind]}({{x}}", weights, "{state}", *said]) + ")"


def attention_of(name: str, call: ast.Call, size: Sizes, option: Sizes) -> Field:
    """Attention of a sequence to itself; what it drops of the weights is none of this library's layer."""
    given = arguments(call, ["embed_dim", "num_heads", "dropout", "bias", "batch_first"])
    if not _is(given.get("batch_first"), True):
        raise NoCounterpart
    declared = f"{name}: {ATTENTION}[{size(given['embed_dim'])}]"
    return Field((declared,), attention=f"self.{name}({{x}}, heads={option(given['num_heads'])})")


def _is(value: ast.expr | None, known: object) -> bool:
    return (isinstance(value, ast.Constant) and value.value is known) or (
        isinstance(value, ast.Constant) and type(value.value) is type(known) and value.value == known
    )
