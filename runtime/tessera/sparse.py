"""Operators as entries at their places, for SciPy.

Enters: the tree of an operator and the arrays and numbers that it is made of, on the host. Leaves: values, rows and
columns, in which what stands at one place adds; or nothing, where an operator is not made of entries alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tessera.arguments import Array

    Entries = tuple[Array, Array, Array]
Tree = list[Any]


def entries_of(tree: Tree, parts: Sequence[Any]) -> Entries | None:
    match tree:
        case ["Sparse", ["leaf", values], ["leaf", rows], ["leaf", columns], _, _, is_adjoint]:
            return _turned((parts[values], parts[rows], parts[columns]), is_adjoint)
        case ["BlockSparse", ["leaf", blocks], ["leaf", rows], ["leaf", columns], _, _, is_adjoint]:
            return _turned(_of_blocks(parts[blocks], parts[rows], parts[columns]), is_adjoint)
        case ["Diag", ["leaf", place]]:
            return _on_diagonal(parts[place])
        case ["Adjoint", ["Diag", ["leaf", place]]]:
            return _on_diagonal(parts[place].conj())
        case ["Conjugate", of]:
            return _changed(entries_of(of, parts), lambda values: values.conj())
        case ["Scaled", coefficient, ["tuple", *factors], of]:
            number = coefficient
            for factor in factors:
                number = number * _number(factor, parts)
            return _changed(entries_of(of, parts), lambda values: (number * values).astype(_dtype(number, values)))
        case ["Sum", ["tuple", *terms]]:
            return _joined([entries_of(term, parts) for term in terms])
    return None


def _turned(entries: Entries, is_adjoint: bool) -> Entries:
    values, rows, columns = entries
    return (values.conj(), columns, rows) if is_adjoint else entries


def _of_blocks(blocks: Array, rows: Array, columns: Array) -> Entries:
    import numpy as np

    _, height, width = blocks.shape
    down = rows[:, None, None].astype("i8") * height + np.arange(height)[:, None]
    right = columns[:, None, None].astype("i8") * width + np.arange(width)
    down, right = (np.broadcast_to(places, blocks.shape).reshape(-1) for places in (down, right))
    return blocks.reshape(-1), down, right


def _on_diagonal(values: Array) -> Entries:
    import numpy as np

    places = np.arange(len(values))
    return values, places, places


def _number(factor: Tree, parts: Sequence[Any]) -> Any:
    """A number in front of an operator."""
    _, (_, place), is_conjugated, is_reciprocal = factor
    number = parts[place].conjugate() if is_conjugated else parts[place]
    return 1 / number if is_reciprocal else number


def _dtype(number: Any, values: Array) -> Any:
    """A real number takes the dtype of the entries, and a complex one makes them complex of as many bits."""
    import numpy as np

    return np.result_type(values.dtype, "c8") if np.iscomplexobj(number) else values.dtype


def _changed(entries: Entries | None, change: Any) -> Entries | None:
    return None if entries is None else (change(entries[0]), *entries[1:])


def _joined(terms: Sequence[Entries | None]) -> Entries | None:
    import numpy as np

    found = [term for term in terms if term is not None]
    if len(found) != len(terms):
        return None
    values, rows, columns = (np.concatenate(part) for part in zip(*found, strict=True))
    return values, rows, columns
