"""Statements and blocks as lines.

In: the concrete tree of an item, with its comments. Out: its lines, blank ones empty. A statement has its line, a
suite on the line of its header gets lines of its own. One blank line stands around functions, structs and tests; other
blank lines stay where they are, one at a time, but for the start of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from itertools import pairwise

from tesserac.base.source import SourceFile
from tesserac.syntax.comments import Comment
from tesserac.syntax.concrete import GROUP, Branch, Leaf, Part
from tesserac.syntax.fmt_brackets import optional
from tesserac.syntax.fmt_doc import INDENT, Doc, Remark, concat, group, join_all, render
from tesserac.syntax.fmt_expressions import Expressions
from tesserac.syntax.fmt_literals import format_string
from tesserac.syntax.fmt_names import Role

_APART = frozenset(("function_def", "struct_def", "test_block"))
_DOCUMENTED = frozenset(("function_def", "struct_def"))


class Edge(Enum):
    """What stands above or below a gap between statements: nothing, as at the start of a block; something that a
    blank line sets apart from its neighbours; or another statement."""

    BARE = 0
    APART = 1
    PLAIN = 2


def _edge(statement: Branch | None) -> Edge:
    if statement is None:
        return Edge.BARE
    return Edge.APART if statement.kind in _APART else Edge.PLAIN


class Statements:
    """Writes the lines of one item."""

    def __init__(self, source: SourceFile, layout: Expressions) -> None:
        self.source = source
        self.layout = layout
        self.comments = layout.comments
        self.lines: list[str] = []

    # -------------------------------------------------------------------------------------------------- blocks

    def item(self, root: Branch, *, is_docstring: bool) -> None:
        """The statements of one top-level item; comments that belong to its blocks are taken from behind it."""
        if is_docstring:
            self.docstring(root.branches[0], 0)
        else:
            self.statements(root.parts, 0)

    def block(self, block: Branch, depth: int, *, documented: bool) -> None:
        parts = block.parts
        if documented and isinstance(first := parts[0], Branch) and self.is_docstring(first):
            self.gap(first.first, depth, Edge.BARE, Edge.BARE)
            self.docstring(first, depth)
            parts = parts[1:] if len(parts) == 1 or isinstance(parts[1], Branch) else parts[2:]
            self.statements(parts, depth, after=first)
        else:
            self.statements(parts, depth)
        if self.starts_line(block):
            column = self.column(block)
            for comment in self.comments.take_indented(block.last + 1, column):
                self.comment(comment, depth, blank=comment.blank_before)

    def statements(self, parts: Sequence[Part], depth: int, after: Branch | None = None) -> None:
        """Statements with the semicolons between them; `after` is the one before the first, if there is one."""
        for part, following in pairwise((*parts, None)):
            if not isinstance(part, Branch):
                continue
            self.gap(part.first, depth, _edge(after), _edge(part))
            self.statement(part, depth, following if isinstance(following, Leaf) else None)
            after = part

    def gap(self, index: int, depth: int, above: Edge, below: Edge) -> None:
        """The comments and blank lines before a leaf that starts a statement, or the end."""
        comments = self.comments.take_before(index)
        blanks = [comment.blank_before for comment in comments] + [index in self.comments.blanks]
        if above is Edge.BARE:
            blanks[0] = False
        elif above is Edge.APART or (below is Edge.APART and not any(blanks)):
            blanks[0] = True
        for comment, blank in zip(comments, blanks, strict=False):
            self.comment(comment, depth, blank=blank)
        if blanks[-1] and below is not Edge.BARE:
            self.lines.append("")

    def comment(self, comment: Comment, depth: int, *, blank: bool) -> None:
        if blank:
            self.lines.append("")
        self.lines.append(" " * (INDENT * depth) + comment.text)

    def write(self, doc: Doc, depth: int, comment: Comment | None) -> None:
        """One statement, or the header of one, with the comment behind it."""
        whole = concat(doc, Remark(comment.text, own_line=False)) if comment else doc
        self.lines.append(render(group(whole), INDENT * depth))

    def starts_line(self, block: Branch) -> bool:
        start = self.layout.leaves[block.first].start
        return not self.source.text[start - self.column(block) : start].strip()

    def column(self, branch: Branch) -> int:
        start = self.layout.leaves[branch.first].start
        return start - (self.source.text.rfind("\n", 0, start) + 1)

    # ---------------------------------------------------------------------------------------------- statements

    def statement(self, branch: Branch, depth: int, semicolon: Leaf | None) -> None:
        if branch.kind == "function_def":
            self.function(branch, depth)
        elif branch.kind in HEADERS:
            self.compound(branch, depth)
        else:
            comment = self.comments.take_behind(branch.last)
            if semicolon is not None:
                comment = comment or self.comments.take_behind(semicolon.number)
            self.write(SIMPLE[branch.kind](self, branch), depth, comment)

    def is_docstring(self, branch: Branch) -> bool:
        """A string that stands first and alone; one with values in it is no docstring, but may be a statement."""
        value = branch.parts[0]
        is_string = branch.kind == "expression_statement" and isinstance(value, Branch) and value.kind == "string"
        leaves = self.layout.leaves[branch.first : branch.last + 1]
        return is_string and len(leaves) == 1 and "f" not in leaves[0].text[:2].lower()

    def docstring(self, branch: Branch, depth: int) -> None:
        comment = self.comments.take_behind(branch.last)
        leaf = self.layout.leaves[branch.first]
        self.write(self.layout.leaf(leaf, format_string(leaf.text)), depth, comment)

    def compound(self, branch: Branch, depth: int) -> None:
        """Headers and blocks by turns: `if`, its block, `else`, its block."""
        header: list[Part] = []
        for part in branch.parts:
            if isinstance(part, Leaf) or part.kind not in ("block", "elif"):
                header.append(part)
                continue
            if part.kind == "elif":
                self.gap(part.first, depth, Edge.BARE, Edge.BARE)
                self.compound(part, depth)
                continue
            self.header(HEADERS[branch.kind](self, header[:-1]), header, depth)
            self.block(part, depth + 1, documented=branch.kind in _DOCUMENTED)
            header = []

    def header(self, doc: Doc, parts: Sequence[Part], depth: int) -> None:
        colon = parts[-1]
        assert isinstance(colon, Leaf)
        self.gap(parts[0].first, depth, Edge.BARE, Edge.BARE)
        comment = self.comments.take_behind(colon.number)
        self.write(concat(doc, self.layout.leaf(colon)), depth, comment)

    def words(self, parts: Sequence[Part]) -> Doc:
        """`if test`, `while test`, `else`."""
        return self.layout.words(parts, self.layout.outside)

    def for_header(self, parts: Sequence[Part]) -> Doc:
        head, target, word, iterable = parts
        assert isinstance(head, Leaf) and isinstance(target, Branch)
        return concat(self.layout.leaf(head), " ", self.layout.target(target), " ", self.words((word, iterable)))

    def with_header(self, parts: Sequence[Part]) -> Doc:
        word, contexts = parts
        assert isinstance(word, Leaf) and isinstance(contexts, Branch)
        return concat(self.layout.leaf(word), " ", self.contexts(contexts))

    def contexts(self, contexts: Branch) -> Doc:
        """One context, or several, which may have round brackets around them all."""
        if len(contexts.branches) > 1:
            return optional(self.layout.items(contexts, self.layout.inside))
        value = self.layout.peeled(contexts.branches[0])
        in_brackets = value.kind == "tuple_expr" and value.branches and len(value.branches[0].branches) > 1
        commented = self.comments.any_within(value.first, value.last)
        if in_brackets and not commented and not isinstance(value.branches[0].parts[-1], Leaf):
            return self.layout.loose_items(value.branches[0])
        return self.layout.outside(value)

    def struct_header(self, parts: Sequence[Part]) -> Doc:
        word, name, *parameters = parts
        docs = [self.words((word, name))]
        for listing in parameters:
            assert isinstance(listing, Branch)
            opener, closer = listing.leaves[0], listing.leaves[-1]
            inner = Branch(listing.kind, listing.parts[1:-1], listing.first + 1, listing.last - 1)
            docs.append(self.layout.listed(opener, inner, closer, self.layout.inside))
        return join_all(docs)

    # ----------------------------------------------------------------------------------------------- functions

    def function(self, branch: Branch, depth: int) -> None:
        *header, block = branch.parts
        assert isinstance(block, Branch)
        if isinstance(decorators := header[0], Branch):
            self.decorators(decorators, depth)
            header = header[1:]
        self.header(group(self.signature(header[:-1])), header, depth)
        self.block(block, depth + 1, documented=True)

    def decorators(self, decorators: Branch, depth: int) -> None:
        """One per line."""
        for decorator in decorators.branches:
            self.gap(decorator.first, depth, Edge.BARE, Edge.BARE)
            comment = self.comments.take_behind(decorator.last)
            at = self.layout.leaf(decorator.leaves[0])
            self.write(concat(at, self.layout.unbroken(decorator.branches[0], Role.VALUE)), depth, comment)

    def signature(self, parts: Sequence[Part]) -> Doc:
        """`def name(parameters) -> type where facts uses effects`. The parameters break before the type does."""
        docs: list[Doc] = []
        listing: Branch | None = None
        opener: Leaf | None = None
        for part in parts:
            if isinstance(part, Leaf):
                if part.kind == "(":
                    opener = part
                elif part.kind == ")" and opener is not None:
                    docs.append(self.parameters(opener, listing, part))
                else:
                    docs += (" ", self.layout.leaf(part)) if docs else (self.layout.leaf(part),)
            elif part.kind == "parameters":
                listing = part
            elif part.kind in ("where", "uses"):
                docs += (" ", self.clause(part))
            else:
                docs += (" ", self.header_value(part, Role.TYPE))
        return join_all(docs)

    def header_value(self, branch: Branch, role: Role) -> Doc:
        """A value before the colon of a signature. A lambda's own colon would end it, so that needs its brackets."""
        leaves = self.layout.leaves[branch.first : branch.last + 1]
        if branch.kind == GROUP and any(leaf.kind == "lambda" for leaf in leaves):
            return self.layout.inside(branch, role)
        return self.layout.outside(branch, role)

    def parameters(self, opener: Leaf, listing: Branch | None, closer: Leaf) -> Doc:
        if listing is None:
            return self.layout.empty(opener, closer)
        body = self.layout.packed(opener, listing, closer, self.parameter)
        return self.layout.open_enclosed(opener, body, closer)

    def parameter(self, branch: Branch) -> Doc:
        return self.layout.leaf(branch.leaves[0]) if branch.kind == "keyword_marker" else self.layout.parameter(branch)

    def clause(self, clause: Branch) -> Doc:
        """`where fact, fact` or `uses effect, effect`."""
        word, *commas = clause.leaves
        docs: list[Doc] = [self.layout.leaf(word), " "]
        for position, value in enumerate(clause.branches):
            docs += (self.layout.leaf(commas[position - 1]), " ") if position else ()
            docs.append(self.header_value(value, Role.VALUE))
        return join_all(docs)

    # --------------------------------------------------------------------------------------- simple statements

    def plain(self, branch: Branch) -> Doc:
        """Words and values with spaces between them: `return a, b`, `x += 1`, `pass`."""
        return self.words(branch.parts)

    def assignment(self, branch: Branch) -> Doc:
        *targets, value = branch.branches
        docs: list[Doc] = []
        for target, equals in zip(targets, branch.leaves, strict=True):
            docs += (self.layout.target(target), " ", self.layout.leaf(equals), " ")
        return join_all([*docs, self.layout.outside(value)])

    def declaration(self, branch: Branch) -> Doc:
        """`name: type = value`, with `param` or `buffer` before it or not."""
        docs: list[Doc] = []
        role = Role.VALUE
        for part in branch.parts:
            space = "" if not docs or (isinstance(part, Leaf) and part.kind == ":") else " "
            if isinstance(part, Branch):
                docs += (space, self.layout.outside(part, role))
                continue
            role = {":": Role.TYPE, "=": Role.VALUE}.get(part.kind, role)
            docs += (space, self.layout.leaf(part))
        return join_all(docs)

    def assert_(self, branch: Branch) -> Doc:
        if len(branch.branches) == 1:
            return self.plain(branch)
        word, comma = branch.leaves
        test, message = (self.layout.outside(value) for value in branch.branches)
        return concat(self.layout.leaf(word), " ", test, self.layout.leaf(comma), " ", message)

    def import_(self, branch: Branch) -> Doc:
        docs: list[Doc] = []
        for part in branch.parts:
            comma = isinstance(part, Leaf) and part.kind == ","
            docs += ("" if comma or not docs else " ", self.import_part(part))
        return join_all(docs)

    def import_part(self, part: Part) -> Doc:
        if isinstance(part, Leaf):
            return self.layout.leaf(part)
        if part.kind in ("imported_module", "imported_name"):
            return self.layout.words(part.parts, self.import_part)
        if part.kind == "imported_names":
            return self.imported_names(part)
        if part.kind in ("module_path", "dotted_name", "dots"):
            return join_all(self.import_part(below) for below in part.parts)
        return self.layout.inside(part)

    def imported_names(self, names: Branch) -> Doc:
        """Round brackets are there if the names need several lines."""
        if isinstance(names.parts[0], Branch):
            return optional(self.layout.items(names, self.import_part))
        opener, closer = names.leaves[0], names.leaves[-1]
        inner = Branch(names.kind, names.parts[1:-1], names.first + 1, names.last - 1)
        body = self.layout.items(inner, self.import_part)
        if self.comments.any_within(names.first, names.last):
            return self.layout.enclosed(opener, body, closer)
        return optional(body)


Header = Callable[[Statements, Sequence[Part]], Doc]

HEADERS: dict[str, Header] = {
    **dict.fromkeys(("if", "elif", "while", "test_block"), Statements.words),
    "for": Statements.for_header,
    "with": Statements.with_header,
    "struct_def": Statements.struct_header,
}
SIMPLE: dict[str, Callable[[Statements, Branch], Doc]] = {
    **dict.fromkeys(("expression_statement", "augmented_assignment", "return"), Statements.plain),
    **dict.fromkeys(("pass", "break", "continue"), Statements.plain),
    "assignment": Statements.assignment,
    **dict.fromkeys(("annotated_assignment", "param_decl", "buffer_decl"), Statements.declaration),
    "assert": Statements.assert_,
    **dict.fromkeys(("import", "from_import"), Statements.import_),
}
"""By rule of the grammar."""
