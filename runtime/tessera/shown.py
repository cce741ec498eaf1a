"""A function of a program as Python's own tools see it: `inspect.signature`, `help`, editors."""

from __future__ import annotations

import inspect

from tessera.interface import Computed, FunctionInterface, Missing, Parameter


def python_signature(interface: FunctionInterface) -> inspect.Signature:
    ordered = sorted(interface.parameters, key=lambda parameter: parameter.keyword_only)
    return inspect.Signature([_python_parameter(parameter) for parameter in ordered])


def _python_parameter(parameter: Parameter) -> inspect.Parameter:
    """A default that the program computes is shown as `...`."""
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    default: object = parameter.default
    if isinstance(default, Missing):
        default = inspect.Parameter.empty
    elif isinstance(default, Computed):
        default = ...
    return inspect.Parameter(parameter.name, kinds[parameter.keyword_only], default=default)
