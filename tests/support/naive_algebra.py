"""Linear algebra as programs write it that know no laws, beside what NumPy computes and what the best form costs."""

from __future__ import annotations

SIZES = {"N": 6, "M": 4, "P": 3, "K": 2, "R": 5, "B": 2}
ARGS = (
    "a: Tensor[N, N, f32], b: Tensor[N, N, f32], c: Tensor[N, N, f32], m: Tensor[M, M, f32], p: Tensor[P, P, f32], "
    "u: Tensor[N, K, f32], w: Tensor[K, N, f32], v: Tensor[N, f32], d: Tensor[N, f32], z: Tensor[M*P, f32], "
    "y: Tensor[M*P, R, f32], x: Tensor[B, N, N, f32], q: Tensor[N, i64], h: Tensor[8, c64], s: f32"
)
NAIVE: dict[str, tuple[str, str, str]] = {
    # name: (expression, what NumPy computes, the cost after, in products and sums)
    "chain": ("a @ b @ c @ v", "a @ b @ c @ v", "3*N*N"),
    "row": ("v @ (a @ b @ c)", "v @ a @ b @ c", "3*N*N"),
    "trace": ("trace(a @ b)", "np.trace(a @ b)", "N*N"),
    "trace_of_three": ("trace(a @ u @ w)", "np.trace(a @ u @ w)", "N*N*K + N*K"),
    "diagonal": ("diagonal(a @ b)", "np.diagonal(a @ b)", "N*N"),
    "scaled_rows": ("diag(d) @ a", "np.diag(d) @ a", "N*N"),
    "scaled_columns": ("a @ diag(d)", "a @ np.diag(d)", "N*N"),
    "diagonals": ("diag(d) @ diag(v) @ v", "d * v * v", "2*N"),
    "identity": ("eye(N) @ a @ eye(N) @ v", "a @ v", "N*N"),
    "multiple": ("(s * eye(N) + diag(d)) @ v", "(s + d) * v", "4*N"),
    "low_rank": ("(diag(d) + u @ w) @ v", "d * v + u @ (w @ v)", "2*N*K + 2*N"),
    "kronecker": ("kron(m, p) @ z", "np.kron(m, p) @ z", "M*M*P + M*P*P"),
    "kronecker_right": ("z @ kron(m, p)", "z @ np.kron(m, p)", "M*M*P + M*P*P"),
    "kronecker_turned": ("kron(m, p).T @ z", "np.kron(m, p).T @ z", "M*M*P + M*P*P"),
    "kronecker_columns": ("kron(m, p) @ y", "np.kron(m, p) @ y", "M*M*P*R + M*P*P*R"),
    "kronecker_trace": ("trace(kron(m, p))", "np.trace(m) * np.trace(p)", "M + P + 1"),
    "mixed_product": ("kron(m, p) @ kron(m, p) @ z", "np.kron(m @ m, p @ p) @ z", "2*M*M*P + 2*M*P*P"),
    "turned": ("(a @ b @ c).T @ v", "(a @ b @ c).T @ v", "3*N*N"),
    "twice_turned": ("a.T.T @ v", "a @ v", "N*N"),
    "batch": ("x @ a @ v", "x @ (a @ v)", "N*N + B*N*N"),
    "batch_chain": ("x @ x @ x[:, :, :1]", "x @ (x @ x[:, :, :1])", "2*B*N*N"),
    "batch_turned": ("x @ (x.T @ x[:, :1, :].T)", "x @ (x.mT @ x[:, :1, :].mT)", "2*B*N*N"),
    "contraction": ('einsum("ij,jk,k->i", a, b, v)', "a @ (b @ v)", "2*N*N"),
    "contraction_turned": ('einsum("ji,kj,lk,l->i", a, b, c, v)', "a.T @ (b.T @ (c.T @ v))", "3*N*N"),
    "contraction_bilinear": ('einsum("ij,jk,i,k->", a, b, v, d)', "v @ a @ b @ d", "2*N*N + N"),
    "rows_taken": ("gather(eye(N), q, axis=0) @ a", "a[q]", "N*N"),
    "bilinear": ("(v @ a) @ b @ d", "v @ a @ b @ d", "2*N*N + N"),
    "transform": ("ifft(fft(h))", "h", "0"),
    "transform_of_two": ("real(ifft2(fft2(complex(a, b))))", "a", "0"),
    "transforms": ("fft(h) + fft(h * h)", "np.fft.fft(h + h * h)", "136"),
    "gradient": ("grad(lambda e: sum(diag(e) @ a @ b @ v))(d)", "a @ (b @ v)", "2*N*N + N"),
    "mapped": ("vmap(lambda e: a @ b @ e)(c)", "(a @ (b @ c.T)).T", "2*N*N*N"),
    "batch_of_chains": ('einsum("bij,bjk,bk->bi", x, x, x[:, 0])', "(x @ (x @ x[:, 0, :, None]))[..., 0]", "2*B*N*N"),
    "batch_and_matrix": ('einsum("bij,jk,bk->bi", x, a, x[:, 0])', "(x @ (a @ x[:, 0, :, None]))[..., 0]", "2*B*N*N"),
    "matrix_in_a_batch": ("x @ a @ x[:, :, :1]", "x @ (a @ x[:, :, :1])", "2*B*N*N"),
    "batch_last": ("a @ b @ x", "(a @ b) @ x", "N*N*N + B*N*N*N"),
    "batch_first": ("x @ a @ b", "x @ (a @ b)", "N*N*N + B*N*N*N"),
    "sum": ("sum(a @ b)", "np.sum(a @ b)", "2*N*N + N"),
    "sum_of_rows": ("sum(a @ b, axis=1)", "np.sum(a @ b, axis=1)", "2*N*N"),
    "sum_of_columns": ("sum(a @ b + c, axis=0)", "np.sum(a @ b + c, axis=0)", "3*N*N + N"),
    "mean": ("mean(a @ b)", "np.mean(a @ b)", "2*N*N + N"),
    "mean_of_columns": ("mean((a @ b).T, axis=1)", "np.mean(a @ b, axis=0)", "2*N*N"),
    "sum_of_a_grid": ("sum(kron(m, p), axis=1)", "np.sum(np.kron(m, p), axis=1)", "M*M + P*P + M*P"),
    "sum_scaled": ("sum(a @ diag(d), axis=1)", "a @ d", "N*N"),
    "outer": ("outer(v, d) @ a @ outer(v, d) @ v", "v * (d @ a @ v) * (d @ v)", "N*N + 4*N"),
    "outer_written": ("(v[:, None] * d[None, :]) @ a", "np.outer(v, d) @ a", "2*N*N"),
    "outer_by_letters": ('einsum("i,j->ij", v, d) @ d', "v * (d @ d)", "2*N"),
    "reflection": ("(eye(N) - 2.0 * outer(v, v)) @ d", "d - 2 * v * (v @ d)", "5*N"),
    "reflected": ("(eye(N) - 2.0 * outer(v, v)) @ a", "a - 2 * np.outer(v, v @ a)", "3*N*N + N"),
    "outer_beside": ("(a + outer(v, d)) @ v", "a @ v + v * (d @ v)", "N*N + 3*N"),
    "outer_trace": ("trace(a @ outer(v, d))", "d @ a @ v", "N*N + N"),
    "masked": ("sum((a @ b) * eye(N))", "np.trace(a @ b)", "N*N"),
    "row_of_product": ("(a @ b)[1] + (a @ b @ v)[1]", "(a @ b)[1] + (a @ b @ v)[1]", "2*N*N + 2*N"),
    "column_of_product": ("(a @ b @ c)[:, 0]", "a @ b @ c[:, 0]", "3*N*N"),
    "element_of_product": ("(a @ b @ c)[2, 1]", "a[2] @ b @ c[:, 1]", "N*N + N"),
    "part_of_product": ("(a @ b)[:2, 1:6:2]", "a[:2] @ b[:, 1:6:2]", "6*N"),
    "real_transform": ("irfft(rfft(real(h)), 8)", "h.real", "0"),
    "twice": ("(a @ b) @ v + sum(a @ b, axis=0)", "a @ (b @ v) + np.sum(a, axis=0) @ b", "4*N*N + N"),
}

AS_WRITTEN = {
    "square": ("a @ b @ c", "2*N*N*N"),
    "unknown": ("a @ u @ w", "2*N*N*K"),
    "used_twice": ("(lambda e: e @ v + sum(e, axis=0) + e[0])(a @ b)", "N*N*N + 2*N*N"),
    "row_then_column": ("(a @ v) @ b @ v", "2*N*N + N"),
}
