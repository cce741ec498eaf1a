"""What the names of the language itself are for: one line of usage and one of words each.

Enters: nothing. Leaves: `BUILTIN_DOCS`, by the names that `resolve.py` gives them. The editor, the prompt's `:help` and
the operator reference show them; a test sees to it that none is missing.
"""

from __future__ import annotations

from typing import NamedTuple

from tesserac.check.names.refs import ALGEBRA


class BuiltinDoc(NamedTuple):
    usage: str
    text: str


_LANGUAGE = {
    "range": ("range([start,] stop[, step])", "The numbers of a `for` loop, which is never unrolled."),
    "float": ("float(n)", "An int or a size as an untyped float, which takes the dtype it meets."),
    "int": ("int(n)", "A compile-time integer."),
    "print": ("print(values...)", "Prints when the program runs, in order. It has the effect `io`."),
    "narrow": ("narrow(y)", "Rounds once, to the dtype that the function returns."),
    "transpose": (
        "transpose(x), transpose(x, (2, 0, 1)), transpose(x, 0, 1)",
        "Swaps the last two dims, as `x.T` does; or puts all into an order, as `permute`; or swaps two.",
    ),
    "len": ("len(x)", "The first size of a tensor, or the number of items of a tuple."),
    "ceil_div": ("ceil_div(n, k)", "The quotient of two sizes, rounded up."),
    "isinstance": ("isinstance(x, Type)", "Whether a value is of a type; known while compiling."),
    "key": ("key(seed)", "Where a stream of random numbers starts."),
    "next_key": ("next_key()", "The next key of the module's random stream. It has the effect `random`."),
    "rearrange": (
        'rearrange(x, "b (h d) -> b h d", h=8)',
        "A tensor with its dims moved, split and merged by their names, as in einops.",
    ),
    "zip": ("zip(a, b, ...)", "Tuples or lists side by side, for a `for` that unrolls."),
    "enumerate": ("enumerate(items)", "The items of a tuple or list with their numbers, for a `for` that unrolls."),
    "numerics": ("with numerics(fast):", "The rules of arithmetic for a block."),
    "device": ("with device(cpu):", "Where a block runs; code runs on the device that it is compiled for."),
    "prefetch": ("with prefetch(w, into=, overlap=):", "Asks for tensors ahead of a block that reads them."),
    "Schedule": (
        "Schedule(block=(m, n, k), warps=, stages=)",
        'How a kernel is cut; each setting is a method, and `s.on("cuda", warps=4)` says more for one target.',
    ),
    "pipeline": ("op.pipeline([x, f, g])", "`g(f(x))`: a value through functions, first to last."),
    "tree_map": (
        "tree_map(f, tree, *others, floats=False)",
        "The function of every tensor of a struct, tuple or list; with `floats=True` of floats of structs too.",
    ),
    "leaves": ("leaves(tree)", "The tensors of a struct, tuple or list, in order."),
    "all_reduce": (
        'all_reduce(x, axis_name, op="sum")',
        "x of all devices along an axis, as one: `sum`, `mean`, `max`, `min`, `any` or `all`. Effect `collective`.",
    ),
    "all_gather": (
        "all_gather(x, axis_name, axis=0)",
        "x of all devices, one behind the other along a dim. Effect `collective`.",
    ),
    "reduce_scatter": (
        "reduce_scatter(x, axis_name, axis=0)",
        "The sum over devices, of which each keeps its part of a dim. Effect `collective`.",
    ),
    "all_to_all": (
        "all_to_all(x, axis_name, split_axis=0, concat_axis=0)",
        "Every device gives every other one a part of a dim. Effect `collective`.",
    ),
    "grad": (
        "grad(f, wrt=0, has_aux=False)(args...)",
        "The gradient of a function with a real scalar as its result, or as the first of two.",
    ),
    "value_and_grad": (
        "value_and_grad(f, wrt=0, has_aux=False)(args...)",
        "The result of a function, and its gradient.",
    ),
    "jvp": ("jvp(f, args, tangents)", "The result, and how it changes as the arguments change by the tangents."),
    "vjp": (
        "vjp(f, args..., has_aux=False)",
        "The result, and the function from changes of it back to those of the arguments.",
    ),
    "jacfwd": ("jacfwd(f, wrt=0, holomorphic=False)(args...)", "All partial derivatives, one column after the other."),
    "jacrev": ("jacrev(f, wrt=0, holomorphic=False)(args...)", "All partial derivatives, one row after the other."),
    "hessian": ("hessian(f, wrt=0)(args...)", "The second derivatives of a function with a scalar as its result."),
    "hvp": ("hvp(f)(x, v)", "The Hessian times a vector, without the Hessian."),
    "vmap": ("vmap(f, in_axes=0, out_axes=0)(args...)", "The function mapped over a dim of its arguments."),
    "pmap": ("pmap(f, in_axes, out_axes, axis_name=, mesh=)(args...)", "`vmap` for a dim that a mesh shares out."),
    "map": ("map(f, xs, ys, ..., in_axes=0, out_axes=0)", "`vmap(f, in_axes, out_axes)(xs, ys, ...)`."),
    "scan": (
        "scan(f, init, xs, length=, reverse=False, axis=0, checkpoint=)",
        "One loop over rows: `f(carry, x)` gives the next carry and a result.",
    ),
    "reduce": (
        "reduce(f, init, xs, length=, reverse=False, axis=0, checkpoint=)",
        "One loop over rows that carries a value, from the first row on.",
    ),
    "jit": ("@jit", "A function compiled as a whole, as every function is; it changes nothing."),
    "autodiff": ("@autodiff", "Gives a function `.vjp` and `.jvp`."),
    "checkpoint": ("checkpoint(f)", "The function, computed again on the way back instead of kept."),
    "remat": ("remat(f)", "Another name of `checkpoint`."),
}
_OPERATIONS = {
    "zero": ("op.zero(Din, Dout)", "The operator 0; with one size a square one."),
    "dense": ("op.dense(M)", "The operator of a matrix `Tensor[Dout, Din]`."),
    "projector": ("op.projector(U)", "Onto the span of the columns of U, which are orthonormal."),
    "kronecker": ("op.kronecker(A, B)", "The Kronecker product of two operators."),
    "direct_sum": ("op.direct_sum(A, B)", "Two operators side by side on the parts of a vector."),
    "low_rank": ("op.low_rank(U, V)", "`U @ V.H`, never multiplied out."),
    "block_sparse": ("op.block_sparse(blocks, rows, columns, Din, Dout)", "Blocks of a grid, 0 elsewhere."),
    "implicit": ("op.implicit(f, f_adjoint, Din, Dout)", "An operator given by how it acts, and how its adjoint does."),
    "apply": ("apply(A, x)", "The operator on a vector, as `A @ x`."),
    "compose": ("compose(A, B)", "B, then A; also written `A ∘ B`."),
    "adjoint": ("adjoint(A)", "The adjoint operator, also `A.H`."),
    "tensor": ("tensor(A, B)", "The tensor product of two operators."),
    "plus": ("plus(A, B)", "The sum of two operators, also `A + B`."),
    "scale": ("scale(A, c)", "An operator times a number, also `c * A`."),
    "commutator": ("commutator(A, B)", "`A ∘ B - B ∘ A`."),
    "sym": ("sym(A)", "The self-adjoint part, `(A + A.H) / 2`."),
    "skew": ("skew(A)", "The skew part, `(A - A.H) / 2`."),
    "resolvent": ("resolvent(A, z)", "The inverse of `z I - A`, applied by solving."),
    "spectral": ("spectral(A)", "By its eigenvalues where A is known to be self-adjoint, else by singular values."),
    "truncate": ("truncate(S, k)", "A spectral operator with its first k eigenvalues."),
    "reconstruct": ("reconstruct(S)", "A spectral operator as a dense one."),
    "pseudoinverse": ("pseudoinverse(S)", "The inverse of a spectral operator where its eigenvalues are not 0."),
    "is_unitary": ("is_unitary(A)", "Whether it keeps lengths; known while compiling where its kind tells."),
    "spectral_radius": ("spectral_radius(A)", "The largest magnitude of an eigenvalue."),
    "inverse": ("inverse(A)", "The inverse, applied by solving; also `inv(A)`."),
    "logdet": ("logdet(A)", "The logarithm of the magnitude of the determinant."),
    "to_dense": ("to_dense(A)", "The matrix of an operator."),
}

_CONSTRUCTORS = {
    "eye": ("op.eye(N, dtype=)", "The identity. It has no numbers of its own, and takes those it meets."),
    "diag": ("op.diag(entries)", "Each entry of a vector times its own number."),
    "fft": ("op.fft(N, dtype=)", "The discrete Fourier transform; `fft` alone is that of any size."),
    "ifft": ("op.ifft(N, dtype=)", "Its inverse, which divides by N; `ifft` alone is that of any size."),
    "conv1d": ("op.conv1d(taps, N)", "Circular convolution; N is the number of taps unless said."),
    "permutation": ("op.permutation(order, dtype=)", "`y[i] = x[order[i]]`; each index once."),
    "triangular": ("op.triangular(M, lower=True)", "The lower triangle of a matrix, or the upper one."),
    "banded": ("op.banded(bands, lower, upper)", "So many diagonals below and above, as in `solve_banded` of SciPy."),
    "toeplitz": ("op.toeplitz(column, row)", "Constant along diagonals; without a row it is `conj(column)`."),
    "circulant": ("op.circulant(column)", "Each column the one before, turned by one."),
    "block": ("op.block([[A, B], [C, D]])", "Operators in rows and columns."),
    "jacobian": ("op.jacobian(f, x)", "The derivative of a function of vectors at x, applied without its matrix."),
    "coo": ("op.coo(rows, columns, values, Din, Dout)", "Entries at their places; those of one place add."),
    "csr": ("op.csr(starts, columns, values, Din)", "Entries row by row; those of row i begin at starts[i]."),
    "kronecker_sum": ("op.kronecker_sum(A, B)", "`A ⊗ I + I ⊗ B`."),
}

BUILTIN_DOCS: dict[str, BuiltinDoc] = {
    **{name: BuiltinDoc(*doc) for name, doc in _LANGUAGE.items()},
    **{f"{ALGEBRA}{name}": BuiltinDoc(*doc) for name, doc in (_OPERATIONS | _CONSTRUCTORS).items()},
}
