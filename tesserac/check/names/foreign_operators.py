"""Names that CoLA, linear_operator, PyLops and SciPy have for operators and for what is asked of them.

Enters: a name after `op.`, after a value that is an operator, or alone, that nothing has, or a function that takes no
operators. Leaves: how it is written.
"""

from __future__ import annotations

_BLOCKS = "`op.block([[A, B], [C, D]])`; `[[A], [B]]` stands one below the other"
_KRYLOV = "`gmres(A, b)`, or `cg(A, b)` where A is positive definite; a result carries its residual"
_SAID = "said where the operator is made: `op.dense(M, psd=True)`, `self_adjoint=True`, `unitary=True`"
_QUADRATIC = "`sum(b * solve(A, b))` and `logdet(A)`"
_SPECTRAL = "`spectral(A)`, whose parts are `.U`, `.S` and `.V`: eigenvalues where A is known to be self-adjoint"
_LARGEST = "`lanczos(A, count=k)`, or `spectral(A)` for all"

ITS_MATRIX = "`to_dense(A)` is the matrix of an operator"

CONSTRUCTORS = {
    "BlockDiag": "`op.direct_sum(A, B)`",
    "Dense": "`op.dense(M)`",
    "DenseLinearOperator": "`op.dense(M)`",
    "DiagLinearOperator": "`op.diag(d)`",
    "Diagonal": "`op.diag(d)`",
    "FFT": "`op.fft(N)`",
    "HStack": _BLOCKS,
    "Identity": "`op.eye(N)`",
    "IdentityLinearOperator": "`op.eye(N)`",
    "Jacobian": "`op.jacobian(f, x)`",
    "KronSum": "`op.kronecker_sum(A, B)`",
    "Kronecker": "`op.kronecker(A, B)`",
    "KroneckerProductLinearOperator": "`op.kronecker(A, B)`",
    "LinearOperator": "`op.implicit(f, adjoint_of_f, N)` of two functions, `op.dense(M)` of a matrix",
    "MatrixMult": "`op.dense(M)`",
    "PSD": _SAID,
    "Permutation": "`op.permutation(order)`",
    "Restriction": "`op.implicit(lambda x: x[i], lambda y: zeros(N).at[i].add(y), N, K)`",
    "ScalarMul": "`c * op.eye(N)`",
    "SelfAdjoint": _SAID,
    "Sparse": "`op.coo(rows, columns, values, N)`, or `op.csr`",
    "Toeplitz": "`op.toeplitz(column, row)`",
    "ToeplitzLinearOperator": "`op.toeplitz(column)`",
    "Triangular": "`op.triangular(M)`",
    "TriangularLinearOperator": "`op.triangular(M)`",
    "Tridiagonal": "`op.banded(bands, 1, 1)`",
    "Unitary": _SAID,
    "VStack": _BLOCKS,
    "Zero": "`op.zero(N, M)`",
    "ZeroLinearOperator": "`op.zero(N, M)`",
    "aslinearoperator": "`op.dense(M)`",
    "block_diag": "`op.direct_sum(A, B)`",
    "column_stack": _BLOCKS,
    "coo_matrix": "`op.coo(rows, columns, values, N)`",
    "csr_matrix": "`op.csr(starts, columns, values, N)`",
    "identity": "`op.eye(N)`",
    "matrix": "`op.dense(M)`",
}
"""After `op.`, or after the name of one of the libraries."""
QUESTIONS = {
    "bicg": _KRYLOV,
    "bicgstab": _KRYLOV,
    "cgs": _KRYLOV,
    "eigs": "`eigvals(to_dense(A))`; `spectral(A)` where A is known to be self-adjoint",
    "eigsh": _LARGEST,
    "expm_multiply": "`expm(A) @ x`, or `expm_action(A, x, t)[0]`, by Krylov's method",
    "inv_quad": "`sum(b * solve(A, b))`",
    "inv_quad_logdet": _QUADRATIC,
    "lgmres": _KRYLOV,
    "lsmr": "`lsqr(A, b)`",
    "minres": _KRYLOV,
    "spsolve": "`solve(A, b)`",
    "svds": "`randomized_svd(A, k)`, or `truncate(spectral(A), k)`",
}
"""Functions of an operator."""
ATTRIBUTES = {
    "add_diagonal": "`A + op.diag(d)`",
    "add_jitter": "`A + 1e-4 * op.eye(N)`",
    "conjugate": "`conj(A)`",
    "dagger": "`A.H`",
    "dot": "`A @ x`",
    "evaluate": "`to_dense(A)`",
    "inv_matmul": "`solve(A, b)`",
    "inv_quad_logdet": _QUADRATIC,
    "mT": "`A.T`",
    "matmat": "`A @ X`",
    "matmul": "`A @ X`",
    "matvec": "`A @ x`",
    "mv": "`A @ x`",
    "rank": "`matrix_rank(to_dense(A))`",
    "rmatmat": "`A.H @ Y`",
    "rmatvec": "`A.H @ y`",
    "t": "`A.T`",
    "to_tensor": "`to_dense(A)`",
    "toarray": "`to_dense(A)`",
    "todense": "`to_dense(A)`",
}
"""Of a value that is an operator."""
OF_TENSORS = {
    "block_diag": "`op.direct_sum(A, B)`",
    "column_stack": _BLOCKS,
    "concat": _BLOCKS,
    "eigh": _SPECTRAL,
    "eigvalsh": _SPECTRAL,
    "hstack": _BLOCKS,
    "lstsq": "`pseudoinverse(A) @ b`, or `lsqr(A, b)` without a matrix",
    "matmul": "`A @ x`",
    "matrix_power": "`A ** n`",
    "permute": "`A.T`, or `A.H`, which conjugates too",
    "pinv": "`pseudoinverse(A)`",
    "stack": _BLOCKS,
    "svd": _SPECTRAL,
    "svdvals": _SPECTRAL,
    "vstack": _BLOCKS,
}
"""Functions that take tensors and no operators, and what there is of these."""


def for_operators(name: str) -> str | None:
    """What to say where a function of tensors is given an operator; None for one that has nothing like it."""
    return f"of operators it is {OF_TENSORS[name]}" if name in OF_TENSORS else None


def constructor_here(name: str) -> str | None:
    """What to say of a name after `op.`; None for one that is nobody's."""
    found = CONSTRUCTORS.get(name) or QUESTIONS.get(name)
    return None if found is None else f"here it is {found}"


def question_here(name: str) -> str | None:
    """What to say of a name that stands alone."""
    return f"here it is {QUESTIONS[name]}" if name in QUESTIONS else None


def operator_attribute_here(name: str) -> str | None:
    """What to say of an attribute of an operator."""
    return f"here it is {ATTRIBUTES[name]}" if name in ATTRIBUTES else None
