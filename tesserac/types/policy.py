"""Precision policies: how a value of some dtype is accumulated, rounded and scaled.

Enters: text such as `@accum(f32) @saturate`. Leaves: a frozen `Policy`, whose `str()` reads back to itself.
"""

import re
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.types.dtype import F32, FP8_E4M3, DType, lookup


@dataclass(frozen=True)
class Policy:
    """Attributes of a dtype in a type; every field at its default means "no policy"."""

    accum: DType | None = None
    saturate: bool = False
    stochastic_round: bool = False
    loss_scale: int | None = None
    scale_axis: int | None = None

    def __str__(self) -> str:
        """Text to put directly after a dtype: `f"{dtype}{policy}"`; hence the leading space, or nothing."""
        parts = [
            f" @accum({self.accum})" if self.accum else "",
            " @saturate" if self.saturate else "",
            " @stochastic_round" if self.stochastic_round else "",
            f" @loss_scale({self.loss_scale})" if self.loss_scale is not None else "",
            f" @scale(axis={self.scale_axis})" if self.scale_axis is not None else "",
        ]
        return "".join(parts)


NO_POLICY = Policy()

_ATTRIBUTE = re.compile(r"@\s*(\w+)\s*(?:\(\s*([^()]*(?:\([^()]*\))?)\s*\))?\s*")


class PolicyError(ValueError):
    """The text is not a policy; the message says why."""


def with_attribute(policy: Policy, name: str, argument: str | None) -> Policy:
    """`policy` with one more attribute, as written in source: `accum` and `f32`, or `saturate` and None."""
    if name == "saturate" and argument is None:
        return replace(policy, saturate=True)
    if name == "stochastic_round" and argument is None:
        return replace(policy, stochastic_round=True)
    if name == "accum" and argument is not None:
        accum = lookup(argument)
        if accum is None:
            raise PolicyError(f"`{argument}` is not a dtype")
        return replace(policy, accum=accum)
    if name == "loss_scale" and argument is not None and argument.isdecimal():
        return replace(policy, loss_scale=int(argument))
    axis = re.fullmatch(r"axis\s*=\s*(-?\d+)", argument or "")
    if name == "scale" and axis:
        return replace(policy, scale_axis=int(axis[1]))
    raise PolicyError(f"`@{name}{'' if argument is None else f'({argument})'}` is not a policy of a dtype")


def fitting(dtype: DType, policy: Policy) -> Policy:
    """`policy`, where values of `dtype` can have it. Raises PolicyError."""
    if policy.stochastic_round and not (dtype.is_float and dtype.bits < 32):
        raise PolicyError(f"`@stochastic_round` is a policy of f16, bf16 and the fp8 formats, not of {dtype}")
    if dtype.is_stored and policy != NO_POLICY:
        raise PolicyError(f"{dtype} is a format of storage, which has no policies: cast it to compute with it")
    if policy.accum is not None and dtype.is_float and not policy.accum.is_float:
        raise PolicyError(f"`@accum({policy.accum})`: values of {dtype} accumulate in a float")
    return policy


def placed_scale(dtype: DType, policy: Policy, rank: int) -> Policy:
    """`policy` with the axis of its scale counted from the first of `rank` dims. Raises PolicyError."""
    axis = policy.scale_axis
    if axis is None:
        return policy
    if not (dtype.is_fp8 or (dtype.kind == "i" and dtype.bits <= 8)):
        raise PolicyError(f"`@scale` is a policy of i8, i4 and the fp8 formats, not of {dtype}")
    if not -rank <= axis < rank:
        raise PolicyError(f"`@scale(axis={axis})` names no dim of a tensor with {rank}")
    return replace(policy, scale_axis=axis % rank)


def parse_policy(text: str) -> Policy:
    """Reads what `str(policy)` writes, with any spacing."""
    policy, position, text = NO_POLICY, 0, text.strip()
    while position < len(text):
        match = _ATTRIBUTE.match(text, position)
        if match is None:
            raise PolicyError(f"`{text[position:]}` is not a policy")
        policy, position = with_attribute(policy, match[1], match[2]), match.end()
    return policy


def compute_dtype(dtype: DType, policy: Policy) -> DType:
    """The dtype in which operators on such values compute before they round once. To round at random there must be
    something to round; and what has no infinity cannot tell an overflow, which saturates, from a NaN, which stays."""
    needs_room = policy.stochastic_round or (policy.saturate and dtype == FP8_E4M3)
    return policy.accum or (F32 if needs_room else dtype)


def without_drawing(policy: Policy) -> Policy:
    """The policy of the same values where rounding at random is operations of its own."""
    return replace(policy, stochastic_round=False, accum=policy.accum or F32) if policy.stochastic_round else policy
