"""The laws of the algebra, as a table.

A row is an equation between two expressions. In it a call is a head of `terms.py`; `M` stands for a matrix or a batch
of them, any other upper-case name for one matrix, `s` for one number, a lower-case name for a vector. The engine
replaces the left side by the right one: always, where the row is a normal form (fewer operators, or the structure of a
matrix moved to where it is seen), else where it is surely cheaper. The laws hold for finite numbers; an element that is
inf or NaN may not reach where a zero took it before.

Tests evaluate both sides of every row on random matrices over a finite field, where they are equal exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.graph.algebra.element_laws import ELEMENT_LAWS
from tesserac.graph.algebra.law import Law, normal


def _folds(kind: str, whole: str, rows: str, columns: str) -> Iterator[Law]:
    """Laws that sums and means share: both are linear in the elements."""
    yield Law(f"{kind} of a product", f"{whole}(mm(A, B))", f"mm({columns}(A), {rows}(B))")
    yield Law(f"row {kind}s of a product", f"{rows}(mm(A, B))", f"mm(A, {rows}(B))")
    yield Law(f"column {kind}s of a product", f"{columns}(mm(A, B))", f"mm({columns}(A), B)")
    yield normal(f"{kind} of a transpose", f"{whole}(t(A))", f"{whole}(A)")
    yield normal(f"row {kind}s of a transpose", f"{rows}(t(A))", f"{columns}(A)")
    yield normal(f"column {kind}s of a transpose", f"{columns}(t(A))", f"{rows}(A)")
    yield Law(f"{kind} of a multiple", f"{whole}(scale(s, A))", f"times(s, {whole}(A))")
    yield Law(f"{kind} of a negative", f"{whole}(neg(A))", f"neg({whole}(A))")
    yield Law(f"row {kind}s of a negative", f"{rows}(neg(A))", f"neg({rows}(A))")
    yield Law(f"column {kind}s of a negative", f"{columns}(neg(A))", f"neg({columns}(A))")
    yield Law(f"row {kind}s of a multiple", f"{rows}(scale(s, A))", f"scale(s, {rows}(A))")
    yield Law(f"column {kind}s of a multiple", f"{columns}(scale(s, A))", f"scale(s, {columns}(A))")
    for fold, words in ((whole, kind), (rows, f"row {kind}s"), (columns, f"column {kind}s")):
        yield Law(f"{words} of a sum", f"{fold}(add(A, B))", f"add({fold}(A), {fold}(B))")
        yield Law(f"{words} of a difference", f"{fold}(sub(A, B))", f"sub({fold}(A), {fold}(B))")


def _sums_on_the_way(kind: str, forward: tuple[str, str], backward: tuple[str, str]) -> Iterator[Law]:
    """What triangles of ones are applied to is summed up to each of its rows, or from it on."""
    ways = ((*forward, backward[1], kind), (*backward, forward[1], f"{kind} from the end"))
    for part, sums, back, words in ways:
        triangle = f"{part}(outer(ones, ones))"
        yield Law(words, f"mm({triangle}, x)", f"{sums}(x)")
        yield Law(f"{words}, of rows", f"mm({triangle}, A)", f"{sums}(A)")
        yield Law(f"{words}, from the right", f"mm(x, {triangle})", f"{back}(x)")
        yield Law(f"{words}, of columns", f"mm(A, {triangle})", f"t({back}(t(A)))")


def _without_a_diagonal() -> Iterator[Law]:
    """A matrix whose diagonal is taken from it as it is applied: what is left between them is rounded once."""
    given = "its own diagonal"
    one, other = "less_diagonal(A, d, x)", "less_diagonal(t(A), d, x)"
    yield Law("matrix without a diagonal applied", "mm(sub(A, diag(d)), x)", one, when=given)
    yield Law("diagonal without a matrix applied", "mm(sub(diag(d), A), x)", f"neg({one})", when=given)
    yield Law("matrix without a diagonal applied from the right", "mm(x, sub(A, diag(d)))", other, when=given)
    yield Law("diagonal without a matrix applied from the right", "mm(x, sub(diag(d), A))", f"neg({other})", when=given)


def _cuts(kind: str, cut: str, across: str) -> Iterator[Law]:
    """Laws that rows and columns of a matrix share: what is done to each element is done to those alone."""
    yield Law(f"{kind} of a transpose", f"{cut}(t(A), p)", f"t({across}(A, p))")
    yield Law(f"{kind} of a multiple", f"{cut}(scale(s, A), p)", f"scale(s, {cut}(A, p))")
    yield Law(f"{kind} of a negative", f"{cut}(neg(A), p)", f"neg({cut}(A, p))")
    yield Law(f"{kind} of a sum", f"{cut}(add(A, B), p)", f"add({cut}(A, p), {cut}(B, p))")
    yield Law(f"{kind} of a difference", f"{cut}(sub(A, B), p)", f"sub({cut}(A, p), {cut}(B, p))")


LAWS: tuple[Law, ...] = (
    # ------------------------------------------------------------------------------------------------ transposes
    normal("double transpose", "t(t(M))", "M"),
    normal("double conjugate", "conj(conj(M))", "M"),
    normal("double conjugate of a vector", "conj(conj(x))", "x"),
    normal("conjugate transpose", "conj(t(A))", "t(conj(A))"),
    normal("transpose of a product", "t(mm(A, B))", "mm(t(B), t(A))"),
    normal("transpose of a diagonal", "t(diag(d))", "diag(d)"),
    normal("conjugate of a diagonal", "conj(diag(d))", "diag(conj(d))"),
    normal("transpose of the identity", "t(eye)", "eye", "square"),
    normal("transpose of a Kronecker product", "t(kron(A, B))", "kron(t(A), t(B))"),
    normal("conjugate of a Kronecker product", "conj(kron(A, B))", "kron(conj(A), conj(B))"),
    normal("transpose of a sum", "t(add(A, B))", "add(t(A), t(B))"),
    normal("transpose of a difference", "t(sub(A, B))", "sub(t(A), t(B))"),
    normal("transpose of a negative", "t(neg(A))", "neg(t(A))"),
    normal("transpose of a multiple", "t(scale(s, A))", "scale(s, t(A))"),
    normal("transpose of scaled rows", "t(rows(d, A))", "columns(t(A), d)"),
    normal("transpose of scaled columns", "t(columns(A, d))", "rows(d, t(A))"),
    normal("transpose of a lower triangle", "t(tril(A))", "triu(t(A))", "square"),
    normal("transpose of an upper triangle", "t(triu(A))", "tril(t(A))", "square"),
    # ------------------------------------------------------------------------------- what is known of a matrix
    normal("transpose of a self-adjoint matrix", "t(S)", "S", "real self_adjoint"),
    normal("adjoint of a self-adjoint matrix", "t(conj(S))", "S", "self_adjoint"),
    normal("orthonormal columns", "mm(t(U), U)", "eye", "undone"),
    normal("orthonormal complex columns", "mm(t(conj(U)), U)", "eye", "undone"),
    normal("orthonormal rows", "mm(U, t(U))", "eye", "undone"),
    normal("orthonormal complex rows", "mm(U, t(conj(U)))", "eye", "undone"),
    normal("its own inverse", "mm(U, U)", "eye", "undone"),
    # -------------------------------------------------------------------------------------------------- products
    normal("identity on the left", "mm(eye, M)", "M"),
    normal("identity on the right", "mm(M, eye)", "M"),
    normal("identity applied", "mm(eye, x)", "x"),
    normal("identity applied from the right", "mm(x, eye)", "x"),
    normal("product of diagonals", "mm(diag(d), diag(e))", "diag(times(d, e))"),
    normal("product of permutations", "mm(perm(p), perm(q))", "perm(take(q, p))"),
    Law("diagonal applied", "mm(diag(d), x)", "times(d, x)"),
    Law("diagonal applied from the right", "mm(x, diag(d))", "times(x, d)"),
    Law("diagonal on the left", "mm(diag(d), M)", "rows(d, M)"),
    Law("diagonal on the right", "mm(M, diag(d))", "columns(M, d)"),
    Law("multiple applied", "mm(scale(s, A), x)", "scale(s, mm(A, x))"),
    Law("multiple applied from the right", "mm(x, scale(s, A))", "scale(s, mm(x, A))"),
    Law("multiple of a vector", "mm(A, scale(s, x))", "scale(s, mm(A, x))"),
    Law("multiple of a vector from the right", "mm(scale(s, x), A)", "scale(s, mm(x, A))"),
    Law("multiple on the left", "mm(scale(s, A), B)", "scale(s, mm(A, B))"),
    Law("multiple on the right", "mm(A, scale(s, B))", "scale(s, mm(A, B))"),
    Law("negative applied", "mm(neg(A), x)", "neg(mm(A, x))"),
    Law("negative applied from the right", "mm(x, neg(A))", "neg(mm(x, A))"),
    Law("negative on the left", "mm(neg(A), B)", "neg(mm(A, B))"),
    Law("negative on the right", "mm(A, neg(B))", "neg(mm(A, B))"),
    Law("scaled rows applied", "mm(rows(d, A), x)", "times(d, mm(A, x))"),
    Law("scaled columns applied", "mm(columns(A, d), x)", "mm(A, times(d, x))"),
    Law("scaled rows applied from the right", "mm(x, rows(d, A))", "mm(times(x, d), A)"),
    Law("scaled columns applied from the right", "mm(x, columns(A, d))", "times(mm(x, A), d)"),
    Law("scaled rows on the left", "mm(rows(d, A), B)", "rows(d, mm(A, B))"),
    Law("scaled columns on the left", "mm(columns(A, d), B)", "mm(A, rows(d, B))"),
    Law("scaled rows on the right", "mm(A, rows(d, B))", "mm(columns(A, d), B)"),
    Law("scaled columns on the right", "mm(A, columns(B, d))", "columns(mm(A, B), d)"),
    normal("a vector times a transpose", "mm(x, t(A))", "mm(A, x)"),
    Law("a row as a column", "mm(mm(B, x), A)", "mm(t(A), mm(B, x))"),
    Law("permuted rows", "mm(perm(p), A)", "take(A, p)"),
    Law("permuted elements", "mm(perm(p), x)", "take(x, p)"),
    Law("mixed product", "mm(kron(A, B), kron(C, D))", "kron(mm(A, C), mm(B, D))", when="conformal"),
    Law("Kronecker product applied", "mm(kron(A, B), x)", "apply_kron(A, B, x)"),
    Law("Kronecker product applied from the right", "mm(x, kron(A, B))", "apply_kron(t(A), t(B), x)"),
    Law("Kronecker product on the left", "mm(kron(A, B), C)", "apply_kron(A, B, C)"),
    Law("Kronecker product on the right", "mm(C, kron(A, B))", "t(apply_kron(t(A), t(B), t(C)))"),
    Law("second factor first", "apply_kron(A, B, x)", "second_first(A, B, x)"),
    Law("second factor first on a matrix", "apply_kron(A, B, C)", "second_first(A, B, C)"),
    # ------------------------------------------------- inverses and solutions: systems of what they are applied to
    Law("inverse applied", "mm(made(A), x)", "system(A, x)"),
    Law("inverse on the left", "mm(made(A), B)", "system(A, B)"),
    Law("inverse applied from the right", "mm(x, made(A))", "turned_system(A, x)"),
    Law("inverse on the right", "mm(B, made(A))", "t(turned_system(A, t(B)))"),
    Law("turned inverse applied", "mm(t(made(A)), x)", "turned_system(A, x)"),
    Law("turned inverse on the left", "mm(t(made(A)), B)", "turned_system(A, B)"),
    Law("turned inverse applied from the right", "mm(x, t(made(A)))", "system(A, x)"),
    Law("turned inverse on the right", "mm(B, t(made(A)))", "t(system(A, t(B)))"),
    Law("inverse between vectors", "mm(turned_system(A, x), y)", "mm(x, system(A, y))"),
    Law("inverse between matrices", "mm(t(turned_system(A, B)), C)", "mm(t(B), system(A, C))"),
    Law("inverse between a matrix and a vector", "mm(t(turned_system(A, B)), x)", "mm(t(B), system(A, x))"),
    Law("rows of an inverse", "cut_rows(made(A), p)", "t(turned_system(A, t(cut_rows(eye_left(A), p))))"),
    Law("columns of an inverse", "cut_columns(made(A), p)", "system(A, cut_columns(eye_right(A), p))"),
    Law("row sums of an inverse", "row_sums(made(A))", "system(A, ones_right(A))"),
    Law("column sums of an inverse", "column_sums(made(A))", "turned_system(A, ones_left(A))"),
    Law("sum of an inverse", "sum_all(made(A))", "total(system(A, ones_right(A)))"),
    # -------------------------------------------------------------------------------------- columns times rows
    normal("transpose of an outer product", "t(outer(x, y))", "outer(y, x)"),
    normal("conjugate of an outer product", "conj(outer(x, y))", "outer(conj(x), conj(y))"),
    normal("elements of an outer product", "times(outer(x, y), A)", "rows(x, columns(A, y))"),
    normal("elements times an outer product", "times(A, outer(x, y))", "rows(x, columns(A, y))"),
    normal("multiple of an outer product", "scale(s, outer(x, y))", "outer(scale(s, x), y)"),
    normal("negative of an outer product", "neg(outer(x, y))", "outer(neg(x), y)"),
    normal("scaled rows of an outer product", "rows(d, outer(x, y))", "outer(times(d, x), y)"),
    normal("scaled columns of an outer product", "columns(outer(x, y), d)", "outer(x, times(y, d))"),
    normal("rows times ones", "rows(ones, A)", "A"),
    normal("columns times ones", "columns(A, ones)", "A"),
    Law("outer product applied", "mm(outer(x, y), z)", "scale(mm(y, z), x)"),
    Law("outer product applied from the right", "mm(z, outer(x, y))", "scale(mm(z, x), y)"),
    Law("outer product on the left", "mm(outer(x, y), A)", "outer(x, mm(y, A))"),
    Law("outer product on the right", "mm(A, outer(x, y))", "outer(mm(A, x), y)"),
    # ------------------------------------------------------------------------------------------- parts of products
    Law("rows of the identity on the left", "mm(cut_rows(eye, p), A)", "cut_rows(A, p)"),
    Law("rows of the identity applied", "mm(cut_rows(eye, p), x)", "cut_rows(x, p)"),
    Law("columns of the identity on the right", "mm(A, cut_columns(eye, p))", "cut_columns(A, p)"),
    Law("columns of the identity applied from the right", "mm(x, cut_columns(eye, p))", "cut_rows(x, p)"),
    normal("a row applied", "mm(flat(A), B)", "flat(mm(A, B))", "one row"),
    normal("a column applied", "mm(B, flat(A))", "flat(mm(B, A))", "one column"),
    Law("rows of a product", "cut_rows(mm(A, B), p)", "mm(cut_rows(A, p), B)"),
    Law("columns of a product", "cut_columns(mm(A, B), p)", "mm(A, cut_columns(B, p))"),
    Law("elements of a product", "cut_rows(mm(A, x), p)", "mm(cut_rows(A, p), x)"),
    Law("taken rows of a product", "take(mm(A, B), p)", "mm(take(A, p), B)"),
    Law("taken elements of a product", "take(mm(A, x), p)", "mm(take(A, p), x)"),
    Law("taken rows applied", "mm(take(A, p), x)", "take(mm(A, x), p)"),
    Law("taken rows on the left", "mm(take(A, p), B)", "take(mm(A, B), p)"),
    normal("rows of its rows", "cut_rows(cut_rows(mm(A, B), p), q)", "mm(cut_rows(cut_rows(A, p), q), B)"),
    normal("columns of its rows", "cut_columns(cut_rows(mm(A, B), p), q)", "mm(cut_rows(A, p), cut_columns(B, q))"),
    normal(
        "columns of its columns",
        "cut_columns(cut_columns(mm(A, B), p), q)",
        "mm(A, cut_columns(cut_columns(B, p), q))",
    ),
    normal("rows of its columns", "cut_rows(cut_columns(mm(A, B), p), q)", "mm(cut_rows(A, q), cut_columns(B, p))"),
    Law("columns of a product applied", "mm(cut_columns(mm(A, B), p), x)", "mm(A, mm(cut_columns(B, p), x))"),
    Law("diagonal of rows of a product", "diagonal(cut_rows(mm(A, B), p))", "row_products(cut_rows(A, p), B)"),
    Law("trace of rows of a product", "trace(cut_rows(mm(A, B), p))", "sum_products(cut_rows(A, p), B)"),
    Law("diagonal of columns of a product", "diagonal(cut_columns(mm(A, B), p))", "row_products(A, cut_columns(B, p))"),
    Law("trace of columns of a product", "trace(cut_columns(mm(A, B), p))", "sum_products(A, cut_columns(B, p))"),
    Law("sums of rows", "row_sums(cut_rows(A, p))", "cut_rows(row_sums(A), p)"),
    Law("sums of columns", "column_sums(cut_columns(A, p))", "cut_rows(column_sums(A), p)"),
    Law("rows applied", "mm(cut_rows(A, p), x)", "cut_rows(mm(A, x), p)"),
    Law("rows on the left", "mm(cut_rows(A, p), B)", "cut_rows(mm(A, B), p)"),
    Law("columns on the right", "mm(A, cut_columns(B, p))", "cut_columns(mm(A, B), p)"),
    *_cuts("rows", "cut_rows", "cut_columns"),
    *_cuts("columns", "cut_columns", "cut_rows"),
    # ------------------------------------------------------------------ matrices one above the other, side by side
    normal("transpose of matrices one above the other", "t(above(A, B))", "beside(t(A), t(B))"),
    normal("transpose of matrices side by side", "t(beside(A, B))", "above(t(A), t(B))"),
    Law("one above the other applied", "mm(above(A, B), x)", "above(mm(A, x), mm(B, x))"),
    Law("one above the other on the left", "mm(above(A, B), C)", "above(mm(A, C), mm(B, C))"),
    Law("side by side applied from the right", "mm(x, beside(A, B))", "above(mm(x, A), mm(x, B))"),
    Law("side by side on the right", "mm(C, beside(A, B))", "beside(mm(C, A), mm(C, B))"),
    Law("side by side applied", "mm(beside(A, B), above(x, y))", "add(mm(A, x), mm(B, y))", when="side by side"),
    Law("side by side on the left", "mm(beside(A, B), above(C, D))", "add(mm(A, C), mm(B, D))", when="side by side"),
    Law("row sums of one above the other", "row_sums(above(A, B))", "above(row_sums(A), row_sums(B))"),
    Law("column sums of one above the other", "column_sums(above(A, B))", "add(column_sums(A), column_sums(B))"),
    Law("row sums side by side", "row_sums(beside(A, B))", "add(row_sums(A), row_sums(B))"),
    Law("column sums side by side", "column_sums(beside(A, B))", "above(column_sums(A), column_sums(B))"),
    # ------------------------------------------------------------------------------------------------------ sums
    *_without_a_diagonal(),
    Law("sum applied", "mm(add(A, B), x)", "add(mm(A, x), mm(B, x))"),
    Law("difference applied", "mm(sub(A, B), x)", "sub(mm(A, x), mm(B, x))", when="not of its diagonal"),
    Law("sum applied from the right", "mm(x, add(A, B))", "add(mm(x, A), mm(x, B))"),
    Law(
        "difference applied from the right",
        "mm(x, sub(A, B))",
        "sub(mm(x, A), mm(x, B))",
        when="not of its diagonal",
    ),
    Law("sum on the left", "mm(add(A, B), C)", "add(mm(A, C), mm(B, C))", sum_at=0),
    Law(
        "difference on the left",
        "mm(sub(A, B), C)",
        "sub(mm(A, C), mm(B, C))",
        when="not of its diagonal",
        sum_at=0,
    ),
    Law("sum on the right", "mm(C, add(A, B))", "add(mm(C, A), mm(C, B))", sum_at=1),
    Law(
        "difference on the right",
        "mm(C, sub(A, B))",
        "sub(mm(C, A), mm(C, B))",
        when="not of its diagonal",
        sum_at=1,
    ),
    Law("one matrix applied twice", "add(mm(A, x), mm(A, y))", "mm(A, add(x, y))"),
    Law("one matrix applied twice, a difference", "sub(mm(A, x), mm(A, y))", "mm(A, sub(x, y))"),
    Law("one matrix applied twice from the right", "add(mm(x, A), mm(y, A))", "mm(add(x, y), A)"),
    Law("one matrix applied twice from the right, a difference", "sub(mm(x, A), mm(y, A))", "mm(sub(x, y), A)"),
    Law("one factor on the left", "add(mm(A, B), mm(A, C))", "mm(A, add(B, C))"),
    Law("one factor on the left, a difference", "sub(mm(A, B), mm(A, C))", "mm(A, sub(B, C))"),
    Law("one factor on the right", "add(mm(A, C), mm(B, C))", "mm(add(A, B), C)"),
    Law("one factor on the right, a difference", "sub(mm(A, C), mm(B, C))", "mm(sub(A, B), C)"),
    normal("sum of diagonals", "add(diag(d), diag(e))", "diag(add(d, e))"),
    normal("difference of diagonals", "sub(diag(d), diag(e))", "diag(sub(d, e))"),
    normal("diagonal plus identity", "add(diag(d), eye)", "diag(add(d, ones))", "square"),
    normal("identity plus diagonal", "add(eye, diag(d))", "diag(add(ones, d))", "square"),
    normal("diagonal minus identity", "sub(diag(d), eye)", "diag(sub(d, ones))", "square"),
    normal("identity minus diagonal", "sub(eye, diag(d))", "diag(sub(ones, d))", "square"),
    normal("negative of a diagonal", "neg(diag(d))", "diag(neg(d))"),
    normal("multiple of a diagonal", "scale(s, diag(d))", "diag(scale(s, d))"),
    normal("multiple of the identity", "scale(s, eye)", "diag(scale(s, ones))", "square"),
    normal("multiple of a Kronecker product", "scale(s, kron(A, B))", "kron(scale(s, A), B)"),
    normal("negative of a Kronecker product", "neg(kron(A, B))", "kron(neg(A), B)"),
    normal("Kronecker product of diagonals", "kron(diag(d), diag(e))", "diag(outer_kron(d, e))"),
    normal("Kronecker product of two identities", "kron(eye, eye)", "eye"),
    normal("Kronecker product of identities", "kron(eye, diag(d))", "diag(outer_kron(ones, d))", "square"),
    normal("Kronecker product with the identity", "kron(diag(d), eye)", "diag(outer_kron(d, ones))", "square"),
    normal("elements on the diagonal", "times(A, eye)", "diag(diagonal(A))", "square"),
    normal("elements on a diagonal", "times(eye, A)", "diag(diagonal(A))", "square"),
    normal("multiples of a diagonal", "times(A, diag(d))", "diag(times(diagonal(A), d))"),
    normal("a diagonal times elements", "times(diag(d), A)", "diag(times(d, diagonal(A)))"),
    # ------------------------------------------------------------------------------------------------- triangles
    normal("lower triangle twice", "tril(tril(A))", "tril(A)"),
    normal("upper triangle twice", "triu(triu(A))", "triu(A)"),
    normal("lower triangle of an upper one", "tril(triu(A))", "diag(diagonal(A))", "square"),
    normal("upper triangle of a lower one", "triu(tril(A))", "diag(diagonal(A))", "square"),
    normal("lower triangle of a diagonal", "tril(diag(d))", "diag(d)"),
    normal("upper triangle of a diagonal", "triu(diag(d))", "diag(d)"),
    normal("transpose of a triangle below the diagonal", "t(below(A))", "over(t(A))", "square"),
    normal("transpose of a triangle over the diagonal", "t(over(A))", "below(t(A))", "square"),
    # --------------------------------------------------------------------------- triangles of ones: running sums
    *_sums_on_the_way("running sums", ("tril", "running"), ("triu", "running_back")),
    *_sums_on_the_way("sums before", ("below", "before"), ("over", "after")),
    Law("a row of running sums by columns", "cut_columns(running(A), p)", "running(cut_columns(A, p))"),
    Law("last of running sums", "cut_rows(running(A), p)", "row(column_sums(A))", when="last row"),
    Law("row sums of running sums", "row_sums(running(A))", "running(row_sums(A))"),
    Law("running sums applied", "mm(running(A), x)", "running(mm(A, x))"),
    Law("running sums on the left", "mm(running(A), B)", "running(mm(A, B))"),
    Law("running sums applied from the right", "mm(x, running(A))", "mm(running_back(x), A)"),
    Law("running sums on the right", "mm(B, running(A))", "mm(t(running_back(t(B))), A)"),
    # -------------------------------------------------------------------------------------- diagonals and traces
    normal("diagonal of a diagonal matrix", "diagonal(diag(d))", "d"),
    normal("diagonal of the identity", "diagonal(eye)", "ones", "square"),
    normal("diagonal of a transpose", "diagonal(t(A))", "diagonal(A)"),
    normal("diagonal of a lower triangle", "diagonal(tril(A))", "diagonal(A)"),
    normal("diagonal of an upper triangle", "diagonal(triu(A))", "diagonal(A)"),
    Law("diagonal of a sum", "diagonal(add(A, B))", "add(diagonal(A), diagonal(B))"),
    Law("diagonal of a difference", "diagonal(sub(A, B))", "sub(diagonal(A), diagonal(B))"),
    Law("diagonal of a multiple", "diagonal(scale(s, A))", "scale(s, diagonal(A))"),
    Law("diagonal of a negative", "diagonal(neg(A))", "neg(diagonal(A))"),
    Law("diagonal of scaled rows", "diagonal(rows(d, A))", "times(d, diagonal(A))"),
    Law("diagonal of scaled columns", "diagonal(columns(A, d))", "times(diagonal(A), d)"),
    Law(
        "diagonal of a Kronecker product",
        "diagonal(kron(A, B))",
        "outer_kron(diagonal(A), diagonal(B))",
        when="squares",
    ),
    Law("diagonal of a product", "diagonal(mm(A, B))", "row_products(A, B)"),
    normal("diagonal of an outer product", "diagonal(outer(x, y))", "times(x, y)", "square outer"),
    normal("trace of an outer product", "trace(outer(x, y))", "mm(x, y)", "square outer"),
    normal("sum of a diagonal", "total(diagonal(A))", "trace(A)"),
    normal("trace of a transpose", "trace(t(A))", "trace(A)"),
    normal("trace of a diagonal", "trace(diag(d))", "total(d)"),
    Law("trace of a multiple", "trace(scale(s, A))", "times(s, trace(A))"),
    Law("trace of a negative", "trace(neg(A))", "neg(trace(A))"),
    Law("trace of a Kronecker product", "trace(kron(A, B))", "times(trace(A), trace(B))", when="squares"),
    Law("trace of a sum", "trace(add(A, B))", "total(add(diagonal(A), diagonal(B)))"),
    Law("trace of a difference", "trace(sub(A, B))", "total(sub(diagonal(A), diagonal(B)))"),
    Law("trace of scaled rows", "trace(rows(d, A))", "mm(d, diagonal(A))"),
    Law("trace of scaled columns", "trace(columns(A, d))", "mm(diagonal(A), d)"),
    Law("trace of a product", "trace(mm(A, B))", "sum_products(A, B)"),
    # --------------------------------------------------------------------------------- sums and means of elements
    *_folds("sum", "sum_all", "row_sums", "column_sums"),
    *_folds("mean", "mean_all", "row_means", "column_means"),
    normal("row sums of a diagonal", "row_sums(diag(d))", "d"),
    normal("column sums of a diagonal", "column_sums(diag(d))", "d"),
    normal("sum of a diagonal matrix", "sum_all(diag(d))", "total(d)"),
    normal("row sums of the identity", "row_sums(eye)", "ones", "square"),
    normal("column sums of the identity", "column_sums(eye)", "ones", "square"),
    normal("row sums of an outer product", "row_sums(outer(x, y))", "scale(total(y), x)"),
    normal("column sums of an outer product", "column_sums(outer(x, y))", "scale(total(x), y)"),
    normal("sum of an outer product", "sum_all(outer(x, y))", "times(total(x), total(y))"),
    normal("row sums of a Kronecker product", "row_sums(kron(A, B))", "outer_kron(row_sums(A), row_sums(B))"),
    normal(
        "column sums of a Kronecker product", "column_sums(kron(A, B))", "outer_kron(column_sums(A), column_sums(B))"
    ),
    normal("sum of a Kronecker product", "sum_all(kron(A, B))", "times(sum_all(A), sum_all(B))"),
    Law("sum of scaled rows", "sum_all(rows(d, A))", "mm(d, row_sums(A))"),
    Law("sum of scaled columns", "sum_all(columns(A, d))", "mm(column_sums(A), d)"),
    Law("row sums of scaled columns", "row_sums(columns(A, d))", "mm(A, d)"),
    Law("column sums of scaled rows", "column_sums(rows(d, A))", "mm(d, A)"),
    # ------------------------------------------------------------------------------------------------ transforms
    normal("inverse transform of a transform", "ifft(fft(x))", "x"),
    normal("transform of an inverse transform", "fft(ifft(x))", "x"),
    normal("inverse transform of transformed rows", "ifft(fft(M))", "M"),
    normal("transform of inversely transformed rows", "fft(ifft(M))", "M"),
    Law("transforms along two dims", "ifft(t(fft(t(M))))", "t(fft(t(ifft(M))))"),
    Law("inverse transforms along two dims", "fft(t(ifft(t(M))))", "t(ifft(t(fft(M))))"),
    normal("inverse transform of a real transform", "irfft(rfft(x))", "x"),
    normal("inverse transform of real transformed rows", "irfft(rfft(M))", "M"),
    Law("sum of transforms", "add(fft(x), fft(y))", "fft(add(x, y))"),
    Law("sum of inverse transforms", "add(ifft(x), ifft(y))", "ifft(add(x, y))"),
    *ELEMENT_LAWS,
)
