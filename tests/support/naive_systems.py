"""Systems, inverses and determinants as programs write them that know no laws, beside what NumPy computes; and the
structures that are seen in them, in the order in which forms are taken."""

from __future__ import annotations

from tests.support.naive_algebra import ARGS

K, S, D, L = "np.kron(m, p)", "np.linalg.solve", "np.linalg.det", "np.linalg.slogdet"
SOLVES: dict[str, tuple[str, str]] = {
    "diagonal": ("solve(diag(d), v)", "v / d"),
    "diagonal_columns": ("solve(diag(d), a)", "a / d[:, None]"),
    "multiple": ("solve(s * eye(N), v)", "v / s"),
    "lower": ("solve(tril(a), v)", f"{S}(np.tril(a), v)"),
    "upper": ("solve(triu(a), b)", f"{S}(np.triu(a), b)"),
    "lower_turned": ("solve(tril(a).T, v)", f"{S}(np.tril(a).T, v)"),
    "kronecker": ("solve(kron(m, p), z)", f"{S}({K}, z)"),
    "kronecker_columns": ("solve(kron(m, p), y)", f"{S}({K}, y)"),
    "update": ("solve(diag(e) + g @ g.T, k)", f"{S}(np.diag(e) + g @ g.T, k)"),
    "update_minus": ("solve(diag(e) - g @ g.T, l)", f"{S}(np.diag(e) - g @ g.T, l)"),
    "update_zero": ("solve(diag(e - e) + f + g @ g.T, k)", f"{S}(f + g @ g.T, k)"),
    "inverse": ("inv(a) @ v", f"{S}(a, v)"),
    "inverse_right": ("v @ inv(a)", f"{S}(a.T, v)"),
    "inverse_columns": ("inv(a) @ b", f"{S}(a, b)"),
    "inverse_diagonal": ("inv(diag(d)) @ v", "v / d"),
    "inverse_kronecker": ("inv(kron(m, p)) @ z", f"{S}({K}, z)"),
    "inverse_turned": ("inv(a).T @ v", f"{S}(a.T, v)"),
    "inverse_turned_right": ("v @ inv(a).T", f"{S}(a, v)"),
    "inverse_in_chain": ("inv(a) @ b @ v", f"{S}(a, b @ v)"),
    "product": ("solve(f @ f, k)", f"{S}(f @ f, k)"),
    "product_of_three": ("solve(a @ diag(d) @ tril(a), v)", f"{S}(a @ np.diag(d) @ np.tril(a), v)"),
    "product_used": ("(lambda x: solve(x, k) + x[0])(f @ f)", f"{S}(f @ f, k) + (f @ f)[0]"),
    "det_of_product": ("det(a @ (a / 9.0))", f"{D}(a @ (a / 9))"),
    "logdet_of_product": ("slogdet(f @ f.T)[1]", f"{L}(f @ f.T)[1]"),
    "product_slope": (
        "grad(lambda x: det(x @ (a / 9.0)) + slogdet(x @ a)[1])(a)",
        f"np.linalg.inv(a).T * (1 + {D}(a @ (a / 9)))",
    ),
    "beside": ("solve(f, k) + slogdet(f)[1]", f"{S}(f, k) + {L}(f)[1]"),
    "beside_slope": (
        "grad(lambda x: sum(k * solve(x, k)) + slogdet(x)[1])(f)",
        f"np.linalg.inv(f).T - np.outer({S}(f.T, k), {S}(f, k))",
    ),
    "det_beside": ("solve(f, k) + det(f) * 1e-15", f"{S}(f, k) + {D}(f) * 1e-15"),
    "det_beside_slope": (
        "grad(lambda x: sum(k * solve(x, k)) + det(x))(f / 9.0)",
        f"{D}(f / 9) * np.linalg.inv(f / 9).T - np.outer({S}(f.T / 9, k), {S}(f / 9, k))",
    ),
    "rank_one": ("solve(diag(e) + outer(k, e), k)", f"{S}(np.diag(e) + np.outer(k, e), k)"),
    "rank_one_minus": ("solve(eye(16) - outer(e, k), l)", f"{S}(np.eye(16) - np.outer(e, k), l)"),
    "solution_applied": ("solve(a, b) @ v", f"{S}(a, b @ v)"),
    "solution_in_chain": ("solve(a, b) @ c @ v", f"{S}(a, b @ c @ v)"),
    "solution_on_right": ("v @ solve(a, u)", f"{S}(a.T, v) @ u"),
    "solution_turned": ("solve(a, u).T @ v", f"{S}(a.T, v) @ u"),
    "solution_turned_on_right": ("l[0] @ solve(f, l).T", f"{S}(f, l @ l[0])"),
    "solution_is_a_vector": ("solve(f, k) @ l + e @ solve(f, k)", f"{S}(f, k) @ l + e @ {S}(f, k)"),
    "solution_kept": ("solve(f, k[:, None]) @ l[:1]", f"np.outer({S}(f, k), l[0])"),
    "inverse_twice": ("inv(inv(a)) @ v + inv(inv(b))[0]", "a @ v + b[0]"),
    "inverse_system": ("solve(inv(a), v) + solve(inv(a), b)[0]", "a @ v + (a @ b)[0]"),
    "inverse_logdet": ("slogdet(inv(a))[1] + logdet(inv(kron(m, p)))", f"-{L}(a)[1] - {L}({K})[1]"),
    "inverse_det": ("det(inv(a)) * slogdet(inv(a - 9.0 * eye(N)))[0]", f"{L}(a - 9 * np.eye(6))[0] / {D}(a)"),
    "inverse_slope": ("grad(lambda x: logdet(inv(x)) + det(inv(x)))(a)", f"-np.linalg.inv(a).T * (1 + 1 / {D}(a))"),
    "logdet_beside_inverse": ("slogdet(f @ inv(f.T + f))[1]", f"{L}(f)[1] - {L}(f.T + f)[1]"),
    "system_beside_inverse": ("solve(inv(f) @ (f + f), k)", "0.5 * k"),
    "logdet_turned": ("slogdet(f.T)[1] + det(a.T)", f"{L}(f)[1] + {D}(a)"),
    "inverse_kept": ("(lambda x: slogdet(x)[1] + x[0])(inv(a))", f"np.linalg.inv(a)[0] - {L}(a)[1]"),
    "norms": ("norm(diag(d)) + norm(diag(v), ord=2) + norm(diag(d), ord=\"nuc\")",
              "np.linalg.norm(d) + abs(v).max() + abs(d).sum()"),
    "norms_of_products": ("norm(kron(m, p)) + norm(kron(m, p), ord=1) + norm(outer(k, e)) + norm(outer(k, e), ord=2)",
                          f"np.linalg.norm({K}) + np.linalg.norm({K}, 1) + 2 * np.linalg.norm(np.outer(k, e))"),
    "norms_of_factors": (
        "norm(g @ g.T) + norm(g @ g.T, ord=2) + norm(g @ l[:, :2].T) + norm(g @ l[:, :2].T, ord=1)",
        "np.linalg.norm(g @ g.T) + np.linalg.norm(g @ g.T, 2) + np.linalg.norm(g @ l[:, :2].T)"
        " + np.linalg.norm(g @ l[:, :2].T, 1)",
    ),
    "norms_of_columns": ("norm(outer(k, e), ord=1) + norm(outer(k, e), ord=\"nuc\") + norm(outer(k, e), ord=INF)",
                         "sum(np.linalg.norm(np.outer(k, e), each) for each in (1, 'nuc', np.inf))"),
    "factor": ("solve(cholesky(f @ f.T), k) + solve(cholesky(f @ f.T).T, e)",
               f"{S}(np.linalg.cholesky(f @ f.T), k) + {S}(np.linalg.cholesky(f @ f.T).T, e)"),
    "whole_inverse_of_update": ("inv(diag(e) + g @ g.T)[:3, 1:] + inv(diag(e) + outer(k, e))[:3, 1:]",
                                "np.linalg.inv(np.diag(e) + g @ g.T)[:3, 1:] "
                                "+ np.linalg.inv(np.diag(e) + np.outer(k, e))[:3, 1:]"),
    "inverse_of_update": ("inv(diag(e) + g @ g.T) * 2.0 + inv(diag(e) + outer(e, e))",
                          "2 * np.linalg.inv(np.diag(e) + g @ g.T) + np.linalg.inv(np.diag(e) + np.outer(e, e))"),
    "inverse_update": ("inv(diag(e) + g @ g.T) @ k", f"{S}(np.diag(e) + g @ g.T, k)"),
    "det": (
        "det(diag(d)) + det(tril(a)) + det(kron(m, p))",
        f"np.prod(d) + np.prod(np.diag(a)) + {D}({K})",
    ),
    "det_update": ("det(diag(e / e) + g @ g.T)", f"{D}(np.eye(16) + g @ g.T)"),
    "logdet": (
        "slogdet(kron(m, p))[1] + slogdet(diag(d))[1]",
        "np.linalg.slogdet(np.kron(m, p))[1] + np.sum(np.log(abs(d)))",
    ),
    "logdet_update": ("slogdet(diag(e) + g @ g.T)[1]", f"{L}(np.diag(e) + g @ g.T)[1]"),
    "gradient": (
        "grad(lambda x: sum(solve(diag(x) + g @ g.T, k) * k))(e)",
        "-np.linalg.solve(np.diag(e) + g @ g.T, k) ** 2",
    ),
    "gradient_of_columns": (
        "grad(lambda u: sum(solve(diag(e) + u @ g.T, l)))(g)",
        f"-np.outer({S}(np.diag(e) + g @ g.T, np.ones(16)), np.sum(g.T @ {S}(np.diag(e) + g @ g.T, l), axis=1))",
    ),
    "rank_one_slope": (
        "grad(lambda x: sum(solve(diag(e) + outer(x, e), k)))(k)",
        f"-{S}((np.diag(e) + np.outer(k, e)).T, np.ones(16)) * (e @ {S}(np.diag(e) + np.outer(k, e), k))",
    ),
    "mapped": ("vmap(lambda x: solve(diag(d), x))(a)", "a / d[None, :]"),
}
SOLVE_ARGS = (
    ARGS
    + ", e: Tensor[16, f32], g: Tensor[16, 2, f32], f: Tensor[16, 16, f32], k: Tensor[16, f32], l: Tensor[16, 3, f32]"
)

TAKEN = {
    "diagonal": "diagonal", "diagonal_columns": "diagonal", "multiple": "diagonal", "lower": "lower", "upper": "upper",
    "lower_turned": "upper", "kronecker": "kronecker", "kronecker_columns": "kronecker", "update": "update",
    "update_minus": "update", "update_zero": "", "inverse": "applied", "inverse_right": "turned",
    "inverse_columns": "applied", "inverse_diagonal": "applied diagonal", "inverse_kronecker": "applied kronecker",
    "inverse_turned": "turned", "inverse_turned_right": "applied", "inverse_in_chain": "applied", "product": "product",
    "product_of_three": "product lower", "product_used": "", "det_of_product": "product",
    "logdet_of_product": "product", "product_slope": "product product",
    "beside": "beside", "beside_slope": "beside", "det_beside": "beside", "det_beside_slope": "beside",
    "rank_one": "rank one", "rank_one_minus": "rank one", "solution_applied": "applied",
    "solution_in_chain": "applied", "solution_on_right": "turned", "solution_turned": "turned",
    "solution_turned_on_right": "applied", "solution_is_a_vector": "", "solution_kept": "",
    "inverse_twice": "inverse inverse",
    "inverse_system": "inverse inverse", "inverse_logdet": "inverse inverse kronecker",
    "inverse_det": "inverse inverse", "logdet_beside_inverse": "product inverse",
    "system_beside_inverse": "product inverse", "logdet_turned": "", "inverse_slope": "inverse inverse",
    "inverse_kept": "",
    "norms": "diagonal diagonal diagonal",
    "norms_of_factors": "factors factors gram gram",
    "norms_of_products": "outer outer kronecker kronecker", "norms_of_columns": "outer outer outer",
    "factor": "upper lower", "whole_inverse_of_update": "turned turned rank one update",
    "inverse_of_update": "rank one update",
    "inverse_update": "applied update", "det": "kronecker lower diagonal", "det_update": "update",
    "logdet": "diagonal kronecker", "logdet_update": "update", "gradient": "update",
    "gradient_of_columns": "applied update",
    "rank_one_slope": "rank one", "mapped": "diagonal",
}  # fmt: skip
