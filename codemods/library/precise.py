"""What loses so many digits that it needs precise products of matrices to begin with?"""

from __future__ import annotations

_LINEAR_ALGEBRA = frozenset(
    """
    cholesky cholesky_ex det eig eigh eigvals eigvalsh householder_product inv inv_ex ldl_factor ldl_solve lstsq lu
    lu_factor lu_solve matrix_exp matrix_power matrix_rank pinv qr slogdet solve solve_ex solve_triangular svd svdvals
    tensorinv tensorsolve cond
    """.split()  # noqa: SIM905 - a table
)
_FUNCTIONS = frozenset(
    """
    inverse pinverse cholesky cholesky_inverse cholesky_solve det logdet slogdet svd svd_lowrank pca_lowrank qr lu
    lu_solve triangular_solve lobpcg matrix_exp matrix_power cdist cov corrcoef geqrf
    """.split()  # noqa: SIM905 - a table
)
"""``torch.cdist`` expands distances between more than 25 points: differences of large products."""
PRECISE_METHODS = _FUNCTIONS - {"cdist", "lobpcg", "pca_lowrank", "svd_lowrank"} | {"logdet"}
"""What tensors have of it as methods."""
_DISTRIBUTIONS = frozenset({"torch.distributions.MultivariateNormal", "torch.distributions.LowRankMultivariateNormal"})
_COMPARISONS = frozenset(
    {"torch.allclose", "torch.testing.assert_close", "torch.testing.assert_allclose"}
    | {"torch.autograd.gradcheck", "torch.autograd.gradgradcheck"}
)


def is_precise(name: str) -> bool:
    """Whether the function or class of that qualified name loses many digits."""
    package, _, last = name.rpartition(".")
    return (
        (package == "torch.linalg" and last in _LINEAR_ALGEBRA)
        or (package == "torch" and last in _FUNCTIONS)
        or name in _DISTRIBUTIONS
    )


def compares(name: str) -> bool:
    """Whether the function of that qualified name says whether numbers are almost equal."""
    return name in _COMPARISONS


def functions() -> frozenset[str]:
    """The qualified names of all of these functions."""
    of_torch = {f"torch.{each}" for each in _FUNCTIONS} | {f"torch.linalg.{each}" for each in _LINEAR_ALGEBRA}
    return frozenset(of_torch) | _DISTRIBUTIONS | _COMPARISONS
