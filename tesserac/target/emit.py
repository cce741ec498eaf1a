"""LLVM modules as text: a thin, typed, one-to-one writer. Enters: calls. Leaves: `str(module)`, which llvmlite parses.

    module = Module("vadd", triple, layout)
    f = module.function("kernel", VOID, [PTR, I64], attributes=["nounwind"])
    b = f.builder
    b.store(b.fadd(x, y), b.gep(F32, f.args[0], f.args[1]), align=4)
    b.ret()

Types and constants stand in `llvm_types.py`, straight-line instructions in `instructions.py` (class Builder),
structured control flow in `flow.py`; here is what is around them: functions, globals, declarations, metadata.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from hashlib import sha256
from typing import NamedTuple

from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I8, LType, Value, array, pointer

_REFERENCE = re.compile(r"@([\w.$]+)")


class Function:
    """A function under construction. `builder` appends to it; `current` is the label of the open block."""

    def __init__(
        self,
        module: Module,
        name: str,
        result: LType,
        parameters: Sequence[LType],
        attributes: Sequence[str] = ("nounwind",),
        parameter_attributes: Sequence[str] = (),
        convention: str = "",
        linkage: str = "",
    ) -> None:
        self.module = module
        self.name = name
        self.result = result
        self.convention = convention
        self.linkage = linkage
        self.attributes = list(attributes)
        self.parameter_attributes = [*parameter_attributes, *[""] * (len(parameters) - len(parameter_attributes))]
        self.args = [Value(t, f"%a{i}") for i, t in enumerate(parameters)]
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.cold: list[str] = []
        """Blocks that hardly ever run, behind all others."""
        self.current = "entry"
        self.computes = True
        """Whether it works on elements itself, and on many; else it says only what others do, and for which of them."""
        self.is_common = False
        """Whether many programs have it, and it refers to nothing that is not so too."""
        self.said = ""
        """Of a common one: all that its code depends on, where that is known before it is written."""
        self.labels = 0
        self._counted = (0, 0)
        self.builder = Builder(self)

    @property
    def size(self) -> int:
        """Characters of its lines, which are counted once where it is complete."""
        if self._counted[0] != len(self.lines):
            self._counted = len(self.lines), sum(map(len, self.lines))
        return self._counted[1]

    @property
    def pointer(self) -> Value:
        """The function's address."""
        return Value(pointer(), f"@{self.name}")

    def __str__(self) -> str:
        return self._text(self.name)

    def meaning(self) -> str:
        """The text without the name."""
        return self._text("")

    def declaration(self, name: str) -> str:
        """For a module that has it elsewhere, by one of its names."""
        taken = zip(self.args, self.parameter_attributes, strict=True)
        types = [" ".join(filter(None, [str(arg.type), extra])) for arg, extra in taken]
        head = " ".join(filter(None, ["declare hidden", self.convention, str(self.result)]))
        attributes = [attribute for attribute in self.attributes if attribute != "optnone"]
        return " ".join([f"{head} @{name}({', '.join(types)})", *attributes])

    def _text(self, name: str) -> str:
        parameters = ", ".join(
            " ".join(filter(None, [str(a.type), extra, a.text]))
            for a, extra in zip(self.args, self.parameter_attributes, strict=True)
        )
        head = " ".join(filter(None, ["define", self.linkage, self.convention, str(self.result)]))
        tail = " ".join(["", *self.attributes]) if self.attributes else ""
        body = "\n".join(["entry:", *self.entry, *self.lines, *self.cold])
        return f"{head} @{name}({parameters}){tail} {{\n{body}\n}}"


FindHeld = Callable[[str], "bytes | None"]
"""The object of a common function that was made before, by what it has said."""


class Common(NamedTuple):
    """A text that many programs have, the first of its functions, and what that has `said`."""

    name: str
    text: str
    said: str


def nothing_held(said: str) -> bytes | None:
    return None


class Module:
    """Functions, globals and metadata that become one object file or one PTX text."""

    def __init__(self, name: str, triple: str = "", layout: str = "", find_held: FindHeld = nothing_held) -> None:
        self.name = name
        self.triple = triple
        self.layout = layout
        self._find_held = find_held
        self.held: dict[str, bytes] = {}
        """The objects of common functions that are only declared here."""
        self._functions: list[Function] = []
        self._named: dict[str, Function] = {}
        self._shared: dict[str, Function] = {}
        self._asked: dict[str, Function] = {}
        self.shared_widely: dict[str, Function] = {}
        """Functions whose names say all that they do."""
        self._begun: dict[str, Function] = {}
        """Functions that `begin` has given away, by their names."""
        self._tied: set[str] = set()
        """Complete functions that refer to a variable of this module."""
        self._globals: dict[str, str] = {}
        self.tables: dict[str, tuple[bytes, int]] = {}
        """Bytes and their alignment, by the names of constants that the text only declares."""
        self._declarations: dict[str, str] = {}
        self._metadata: list[str] = []
        self._named_metadata: dict[str, list[str]] = {}
        self._loop_metadata = ""

    def function(
        self,
        name: str,
        result: LType,
        parameters: Sequence[LType],
        *,
        attributes: Sequence[str] = ("nounwind",),
        parameter_attributes: Sequence[str] = (),
        convention: str = "",
        linkage: str = "",
    ) -> Function:
        """Starts a function. `convention` is such as `ptx_kernel`, `linkage` such as `internal`."""
        made = Function(self, name, result, parameters, attributes, parameter_attributes, convention, linkage)
        self._functions.append(made)
        self._named.setdefault(name, made)
        return made

    def asked_for(self, meaning: str, write: Callable[[], Function]) -> Function:
        """The function of a text that says all that its code depends on: that of an earlier one, or what is written
        now."""
        if meaning not in self._asked:
            self._asked[meaning] = write()
        return self._asked[meaning]

    def share(self, function: Function, stem: str) -> Function:
        """The function that says the same as one without a name: an earlier one, or that itself under a new name."""
        text = str(function)
        if text not in self._shared:
            function.name = f"{stem}{len(self._shared) + 1}"
            self._functions.append(function)
            self._shared[text] = function
        return self._shared[text]

    def share_widely(self, function: Function, stem: str) -> Function:
        """The same under a name that says all that it does, so that other programs may have its code; only of a
        function that refers to nothing."""
        text = str(function)
        if text in self._shared or not all(name.startswith("llvm.") for name in _REFERENCE.findall(text)):
            return self.share(function, "part")
        function.name = f"{stem}_{sha256(text.encode()).hexdigest()[:32]}"
        self._functions.append(function)
        self._named[function.name] = self.shared_widely[function.name] = self._shared[text] = function
        return function

    def tell_control(self, attributes: Sequence[str]) -> None:
        """Gives functions that do not compute the attributes of such."""
        for function in self._functions:
            if not function.computes:
                function.attributes = list(attributes)

    def merge_equal(self, apart: Container[str] = ()) -> None:
        """Functions that say the same become one, with the others as names for it: kernels over other sizes. Those that
        will be taken `apart` stay themselves."""
        first: dict[str, Function] = {}
        for function in self._functions:
            said = function.name if function.name in apart else function.meaning()
            same = first.setdefault(said, function)
            if same is not function:
                self._name_again(function.name, same)
        self._functions = list(first.values())

    def _name_again(self, name: str, same: Function) -> None:
        parameters = ", ".join(str(arg.type) for arg in same.args)
        self._globals[name] = f"@{name} = alias {same.result} ({parameters}), ptr @{same.name}"

    def has_code(self, function: Function, said: str) -> bool:
        """Whether the code of a common function, which has been begun, was made before for one that said the same: then
        nobody writes it again."""
        function.said = said
        found = self._find_held(said)
        if found is None:
            return False
        self.held[function.name] = found
        self._functions.remove(function)
        self._declare_common(function)
        return True

    def _declare_common(self, function: Function) -> None:
        types = [arg.type for arg in function.args]
        self.declare(function.name, function.result, types, " ".join(function.attributes), "hidden")

    def take_common(self) -> list[Common]:
        """The texts of modules with the functions that many programs have, in one those that call one another. Here
        they are only declared from now on."""
        aliased = {text.rpartition("@")[2] for text in self._globals.values() if " = alias " in text}
        taken = {f.name: f for f in self._functions if f.is_common and f.name not in aliased}
        self._functions = [f for f in self._functions if f.name not in taken]
        for function in taken.values():
            function.linkage = "hidden"
            self._declare_common(function)
        texts = {name: str(taken[name]) for name in sorted(taken)}
        named = {name: dict.fromkeys(_REFERENCE.findall(text)) for name, text in texts.items()}
        return [
            Common(group[0], self._with_declarations([texts[n] for n in group], named, group), taken[group[0]].said)
            for group in _connected(named)
        ]

    def _with_declarations(
        self, texts: Sequence[str], named: Mapping[str, Iterable[str]], group: Sequence[str]
    ) -> str:
        outside = dict.fromkeys(n for name in group for n in named[name] if n not in group)
        if unknown := sorted(outside.keys() - self._declarations.keys()):
            raise TypeError(f"{', '.join(unknown)} is not what many programs have, as {group[0]} is that refers to it")
        nodes = self._nodes() if any("!" in text for text in texts) else []
        return "\n".join([*self._head(), *texts, *(self._declarations[name] for name in outside), *nodes]) + "\n"

    def take(self, name: str) -> str:
        """The text of a module with one function, which calls no other; here it is only declared from now on."""
        function = self._named.pop(name)
        function.linkage = function.linkage.replace("internal", "hidden")
        self._functions.remove(function)
        self.declare(name, function.result, [arg.type for arg in function.args], visibility="hidden")
        text = str(function)
        return self._with_declarations([text], {name: dict.fromkeys(_REFERENCE.findall(text))}, [name])

    def find_function(self, name: str) -> Function | None:
        return self._named.get(name)

    def is_computing(self, name: str) -> bool:
        """Whether it has a function of that name that nothing changes any more, once it is written."""
        found = self.find_function(name)
        return found is not None and found.computes

    def declare(
        self, name: str, result: LType, parameters: Sequence[LType], attributes: str = "", visibility: str = ""
    ) -> Value:
        """Declares an outside function or an intrinsic once, and gives its address."""
        head = " ".join(filter(None, ["declare", visibility, str(result)]))
        text = f"{head} @{name}({', '.join(map(str, parameters))}){' ' if attributes else ''}{attributes}"
        if self._declarations.setdefault(name, text) != text:
            raise TypeError(f"@{name} is declared in two ways: {text} and {self._declarations[name]}")
        return Value(pointer(), f"@{name}")

    def variable(
        self,
        name: str,
        type_: LType,
        initial: str = "zeroinitializer",
        *,
        constant: bool = False,
        space: int = 0,
        align: int = 8,
        linkage: str = "internal",
    ) -> Value:
        """A global. `linkage` "external" with `initial` "" only declares it."""
        if name in self._globals:
            raise ValueError(f"@{name} is defined twice")
        where = f"addrspace({space})" if space else ""
        kind = "constant" if constant else "global"
        parts = [f"@{name} =", linkage, where, kind, str(type_), initial]
        self._globals[name] = " ".join(filter(None, parts)) + f", align {align}"
        return Value(pointer(space), f"@{name}")

    def has_variable(self, name: str) -> bool:
        return name in self._globals

    def bytes_constant(self, name: str, data: bytes, align: int = 1) -> Value:
        text = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in data)
        return self.variable(name, array(I8, len(data)), f'c"{text}"', constant=True, align=align)

    def table(self, name: str, data: bytes, align: int) -> Value:
        """A constant that the linker puts beside the code: LLVM would read its text longer than all code."""
        self.tables[name] = (data, align)
        return self.variable(name, array(I8, len(data)), "", constant=True, align=align, linkage="external hidden")

    def metadata(self, text: str) -> str:
        """A numbered node such as `!{!"wave", i32 1}`; gives its name `!4`."""
        self._metadata.append(text)
        return f"!{len(self._metadata) - 1}"

    def named_metadata(self, name: str, node: str) -> None:
        """Adds a node to a named list such as `nvvm.annotations`."""
        self._named_metadata.setdefault(name, []).append(node)

    def loop_metadata(self) -> str:
        """The mark of a loop that is already unrolled as it should be."""
        if not self._loop_metadata:
            disable = self.metadata('!{!"llvm.loop.unroll.disable"}')
            own = f"!{len(self._metadata)}"
            self._loop_metadata = self.metadata(f"distinct !{{{own}, {disable}}}")
        return self._loop_metadata

    def __str__(self) -> str:
        named = [f"!{name} = !{{{', '.join(nodes)}}}" for name, nodes in self._named_metadata.items()]
        functions = [str(f) for f in self._functions]
        declared = self._declarations.values()
        parts = [*self._head(), *self._globals.values(), *functions, *declared, *named, *self._nodes()]
        return "\n".join(parts) + "\n"

    def begin(self, size: int, held: Container[str]) -> list[str]:
        """The texts of modules with the functions that are complete and that nothing changes any more, once they have
        `size` characters together, each of about so many; from then on they are only declared here. What does not
        compute, so far, what many programs have, what is `held` and who refers to a variable of this module stays until
        the end, and does not count: with it each kernel to come would be a module of its own."""
        ready = [f for f in self._functions if f.computes and not f.is_common and f.name not in held]
        free = {f.name: f for f in ready if f.name not in self._tied}
        if self._named_metadata or sum(f.size for f in free.values()) < size:
            return []
        named = {name: dict.fromkeys(_REFERENCE.findall(str(f))) for name, f in free.items()}
        for name in [name for name, others in named.items() if self._defined & others.keys()]:
            self._tied.add(name)
            free.pop(name)
        sizes = {name: function.size for name, function in free.items()}
        if sum(sizes.values()) < size:
            return []
        texts = self._hidden(list(free.values()))
        bins = _balanced(sizes, set(), max(sum(sizes.values()) // size, 1))
        made = [self._part(part, texts, named, first=False) for part in bins]
        self._begun |= free
        self._functions = [f for f in self._functions if f.name not in self._begun]
        return made

    def parts(self, size: int, most: int) -> list[str]:
        """The module as several, each of about `size` characters. Who refers to a variable stays where that is, and who
        refers to a constant has one too; what was internal is hidden, since the other parts may call it."""
        sizes = {function.name: function.size for function in self._functions}
        count = min(most, sum(sizes.values()) // size)
        if self._named_metadata or (count < 2 and not self._begun):
            return [str(self)]
        texts = self._hidden(self._functions)
        named = {name: dict.fromkeys(_REFERENCE.findall(text)) for name, text in texts.items()}
        tied = {name for name, others in named.items() if self._defined & others.keys()}
        bins = _balanced(sizes, tied, max(count, 1))
        return [self._part(part, texts, named, first=part is bins[0]) for part in bins]

    def _hidden(self, functions: Sequence[Function]) -> dict[str, str]:
        """The texts of functions that other parts may call."""
        for function in functions:
            function.linkage = function.linkage.replace("internal", "hidden")
        return {function.name: str(function) for function in functions}

    @property
    def _defined(self) -> Set[str]:
        """Variables that have their bytes here, and only here."""
        others = (" = external ", " = alias ", " = internal constant ")
        return {name for name, text in self._globals.items() if not any(other in text for other in others)}

    def _part(
        self, part: Sequence[str], texts: Mapping[str, str], named: Mapping[str, Iterable[str]], *, first: bool
    ) -> str:
        """The module of some functions, the `first` of which has the variables."""
        used = dict.fromkeys(name for caller in part for name in named[caller])
        here = {
            name: text
            for name, text in self._globals.items()
            if (text.rpartition("@")[2] in part if " = alias " in text else first or name in used)
        }
        used |= dict.fromkeys(name for text in here.values() for name in _REFERENCE.findall(text))
        outside = [name for name in used if name not in part and name not in here]
        functions = self._begun | {function.name: function for function in self._functions}
        elsewhere = {name: self._globals.get(name, "").rpartition("@")[2] or name for name in outside}
        declared = [self._declarations.get(name) or functions[of].declaration(name) for name, of in elsewhere.items()]
        own = [texts[name] for name in part]
        return "\n".join([*self._head(), *here.values(), *own, *declared, *self._nodes()]) + "\n"

    def _head(self) -> list[str]:
        head = [f"; {self.name}"]
        head += [f'target datalayout = "{self.layout}"'] if self.layout else []
        head += [f'target triple = "{self.triple}"'] if self.triple else []
        return head

    def _nodes(self) -> list[str]:
        return [f"!{i} = {text}" for i, text in enumerate(self._metadata)]


def _balanced(sizes: Mapping[str, int], together: Set[str], count: int) -> list[list[str]]:
    """The names in so many groups of about the same size, each in their order; some `together` in the first."""
    groups = [[name for name in sizes if name in together], *([] for _ in range(count - 1))]
    filled = [sum(sizes[name] for name in group) for group in groups]
    for name in sorted(sizes.keys() - together, key=lambda name: (-sizes[name], name)):
        least = filled.index(min(filled))
        groups[least].append(name)
        filled[least] += sizes[name]
    places = {name: place for place, name in enumerate(sizes)}
    return [sorted(group, key=places.__getitem__) for group in groups if group]


def _connected(named: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The names in groups, in which nobody refers to one of another."""
    group_of = {name: [name] for name in named}
    for name, others in named.items():
        for other in others:
            if other in named and group_of[other] is not group_of[name]:
                joined = sorted(group_of[name] + group_of[other])
                group_of.update(dict.fromkeys(joined, joined))
    return list({id(group): group for group in group_of.values()}.values())
