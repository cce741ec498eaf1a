"""What the library says of its functions, in words that only it may use, so that no rule has to know them by name.

    @along_axis("weights")  how elements along its axis belong together: `weights` sum to 1, the exponentials of what is
                            `normalised` do, and in what is `ordered` they follow one another or compete
    @beyond("-inf")         in a kernel, what the argument has beyond the valid part of its last dim counts as this
    @of_blocks("parts")     gives parts of the last dim of its argument; a function that `joins` takes them, behind what
                            a loop over blocks carries of them, and gives that on: no block shows in what comes out
    @in_kernels("stored")   in a kernel, the `dtype` that a call leaves open is the one that its tiles are stored in,
                            where that is narrow and has the exponents of f32: its products are those of matrix units
    @batched("first")       its first argument may stand without its first dim, that of a batch: so is the result then;
                            under `all` it is so of all tensors whose dims it declares
    @columns("alone")       of matrices beside its first argument it computes each column alone, whatever stands beside
                            it: mapped over these only, it is called once, with the columns of all side by side
    @known("floats")        floats that are known while compiling stay so in its parameters without a type: sizes may
                            follow from them, and it is compiled for each
    @behind_text("fill")    an argument by position behind a text is for this parameter
    @also(kernel_size="size")
                            other libraries call a parameter so, and calls may
    @takes(scores="f")      its first argument are scores, of which it takes f itself; `logarithms="f", by="g"`,
                            logarithms of what f gives, which g computes
    @form_of(f, "diagonal") computes what f of a matrix does where the matrix is known to be of this structure; it takes
                            the parts of that, see `transforms/form_rules.py`
"""

from __future__ import annotations

from tesserac.syntax import ast

FORM_OF, ALSO, TAKES = "form_of", "also", "takes"
SCORES, LOGARITHMS, BY = "scores", "logarithms", "by"
DIAGONAL, LOWER, UPPER, KRONECKER, UPDATE, RANK_ONE = "diagonal", "lower", "upper", "kronecker", "update", "rank one"
ORTHONORMAL, POSITIVE, PRODUCT, INVERSE, OUTER = "unitary", "positive", "product", "inverse", "outer"
GRAM, FACTORS = "gram", "factors"
BESIDE, TOGETHER, APPLIED, TURNED = "beside", "together", "applied", "turned"
STRUCTURES = (
    *(DIAGONAL, LOWER, UPPER, KRONECKER, UPDATE, RANK_ONE, ORTHONORMAL, POSITIVE, PRODUCT, INVERSE, OUTER),
    *(GRAM, FACTORS, BESIDE, TOGETHER, APPLIED, TURNED),
)
ALONG_AXIS, BEYOND, OF_BLOCKS, KNOWN, IN_KERNELS = "along_axis", "beyond", "of_blocks", "known", "in_kernels"
BATCHED, BEHIND_TEXT, COLUMNS = "batched", "behind_text", "columns"
FIRST, ALL = "first", "all"
PARTS, JOINS = "parts", "joins"
WEIGHTS, NORMALISED, ORDERED = "weights", "normalised", "ordered"
WORDS: dict[str, tuple[str, ...]] = {
    ALONG_AXIS: (WEIGHTS, NORMALISED, ORDERED),
    BEYOND: ("-inf", "inf", "0"),
    OF_BLOCKS: (PARTS, JOINS),
    KNOWN: ("floats",),
    BATCHED: (FIRST, ALL),
    BEHIND_TEXT: ("fill",),
    COLUMNS: ("alone",),
    IN_KERNELS: ("stored",),
}


def form_of(node: ast.FunctionDef) -> tuple[str, str] | None:
    """The function and the structure that `@form_of(f, "structure")` says."""
    for each in node.decorators:
        match each.expression:
            case ast.Call(
                function=ast.Name(id=name),
                arguments=[ast.Argument(value=ast.Name(id=of)), ast.Argument(value=ast.StringLiteral(value=word))],
            ) if name == FORM_OF:
                return of, word
    return None


def other_names(node: ast.FunctionDef) -> dict[str, tuple[str, ...]]:
    """By parameter, what `@also(kernel_size="size")` says that others call it."""
    found: dict[str, tuple[str, ...]] = {}
    for each in node.decorators:
        match each.expression:
            case ast.Call(function=ast.Name(id=name), arguments=arguments) if name == ALSO:
                for argument in arguments:
                    if argument.name is not None and isinstance(argument.value, ast.StringLiteral):
                        called = argument.value.value
                        found[called] = (*found.get(called, ()), argument.name)
    return found


def taken_by(node: ast.FunctionDef) -> dict[str, str]:
    """What `@takes(scores="f")` says of a function, by the names of its settings."""
    for each in node.decorators:
        match each.expression:
            case ast.Call(function=ast.Name(id=name), arguments=arguments) if name == TAKES:
                said = ((argument.name, argument.value) for argument in arguments)
                return {word: value.value for word, value in said if word and isinstance(value, ast.StringLiteral)}
    return {}


def annotation_of(node: ast.FunctionDef, decorator: str) -> str | None:
    """The word that `@decorator("word")` says of a function."""
    for each in node.decorators:
        match each.expression:
            case ast.Call(function=ast.Name(id=name), arguments=(ast.Argument(value=ast.StringLiteral(value=word)),)):
                if name == decorator:
                    return word
    return None
