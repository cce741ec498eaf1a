"""From the grammar's rules to AST nodes.

A rule with the name of an AST class makes that node from its children, a token becoming two fields (its text and
its span); any other rule makes a tuple. The methods below are the rules for which that is not the whole story. They
also hold the conditions that a grammar cannot: what may be assigned to, the order of arguments, what may stand in a
block.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from tesserac.base.source import SourceFile, Span
from tesserac.diag.codes.syntax import E0109, E0110, E0111, E0112, E0115, E0117
from tesserac.diag.sink import Draft, Sink
from tesserac.syntax import ast
from tesserac.syntax.describe import describe_expression, describe_statement
from tesserac.syntax.lexer import Token
from tesserac.syntax.literals import Hole, float_value, int_value, is_formatted, string_parts
from tesserac.syntax.tables import load_tables

Part = ast.StringLiteral | ast.Interpolation
ParseHole = Callable[[int, int], ast.Expr | None]

_TARGETS = ast.Name | ast.Attribute | ast.Subscript


class Builder:
    """Makes the nodes of one item."""

    def __init__(self, source: SourceFile, sink: Sink, parse_hole: ParseHole) -> None:
        self.source = source
        self.sink = sink
        self.parse_hole = parse_hole
        self._makers = makers()

    def make(self, action: str, start: int, end: int, children: list[object]) -> object:
        return self._makers[action](self, self.source.span(start, end), *children)

    def span(self, token: Token) -> Span:
        return self.source.span(token.start, token.end)

    def fields(self, children: tuple[object, ...]) -> list[object]:
        fields: list[object] = []
        for child in children:
            if isinstance(child, Token):
                fields += (child.text, self.span(child))
            else:
                fields.append(child)
        return fields

    # ----------------------------------------------------------------------------------------------- starts

    def expression_input(self, _: Span, expression: ast.Expr) -> ast.Expr:
        return expression

    # ----------------------------------------------------------------------------------------------- literals

    def name(self, span: Span, token: Token) -> ast.Name:
        return ast.Name(span, token.text)

    def number(self, span: Span, token: Token) -> ast.IntLiteral | ast.FloatLiteral:
        value = int_value(token.text) if token.kind == "INT" else float_value(token.text)
        if value is None:
            shown = token.text if len(token.text) <= 40 else f"{token.text[:40]}..."
            self.sink.error(E0109, at=span, text=shown)
            return ast.IntLiteral(span, 0)
        if isinstance(value, int):
            return ast.IntLiteral(span, value)
        return ast.FloatLiteral(span, value, token.text)

    def true(self, span: Span) -> ast.BoolLiteral:
        return ast.BoolLiteral(span, True)

    def false(self, span: Span) -> ast.BoolLiteral:
        return ast.BoolLiteral(span, False)

    def string(self, span: Span, *tokens: Token) -> ast.StringLiteral | ast.FString:
        parts: list[Part] = []
        for token in tokens:
            for piece in string_parts(self.source, token, self.sink):
                self.add_part(parts, piece, token)
        if not any(is_formatted(token) for token in tokens):
            return ast.StringLiteral(span, "".join(p.value for p in parts if isinstance(p, ast.StringLiteral)))
        return ast.FString(span, tuple(part for part in parts if part.span.start < part.span.end))

    def add_part(self, parts: list[Part], piece: str | Hole, token: Token) -> None:
        if isinstance(piece, str):
            span = self.span(token) if piece else self.source.span(token.start, token.start)
            parts.append(ast.StringLiteral(span, piece))
            return
        value = self.parse_hole(piece.start, piece.end)
        if value is not None:
            parts.append(ast.Interpolation(piece.span, value, piece.label, piece.conversion, piece.format))

    # -------------------------------------------------------------------------------------------- expressions

    def comparison_operator(self, span: Span, *tokens: Token) -> Token:
        return Token("OPERATOR", " ".join(token.text for token in tokens), span.start, span.end)

    def function_type(self, span: Span, left: ast.Expr, result: ast.Expr) -> ast.FunctionType:
        is_fn = isinstance(left, ast.Call) and isinstance(left.function, ast.Name) and left.function.id == "fn"
        arguments = left.arguments if isinstance(left, ast.Call) and is_fn else ()
        if not is_fn or any(argument.name is not None for argument in arguments):
            label = "the types of the arguments are written as `fn(A, B)`"
            self.sink.error(E0117, at=left.span, label=label)
        return ast.FunctionType(span, tuple(argument.value for argument in arguments), result)

    def lambda_parameter(self, span: Span, name: Token, default: ast.Expr | None) -> ast.Parameter:
        return ast.Parameter(span, name.text, self.span(name), None, default, False)

    def lambda_parameters(self, _: Span, *parameters: ast.Parameter) -> tuple[ast.Parameter, ...]:
        return self.checked_defaults(list(parameters))

    def arguments(self, _: Span, *arguments: ast.Argument) -> tuple[ast.Argument, ...]:
        self.check_order(arguments)
        return arguments

    def subscript_arguments(self, span: Span, *arguments: ast.Argument) -> tuple[ast.Argument, ...]:
        return self.arguments(span, *arguments)

    def check_order(self, arguments: tuple[ast.Argument, ...]) -> None:
        named: ast.Argument | None = None
        for argument in arguments:
            if argument.name is not None:
                named = argument
            elif named is not None:
                draft = self.sink.error(
                    E0112, at=argument.span, what="an argument without a name", other=f"`{named.name}=`"
                )
                draft.note(named.span, "this one has a name")
                return

    def argument(self, span: Span, value: ast.Expr) -> ast.Argument:
        return ast.Argument(span, None, span, value)

    def named_argument(self, span: Span, name: Token, value: ast.Expr) -> ast.Argument:
        return ast.Argument(span, name.text, self.span(name), value)

    def slice_argument(self, span: Span, value: ast.Slice) -> ast.Argument:
        return ast.Argument(span, None, span, value)

    def generator(self, span: Span, element: ast.Expr, clauses: tuple[ast.ComprehensionClause, ...]) -> ast.Argument:
        return ast.Argument(span, None, span, ast.ListComprehension(span, element, clauses))

    def comprehension_clause(
        self, span: Span, target: ast.Expr, iterable: ast.Expr, conditions: tuple[ast.Expr, ...]
    ) -> ast.ComprehensionClause:
        self.check_target(target)
        return ast.ComprehensionClause(span, target, iterable, conditions)

    # --------------------------------------------------------------------------------------------- statements

    def check_target(self, target: ast.Expr) -> None:
        if isinstance(target, ast.TupleExpr | ast.ListExpr):
            for item in target.items:
                self.check_target(item)
        else:
            self.check_place(target, describe_expression(target))

    def check_place(self, target: ast.Expr, what: str) -> None:
        """What is assigned to is a name, or a part of what a name is bound to."""
        root = target
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        if not isinstance(target, _TARGETS):
            self.sink.error(E0111, at=target.span, what=what)
        elif not isinstance(root, ast.Name):
            part = f"a part of {describe_expression(root)}"
            label = "an update binds a name again, and this has none"
            self.sink.error(E0111, at=root.span, label=label, what=part)

    def assignment(self, span: Span, *parts: ast.Expr) -> ast.Assignment:
        for target in parts[:-1]:
            self.check_target(target)
        return ast.Assignment(span, parts[:-1], parts[-1])

    def annotated_assignment(
        self, span: Span, target: ast.Expr, annotation: ast.Expr, value: ast.Expr | None
    ) -> ast.AnnotatedAssignment:
        if not isinstance(target, ast.Name):
            what = f"{describe_expression(target)} with a type"
            self.sink.error(E0111, at=target.span, what=what, label="only a name can have a type")
        return ast.AnnotatedAssignment(span, target, annotation, value)

    def augmented_assignment(
        self, span: Span, target: ast.Expr, operator: Token, value: ast.Expr
    ) -> ast.AugmentedAssignment:
        self.check_place(target, f"{describe_expression(target)} with `{operator.text}`")
        op: ast.BinaryOperator = operator.text[:-1]  # type: ignore[assignment]  # AUGMENTED is those, with `=`
        return ast.AugmentedAssignment(span, target, op, self.span(operator), value)

    def block(self, _: Span, *statements: ast.Stmt | ast.Item) -> tuple[ast.Stmt, ...]:
        return tuple(self.statement(statement) for statement in statements)

    def statement(self, statement: ast.Stmt | ast.Item) -> ast.Stmt:
        """Items that are not statements stand at module level only."""
        if isinstance(statement, ast.Stmt):
            return statement
        what = describe_statement(statement)
        self.sink.error(E0110, at=_first_line(statement.span, self.source.text), what=what, where="inside a block")
        return ast.ErrorStatement(statement.span)

    def elif_(
        self, span: Span, test: ast.Expr, body: tuple[ast.Stmt, ...], otherwise: tuple[ast.Stmt, ...]
    ) -> tuple[ast.Stmt, ...]:
        return (ast.If(span, test, body, otherwise),)

    def for_(self, span: Span, target: ast.Expr, iterable: ast.Expr, body: tuple[ast.Stmt, ...]) -> ast.For:
        self.check_target(target)
        return ast.For(span, target, iterable, body)

    def with_(self, span: Span, contexts: tuple[ast.Expr, ...], body: tuple[ast.Stmt, ...]) -> ast.With:
        """Brackets around the contexts only let them run over several lines."""
        if len(contexts) == 1 and isinstance(contexts[0], ast.TupleExpr):
            contexts = contexts[0].items
        return ast.With(span, contexts, body)

    # ---------------------------------------------------------------------------------------- functions, items

    def keyword_marker(self, span: Span) -> Token:
        return Token("*", "*", span.start, span.end)

    def parameter(
        self, span: Span, name: Token, annotation: ast.Expr | None, default: ast.Expr | None
    ) -> ast.Parameter:
        return ast.Parameter(span, name.text, self.span(name), annotation, default, False)

    def parameters(self, _: Span, *parts: ast.Parameter | Token) -> tuple[ast.Parameter, ...]:
        marker: Token | None = None
        positional: list[ast.Parameter] = []
        keyword: list[ast.Parameter] = []
        for part in parts:
            if isinstance(part, ast.Parameter):
                (keyword if marker else positional).append(part)
                continue
            if marker is not None:
                self.sink.error(E0112, at=self.span(part), what="a second `*`", other="the first one")
            marker = part
        if marker is not None and not keyword:
            self.sink.error(
                E0112, at=self.span(marker), what="nothing", other="`*`", label="the parameters after `*` are missing"
            )
        return self.checked_defaults(positional) + tuple(_keyword_only(p) for p in keyword)

    def checked_defaults(self, parameters: list[ast.Parameter]) -> tuple[ast.Parameter, ...]:
        with_default: ast.Parameter | None = None
        for parameter in parameters:
            if parameter.default is not None:
                with_default = parameter
            elif with_default is not None:
                other = f"`{with_default.name}`, which has one"
                self.sink.error(E0112, at=parameter.span, what="a parameter without default", other=other)
        return tuple(parameters)

    def uses(self, span: Span, *effects: ast.Name) -> tuple[ast.Name, ...]:
        names = [effect.id for effect in effects]
        if "none" not in names:
            return effects
        if len(names) > 1:
            self.sink.error(E0112, at=span, what="another effect", other="`none`")
        return ()

    def function_def(
        self,
        span: Span,
        decorators: tuple[ast.Decorator, ...],
        name: Token,
        parameters: tuple[ast.Parameter, ...],
        returns: ast.Expr | None,
        where: tuple[ast.Expr, ...],
        uses: tuple[ast.Name, ...] | None,
        block: tuple[ast.Stmt, ...],
    ) -> ast.FunctionDef:
        doc, body = _split_doc(block)
        return ast.FunctionDef(
            span, decorators, name.text, self.span(name), parameters, returns, where, uses, doc, body
        )

    def struct_def(
        self, span: Span, name: Token, parameters: tuple[ast.Name, ...], block: tuple[ast.Stmt, ...]
    ) -> ast.StructDef:
        doc, body = _split_doc(block)
        fields: list[ast.FieldDef] = []
        methods: list[ast.FunctionDef] = []
        for statement in body:
            if isinstance(statement, ast.FunctionDef):
                methods.append(statement)
            elif isinstance(statement, ast.AnnotatedAssignment) and isinstance(statement.target, ast.Name):
                target = statement.target
                field = (target.id, target.span, statement.annotation, statement.value)
                fields.append(ast.FieldDef(statement.span, *field, is_buffer=False))
            elif isinstance(statement, ast.BufferDecl):
                field = (statement.name, statement.name_span, statement.annotation, statement.init)
                fields.append(ast.FieldDef(statement.span, *field, is_buffer=True))
            elif not _is_empty(statement):
                what = describe_statement(statement)
                draft = self.sink.error(
                    E0110, at=_first_line(statement.span, self.source.text), what=what, where="in a struct"
                )
                draft.remark("a struct has fields (`name: type`, `name: type = value`) and methods (`def`)")
                self.declare_field(draft, statement)
        return ast.StructDef(span, name.text, self.span(name), parameters, doc, tuple(fields), tuple(methods))

    def declare_field(self, draft: Draft, statement: ast.Stmt) -> None:
        """`fc = nn.Linear(D, H)` is `fc: Linear[D, H]`; strides and the like are arguments of its call."""
        from tesserac.porting.layers import ported_layer

        match statement:
            case ast.Assignment(targets=(ast.Name() as name,), value=value):
                made = ported_layer(self.source.text[value.span.start : value.span.end])
                if made is not None:
                    given = ", ".join(f"`{option}`" for option in made[1])
                    title = f"a field has a type, and its call is given {given}" if given else "a field has a type"
                    draft.replace(title, statement.span, f"{name.id}: {made[0]}")

    def test_block(
        self, span: Span, name: ast.StringLiteral | ast.FString, body: tuple[ast.Stmt, ...]
    ) -> ast.TestBlock:
        if isinstance(name, ast.FString):
            self.sink.error(E0115, at=name.span, problem="the name of a test cannot have values in it")
            name = ast.StringLiteral(name.span, "")
        return ast.TestBlock(span, name, body)

    def dots(self, _: Span, *tokens: Token) -> int:
        return sum(len(token.text) for token in tokens)

    def dotted_name(self, _: Span, *tokens: Token) -> tuple[str, ...]:
        return tuple(token.text for token in tokens)

    def module_path(self, span: Span, dots: int | tuple[()], names: tuple[str, ...] = ()) -> ast.ModulePath:
        return ast.ModulePath(span, dots if isinstance(dots, int) else 0, names)

    def import_(self, span: Span, *modules: ast.ImportedModule) -> ast.Import:
        return ast.Import(span, modules)


# ----------------------------------------------------------------------------------------- rules without a method


Maker = Callable[..., object]


@cache
def makers() -> dict[str, Maker]:
    """What each rule of the grammar makes: a method of `Builder`, an AST class, or a tuple."""
    classes = {_snake(name): cls for name, cls in sorted(vars(ast).items()) if isinstance(cls, type)}
    actions = {rule.action for rule in load_tables().rules if rule.action}
    return {action: _maker(action, classes.get(action)) for action in actions}


def _maker(action: str, cls: type | None) -> Maker:
    method: Maker | None = getattr(Builder, action, None) or getattr(Builder, f"{action}_", None)
    if method is not None:
        return method
    if cls is None:
        return lambda _builder, _span, *children: children
    return lambda builder, span, *children: cls(span, *builder.fields(children))


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _keyword_only(parameter: ast.Parameter) -> ast.Parameter:
    p = parameter
    return ast.Parameter(p.span, p.name, p.name_span, p.annotation, p.default, True)


def _split_doc(block: tuple[ast.Stmt, ...]) -> tuple[str | None, tuple[ast.Stmt, ...]]:
    first = block[0]
    if isinstance(first, ast.ExpressionStatement) and isinstance(first.value, ast.StringLiteral):
        return first.value.value, block[1:]
    return None, block


def _is_empty(statement: ast.Stmt) -> bool:
    if isinstance(statement, ast.ExpressionStatement):
        return isinstance(statement.value, ast.EllipsisLiteral)
    return isinstance(statement, ast.Pass | ast.ErrorStatement)


def _first_line(span: Span, text: str) -> Span:
    """The part of a span on its first line: what to underline for a whole block."""
    newline = text.find("\n", span.start, span.end)
    return Span(span.file, span.start, len(text[:newline].rstrip()) if newline >= 0 else span.end)
