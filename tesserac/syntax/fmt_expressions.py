"""Expressions and types as documents.

In: a branch of the concrete tree that stands for a value. Out: its document. Lines break in brackets only: `inside`
is for a value that has some around it, and `outside` for one that has none, which gets round brackets if it needs
several lines. Brackets that the author wrote around a whole `outside` value are the same as none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.base.source import SourceFile
from tesserac.syntax.comments import Comments
from tesserac.syntax.concrete import GROUP, Branch, Leaf, parse_concrete
from tesserac.syntax.fmt_brackets import Brackets, optional
from tesserac.syntax.fmt_chains import Chain, chain_of, operations
from tesserac.syntax.fmt_doc import Doc, Line, concat, flat, group, indent, join_all
from tesserac.syntax.fmt_literals import format_number, format_string, plain_text
from tesserac.syntax.fmt_names import BUILTIN_TYPES, Names, Role

_OPERATIONS = frozenset(("binary_op", "logical_op", "comparison", "conditional", "unary_op", "lambda", "function_type"))
_SIMPLE = frozenset(("name", "number", "none_literal", "ellipsis_literal", "true", "false"))
_SIZES = frozenset(("name", "number", "binary_op", "unary_op", "call", "arguments", "argument", GROUP))
_TIGHT_IN_SIZES = frozenset(("*", "/", "//", "%", "**"))


class Expressions(Brackets):
    def __init__(self, leaves: Sequence[Leaf], comments: Comments, names: Names) -> None:
        super().__init__(leaves, comments)
        self.names = names

    # ----------------------------------------------------------------------------------------------- positions

    def inside(self, branch: Branch, role: Role = Role.VALUE) -> Doc:
        return LAYOUTS[branch.kind](self, branch, role)

    def outside(self, branch: Branch, role: Role = Role.VALUE) -> Doc:
        value = self.peeled(branch)
        if value.kind == "tuple_expr" and isinstance(value.parts[0], Branch):
            return self.loose_items(value.parts[0], role)
        doc = self.inside(value, role)
        if value.kind in _OPERATIONS or (value.kind == "string" and len(value.parts) > 1):
            return optional(doc)
        return optional(doc) if chain_of(value).is_fluent else doc

    def loose_items(self, listing: Branch, role: Role = Role.VALUE) -> Doc:
        """The items of a tuple without brackets. A single one gets them, since a comma at the end is overlooked."""
        if len(listing.branches) == 1:
            return self.bare_tuple(listing, role)
        return optional(self.items(listing, lambda item: self.inside(item, role)))

    def bare_tuple(self, listing: Branch, role: Role) -> Doc:
        """A tuple without brackets that stays on its line, if it has more than one item."""
        lay = self.inside if len(listing.branches) == 1 else self.unbroken
        items = [lay(item, role) for item in listing.branches]
        commas = [self.leaf(leaf) if leaf is not listing.parts[-1] else self.dropped(leaf) for leaf in listing.leaves]
        if len(items) == 1:
            return group(concat("(", indent(concat(Line.SOFT, items[0], ",", *commas)), Line.SOFT, ")"))
        spaced = [doc for comma, item in zip(commas, items[1:], strict=False) for doc in (comma, " ", item)]
        return join_all([items[0], *spaced, *commas[len(items) - 1 :]])

    def target(self, branch: Branch) -> Doc:
        """What is assigned to. It is never put into brackets, so it breaks in its own only."""
        if branch.kind == "tuple_expr" and isinstance(branch.parts[0], Branch):
            return self.bare_tuple(branch.parts[0], Role.VALUE)
        return self.unbroken(branch, Role.VALUE)

    def unbroken(self, branch: Branch, role: Role) -> Doc:
        """A name, or what is applied to one, without breaks before its dots."""
        chain = chain_of(branch)
        return self.linked(chain, role, breaks=False) if chain.links else self.inside(branch, role)

    # ----------------------------------------------------------------------------------------- names, literals

    def name(self, branch: Branch, role: Role) -> Doc:
        leaf = branch.leaves[0]
        return self.leaf(leaf, self.names.dtype(leaf.text) if role is Role.TYPE else None)

    def number(self, branch: Branch, _: Role) -> Doc:
        return self.leaf(branch.leaves[0], format_number(branch.leaves[0].text))

    def string(self, branch: Branch, _: Role) -> Doc:
        texts = [self.leaf(leaf, format_string(leaf.text)) for leaf in branch.leaves]
        return group(join_all(doc for i, text in enumerate(texts) for doc in ((Line.SPACE, text) if i else (text,))))

    def word(self, branch: Branch, _: Role) -> Doc:
        return self.leaf(branch.leaves[0])

    # ---------------------------------------------------------------------------------------------- operations

    def group_(self, branch: Branch, role: Role) -> Doc:
        return self.grouped(branch, lambda inner: self.inside(inner, role))

    def binary_op(self, branch: Branch, role: Role) -> Doc:
        first, rest = operations(branch)
        if rest[0][0].text == "|":
            return self.broken_before(self.inside(first, role), [(op, self.inside(x, role)) for op, x in rest])
        if rest[0][0].text == "@" and (role is not Role.VALUE or self.is_type(first)):
            return self.attributes(first, rest)
        inner = Role.VALUE if role is Role.VALUE else Role.DIM
        docs = [self.inside(first, inner)]
        for op, operand in rest:
            tight = op.text in _TIGHT_IN_SIZES if role is not Role.VALUE else self.is_tight_power(branch)
            space = "" if tight else " "
            docs += ("" if tight else Line.SPACE, self.leaf(op), space, self.inside(operand, inner))
        return group(join_all(docs))

    def broken_before(self, first: Doc, rest: Sequence[tuple[Leaf, Doc]]) -> Doc:
        return group(join_all([first, *(doc for op, x in rest for doc in (Line.SPACE, self.leaf(op), " ", x))]))

    def attributes(self, first: Branch, rest: Sequence[tuple[Leaf, Branch]]) -> Doc:
        """`bf16 @accum(f32) @saturate`: what follows `@` belongs to the type, not to a product."""
        docs = [self.inside(first, Role.TYPE)]
        for op, attribute in rest:
            tight = op.text in ("@", "**")
            docs += (Line.SPACE, self.leaf(op), "" if tight else " ", self.inside(attribute, Role.TYPE))
        return group(join_all(docs))

    def is_type(self, branch: Branch) -> bool:
        """Whether a value can only be a dtype or a type, as far as its name tells."""
        head = branch.parts[0] if branch.kind in ("call", "subscript") else branch
        if not isinstance(head, Branch) or head.kind != "name":
            return False
        name = head.leaves[0].text
        return name in BUILTIN_TYPES if branch.kind == "subscript" else self.names.is_dtype(name)

    def is_tight_power(self, branch: Branch) -> bool:
        return branch.leaves[0].text == "**" and all(_is_simple(operand) for operand in branch.branches)

    def logical_op(self, branch: Branch, _: Role) -> Doc:
        first, rest = operations(branch)
        return self.broken_before(self.inside(first), [(op, self.inside(operand)) for op, operand in rest])

    def comparison(self, branch: Branch, _: Role) -> Doc:
        first, links = branch.branches
        docs = [self.inside(first)]
        for link in links.branches:
            operator, operand = link.branches
            docs += (Line.SPACE, self.words(operator.parts, self.inside), " ", self.inside(operand))
        return group(join_all(docs))

    def unary_op(self, branch: Branch, role: Role) -> Doc:
        op = branch.leaves[0]
        space = " " if op.text == "not" else ""
        return concat(self.leaf(op), space, self.inside(branch.branches[0], role))

    def conditional(self, branch: Branch, _: Role) -> Doc:
        then, test, otherwise = (self.inside(part) for part in branch.branches)
        if_, else_ = (self.leaf(leaf) for leaf in branch.leaves)
        return group(concat(then, Line.SPACE, if_, " ", test, Line.SPACE, else_, " ", otherwise))

    def lambda_(self, branch: Branch, _: Role) -> Doc:
        word, colon = branch.leaves
        *parameters, body = branch.branches
        listed = [concat(" ", self.joined(listing, self.parameter)) for listing in parameters]
        return join_all([self.leaf(word), *listed, self.leaf(colon), " ", self.inside(body)])

    def joined(self, listing: Branch, lay: Callable[[Branch], Doc]) -> Doc:
        """A list on one line, without brackets."""
        docs = [concat(self.leaf(p), " ") if isinstance(p, Leaf) else lay(p) for p in listing.parts]
        return join_all(docs)

    def function_type(self, branch: Branch, role: Role) -> Doc:
        left, result = branch.branches
        return concat(self.inside(left, role), " ", self.leaf(branch.leaves[0]), " ", self.inside(result, role))

    # ------------------------------------------------------------------------------------------ calls, indexing

    def chain(self, branch: Branch, role: Role) -> Doc:
        """`head.name(...)[...]`. A long chain of method calls breaks before each dot after the first call."""
        if role is Role.TYPE and (dtype := self.called_dtype(branch)) is not None:
            return dtype
        chain = chain_of(branch)
        if chain.is_fluent:
            return group(self.linked(chain, role, breaks=True))
        return self.linked(chain, role, breaks=False)

    def linked(self, chain: Chain, role: Role, *, breaks: bool) -> Doc:
        docs = [self.inside(chain.head, role)]
        called = False
        for position, link in enumerate(chain.links):
            if link.kind == "attribute" and called and breaks:
                docs.append(Line.SOFT)
            docs.append(self.link(chain, position, role))
            called = called or link.kind == "call"
        return join_all(docs)

    def called_dtype(self, branch: Branch) -> Doc | None:
        """`fp8(e4m3)` is a dtype whose name is `fp8_e4m3`."""
        if branch.kind != "call":
            return None
        leaves = self.leaves[branch.first : branch.last + 1]
        dtype = self.names.dtype("".join(leaf.text for leaf in leaves))
        return None if dtype is None else join_all([self.leaf(leaves[0], dtype), *map(self.dropped, leaves[1:])])

    def link(self, chain: Chain, position: int, role: Role) -> Doc:
        link = chain.links[position]
        if link.kind == "attribute":
            dot, name = link.leaves
            after_int = not position and chain.head.kind == "number" and chain.head.leaves[0].kind == "INT"
            return concat(" " if after_int else "", self.leaf(dot), self.leaf(name))
        opener, closer = link.leaves
        listing = link.branches[1] if len(link.branches) > 1 else None
        if link.kind == "call":
            lay = self.call_argument(chain.called_name(position), listing, role, chain.is_indexed(position))
            return self.comprehended(opener, listing, closer) or self.listed(opener, listing, closer, lay)
        assert listing is not None  # the grammar has no empty subscript
        head = chain.head.leaves[0].text if not position and chain.head.kind == "name" else ""
        return self.subscript(opener, listing, closer, head, role)

    def comprehended(self, opener: Leaf, listing: Branch | None, closer: Leaf) -> Doc | None:
        """`f(x for x in y)` takes no comma."""
        if listing is None or (generator := listing.branches[0]).kind != "generator":
            return None
        return self.enclosed(opener, self.clauses(generator.branches), closer)

    def call_argument(
        self, function: str, listing: Branch | None, role: Role, is_indexed: bool
    ) -> Callable[[Branch], Doc]:
        given = {a.leaves[0].text for a in (listing.branches if listing else ()) if a.kind == "named_argument"}

        def lay(argument: Branch) -> Doc:
            if argument.kind == "argument":
                return self.inside(argument.branches[0], role)
            name, equals = argument.leaves
            better = self.names.argument(function, name.text, is_indexed)
            shown = self.leaf(name, name.text if better in given else better)
            return concat(shown, self.leaf(equals), self.continued(argument.branches[0], role))

        return lay

    def continued(self, branch: Branch, role: Role = Role.VALUE) -> Doc:
        """A value behind its name: the lines of an operation are indented."""
        doc = self.inside(branch, role)
        return indent(doc) if branch.kind in _OPERATIONS else doc

    def subscript(self, opener: Leaf, listing: Branch, closer: Leaf, head: str, role: Role) -> Doc:
        builtin = head in BUILTIN_TYPES
        if role is Role.VALUE and not builtin:
            return self.listed(opener, listing, closer, lambda argument: self.entry(argument, Role.VALUE))
        positional = [a for a in listing.branches if a.kind != "named_argument"]

        def lay(argument: Branch) -> Doc:
            may_be_dtype = builtin and (argument.kind == "named_argument" or argument is positional[-1])
            return self.entry(argument, Role.TYPE if may_be_dtype else Role.DIM)

        return self.listed(opener, listing, closer, lay)

    def entry(self, argument: Branch, role: Role) -> Doc:
        """An argument of a subscript: an index, a slice, an entry of a type."""
        value = argument.branches[0]
        if argument.kind == "slice_argument":
            return self.slice(value)
        doc = self.unquoted(value, role) or self.inside(value, role)
        if argument.kind == "argument":
            return doc
        name, equals = argument.leaves
        return concat(self.leaf(name), " ", self.leaf(equals), " ", doc)

    def unquoted(self, value: Branch, role: Role) -> Doc | None:
        """A size in quotes, which change nothing, without them."""
        if role is Role.VALUE or value.kind != "string" or len(value.parts) > 1:
            return None
        leaf = value.leaves[0]
        text = plain_text(leaf.text)
        parsed = parse_concrete(SourceFile("", text), 0, len(text), "expression_input") if text else None
        if text is None or "#" in text or parsed is None or not _is_size(parsed.root):
            return None
        shown = flat(Expressions(parsed.leaves, Comments(), self.names).inside(parsed.root.branches[0], role))
        return self.leaf(leaf, shown)

    def slice(self, branch: Branch) -> Doc:
        """`a:b`, and `a + 1 : b` with spaces around the colon, which binds loosest."""
        space = "" if all(_is_simple(bound) for bound in branch.branches) else " "
        docs: list[Doc] = []
        for position, part in enumerate(branch.parts):
            if isinstance(part, Branch):
                docs += (space if position else "", self.inside(part))
            else:
                after_value = position and isinstance(branch.parts[position - 1], Branch)
                docs += (space if after_value else "", self.leaf(part))
        return join_all(docs)

    # ------------------------------------------------------------------------------------ tuples, lists, dicts

    def tuple_expr(self, branch: Branch, role: Role) -> Doc:
        first = branch.parts[0]
        if isinstance(first, Branch):
            return self.bare_tuple(first, role)
        opener, closer = branch.leaves
        if not branch.branches:
            return self.empty(opener, closer)
        body = self.items(branch.branches[0], lambda item: self.inside(item, role), sole_comma=",")
        return self.enclosed(opener, body, closer)

    def collection(self, branch: Branch, _: Role) -> Doc:
        """A list or a dict."""
        opener, closer = branch.leaves
        if not branch.branches:
            return self.empty(opener, closer)
        return self.enclosed(opener, self.items(branch.branches[0], self.inside), closer)

    def dict_entry(self, branch: Branch, _: Role) -> Doc:
        key, value = branch.branches
        return concat(self.inside(key), self.leaf(branch.leaves[0]), " ", self.continued(value))

    def comprehension(self, branch: Branch, _: Role) -> Doc:
        opener, closer = branch.leaves
        return self.enclosed(opener, self.clauses(branch.branches), closer)

    def clauses(self, parts: Sequence[Branch]) -> Doc:
        """`element for target in iterable if condition`, from the element and its clauses."""
        element, clauses = parts
        docs = [self.inside(element)]
        for clause in clauses.branches:
            for_, in_ = clause.leaves
            target, iterable, *conditions = clause.branches
            docs += (Line.SPACE, self.leaf(for_), " ", self.target(target), " ", self.leaf(in_), " ")
            docs.append(self.inside(iterable))
            for if_, condition in ((p.leaves, p.branches) for p in conditions):
                for word, test in zip(if_, condition, strict=True):
                    docs += (Line.SPACE, self.leaf(word), " ", self.inside(test))
        return join_all(docs)

    # ---------------------------------------------------------------------------------------------- parameters

    def parameter(self, branch: Branch) -> Doc:
        """`name: type = default`, or `name=default`, of a function or a lambda."""
        typed = any(leaf.kind == ":" for leaf in branch.leaves)
        docs: list[Doc] = []
        role = Role.VALUE
        for part in branch.parts:
            if isinstance(part, Branch):
                docs.append(self.continued(part, role))
            elif part.kind == ":":
                role = Role.TYPE
                docs += (self.leaf(part), " ")
            elif part.kind == "=":
                role = Role.VALUE
                docs += (" ", self.leaf(part), " ") if typed else (self.leaf(part),)
            else:
                docs.append(self.leaf(part))
        return join_all(docs)


Layout = Callable[[Expressions, Branch, Role], Doc]

LAYOUTS: dict[str, Layout] = {
    "name": Expressions.name,
    "number": Expressions.number,
    "string": Expressions.string,
    **dict.fromkeys(("true", "false", "none_literal", "ellipsis_literal"), Expressions.word),
    GROUP: Expressions.group_,
    "binary_op": Expressions.binary_op,
    "logical_op": Expressions.logical_op,
    "comparison": Expressions.comparison,
    "unary_op": Expressions.unary_op,
    "conditional": Expressions.conditional,
    "lambda": Expressions.lambda_,
    "function_type": Expressions.function_type,
    **dict.fromkeys(("call", "attribute", "subscript"), Expressions.chain),
    "tuple_expr": Expressions.tuple_expr,
    **dict.fromkeys(("list_expr", "dict_expr"), Expressions.collection),
    "dict_entry": Expressions.dict_entry,
    **dict.fromkeys(("list_comprehension", "dict_comprehension"), Expressions.comprehension),
}
"""By rule of the grammar."""


def _is_simple(branch: Branch) -> bool:
    """A name, a number, one with a sign, or an attribute of a name."""
    if branch.kind in ("attribute", "unary_op"):
        return branch.leaves[0].text != "not" and _is_simple(branch.branches[0])
    return branch.kind in _SIMPLE


def _is_size(branch: Branch) -> bool:
    return all(below.kind in _SIZES and _is_size(below) for below in branch.branches)
