"""Layers whose calls are written out: recurrent ones of several levels or both directions, and attention with heads.

    self.lstm = nn.LSTM(d, h, num_layers=2)            lstm: LSTM[D, H]
                                                       lstm_more: List[2 - 1, LSTM[H, H]]
    self.lstm(x)                                       lstm(x, [self.lstm.weights()] + [layer.weights() for ...], None)

Enters: the name of a field and the call that makes it. Leaves: the fields, and how what is called is written.
"""

from __future__ import annotations

import ast

from tesserac.porting.layers import NoCounterpart, Sizes, arguments
from tesserac.porting.methods import Field

RECURRENT = {"LSTM": "lstm", "GRU": "gru"}
ATTENTION = "MultiheadAttention"
_GIVEN = ["input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"]
_FLAGS = ("batch_first", "bidirectional")


def layers_of(kind: str, name: str, call: ast.Call, size: Sizes) -> Field | None:
    """The fields of a recurrent layer of several levels; None for one level in one direction."""
    given = arguments(call, _GIVEN)
    if "bias" in given and not _is(given["bias"], True):
        raise NoCounterpart
    flags = {flag: given[flag] for flag in _FLAGS if flag in given and not _is(given[flag], False)}
    both = "bidirectional" in flags
    if any(not _is(flag, True) for flag in flags.values()):
        raise NoCounterpart
    levels = given.get("num_layers", ast.Constant(1))
    if _is(levels, 1) and not both and "dropout" not in given:
        return None
    hidden = size(given["hidden_size"])
    first = [name, f"{name}_reverse"] if both else [name]
    declared = [f"{field}: {kind}[{size(given['input_size'])}, {hidden}]" for field in first]
    rest = list[str]()
    if not _is(levels, 1):
        rest = [f"{name}_more", f"{name}_more_reverse"] if both else [f"{name}_more"]
        count = size(ast.BinOp(levels, ast.Sub(), ast.Constant(1)))
        inner = size(ast.BinOp(ast.Constant(2), ast.Mult(), given["hidden_size"])) if both else hidden
        declared += [f"{field}: List[{count}, {kind}[{inner}, {hidden}]]" for field in rest]
    return Field(tuple(declared), recurrent=_call(kind, first, rest, flags))


def _call(kind: str, first: list[str], rest: list[str], flags: dict[str, ast.expr]) -> str:
    """The call, of an `{x}` and a `{state}`."""
    weights = f"[{', '.join(f'self.{field}.weights()' for field in first)}]"
    if len(rest) == 1:
        weights += f" + [layer.weights() for layer in self.{rest[0]}]"
    elif rest:
        forth, back = rest
        weights += f" + [way.weights() for pair in zip(self.{forth}, self.{back}) for way in pair]"
    said = "".join(f", {flag}=True" for flag in flags)
    return f"{RECURRENT[kind]}({{x}}, {weights}, {{state}}{said})"


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
