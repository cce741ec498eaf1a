"""Laws of what is done to matrices element by element, and of matrices that choose rows: a part of the table in
`laws.py`, where it says how rows are written.

Sums of squares of a difference are not taken apart, nor those of a product of two matrices: what is left of large
numbers that cancel would have lost its digits. Those of a Gram matrix are sums of squares in both forms.
"""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.graph.algebra.law import Law, normal


def _of_elements() -> Iterator[Law]:
    """Products element by element. What moves elements, and what each row or column has as a factor, goes through."""
    yield normal("transpose of products of elements", "t(times(A, B))", "times(t(A), t(B))")
    both = "times(kron(A, B), kron(C, D))", "kron(times(A, C), times(B, D))"
    yield normal("elements of Kronecker products", *both, "alike")
    for words, pair in (("{}", "times({}, C)"), ("{}, the second", "times(C, {})")):
        of = pair.format
        yield normal(words.format("elements of a multiple"), of("scale(s, A)"), f"scale(s, {of('A')})")
        yield normal(words.format("elements of a negative"), of("neg(A)"), f"neg({of('A')})")
        yield normal(words.format("elements of scaled rows"), of("rows(d, A)"), f"rows(d, {of('A')})")
        yield normal(words.format("elements of scaled columns"), of("columns(A, d)"), f"columns({of('A')}, d)")
    for words, cut in (("rows", "cut_rows"), ("columns", "cut_columns"), ("taken rows", "take")):
        yield Law(f"{words} of products of elements", f"{cut}(times(A, B), p)", f"times({cut}(A, p), {cut}(B, p))")
    yield Law("diagonal of products of elements", "diagonal(times(A, B))", "times(diagonal(A), diagonal(B))")
    yield Law("trace of products of elements", "trace(times(A, B))", "mm(diagonal(A), diagonal(B))")


def _of_kept_rows() -> Iterator[Law]:
    """Rows that a mask keeps; others are zero. Nothing is multiplied by the zeros of a mask."""
    yield Law("kept rows applied", "mm(kept(p, A), x)", "kept(p, mm(A, x))")
    yield Law("kept rows on the left", "mm(kept(p, A), B)", "kept(p, mm(A, B))")
    yield Law("kept rows applied from the right", "mm(x, kept(p, A))", "mm(kept(p, x), A)")
    yield Law("kept rows on the right", "mm(B, kept(p, A))", "mm(t(kept(p, t(B))), A)")
    yield Law("kept columns applied", "mm(t(kept(p, A)), x)", "mm(t(A), kept(p, x))")
    yield Law("row sums of kept rows", "row_sums(kept(p, A))", "kept(p, row_sums(A))")
    yield Law("column sums of kept rows", "column_sums(kept(p, A))", "mm(kept(p, ones_left(A)), A)")
    yield Law("sum of kept rows", "sum_all(kept(p, A))", "total(kept(p, row_sums(A)))")
    yield Law("diagonal of kept rows", "diagonal(kept(p, A))", "kept(p, diagonal(A))")
    yield Law("trace of kept rows", "trace(kept(p, A))", "total(kept(p, diagonal(A)))")
    yield Law("rows of kept rows", "cut_rows(kept(p, A), q)", "kept(cut_rows(p, q), cut_rows(A, q))")
    yield Law("columns of kept rows", "cut_columns(kept(p, A), q)", "kept(p, cut_columns(A, q))")


def _of_chosen_rows() -> Iterator[Law]:
    """H has in each row one 1, or none: products with it move rows, or add them up where it puts them."""
    chosen = "one in each row"
    yield Law("rows that ones choose", "mm(H, A)", "chosen(H, A)", when=chosen)
    yield Law("rows that batches of ones choose", "mm(M, A)", "chosen(M, A)", when="batch of ones")
    yield Law("elements that ones choose", "mm(H, x)", "chosen(H, x)", when=chosen)
    yield Law("elements that ones choose, from the right", "mm(x, t(H))", "chosen(H, x)", when=chosen)
    yield Law("columns that ones choose", "mm(A, t(H))", "t(chosen(H, t(A)))", when=chosen)
    yield Law("rows added where ones say", "mm(t(H), A)", "spread(H, A)", when=chosen)
    yield Law("elements added where ones say", "mm(t(H), x)", "spread(H, x)", when=chosen)
    yield Law("elements added where ones say, from the right", "mm(x, H)", "spread(H, x)", when=chosen)
    yield Law("columns added where ones say", "mm(A, H)", "t(spread(H, t(A)))", when=chosen)


def _of_transformed_identities() -> Iterator[Law]:
    """The matrix of a transform is the transform of the identity, and its own transpose."""
    for name, words in (("fft", "transform"), ("ifft", "inverse transform")):
        for matrix, kind in ((f"{name}(eye)", "matrix"), (f"{name}(cast(eye))", "real matrix")):
            of = f"{kind} of a {words}"
            yield Law(f"{of} applied", f"mm({matrix}, x)", f"{name}(x)", when="square")
            yield Law(f"{of} applied from the right", f"mm(x, {matrix})", f"{name}(x)", when="square")
            yield Law(f"{of} on the left", f"mm({matrix}, A)", f"t({name}(t(A)))", when="square")
            yield Law(f"{of} on the right", f"mm(A, {matrix})", f"{name}(A)", when="square")


ELEMENT_LAWS: tuple[Law, ...] = (
    *_of_elements(),
    Law(
        "squares of a Gram matrix of rows",
        "sum_all(times(mm(A, t(A)), mm(A, t(A))))",
        "sum_all(times(mm(t(A), A), mm(t(A), A)))",
        when="real",
    ),
    Law(
        "squares of a Gram matrix of columns",
        "sum_all(times(mm(t(A), A), mm(t(A), A)))",
        "sum_all(times(mm(A, t(A)), mm(A, t(A))))",
        when="real",
    ),
    Law(
        "elements of two products",
        "sum_all(times(mm(A, B), mm(C, D)))",
        "sum_products(A, mm(mm(B, t(D)), t(C)))",
        when="not squares",
    ),
    Law(
        "mean of products of elements",
        "mean_all(times(A, B))",
        "per(sum_all(times(A, B)), ones_left(A), ones_right(A))",
    ),
    *_of_kept_rows(),
    *_of_chosen_rows(),
    *_of_transformed_identities(),
)
