"""Words of Python that Tessera reserves without using, and what to write instead."""

RESERVED = {
    "class": "declare data with `struct`; functions over it are its methods or plain functions",
    "try": "there are no exceptions: a failed check stops the call with a status",
    "except": "there are no exceptions: a failed check stops the call with a status",
    "finally": "there are no exceptions: a failed check stops the call with a status",
    "raise": 'state what must hold with `assert condition, "text"`',
    "match": "use `if`, `elif` and `else`",
    "yield": "return a list, or use `scan`",
    "global": "return the new value; a function never changes what another one sees",
    "nonlocal": "return the new value; a function never changes what another one sees",
    "del": "names need no deleting: memory is planned by the compiler",
    "async": "the compiler orders and overlaps work by itself",
    "await": "the compiler orders and overlaps work by itself",
}
