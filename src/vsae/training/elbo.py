"""The four terms of the bound, Eq. 9, by name.

L' = E_z[ Σ_{j∈U} E log p(x_j | m, z) ] + E_z[ Σ_{i∈O} log p(x_i | m, z) ] + E_z[ log p(m | z) ] - KL(q ‖ p(z))
          x_unobserved                        x_observed                         mask                kl
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Elbo(NamedTuple):
    """The four terms, with the paper's signs. Each (E, B, M), attribute by attribute, or (E, B) after `rows()`."""

    x_observed: Tensor
    x_unobserved: Tensor
    mask: Tensor
    kl: Tensor

    @property
    def total(self) -> Tensor:
        return self.x_observed + self.x_unobserved + self.mask - self.kl

    def rows(self) -> Elbo:
        return Elbo(*(term.sum(-1) for term in self))

    def mean(self) -> Elbo:
        """Average over rows, (E,)."""
        return Elbo(*(term.mean(-1) for term in self.rows()))
