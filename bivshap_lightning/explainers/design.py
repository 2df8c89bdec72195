"""Designs of coalitions: complementary pairs, the outermost sizes enumerated, the others drawn.

``kernel`` and ``proxy`` evaluate the same designs. Pairs of a coalition and its complement split every problem into an
odd and an even part: half the difference and half the sum of the two values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bivshap_lightning.explainers.null_players import ReducedGame

# With fewer drawn pairs per size than this, more of them go to small and large coalitions, which weigh most in E2.
FEW_PAIRS_PER_SIZE = 8


@dataclass(frozen=True)
class Design:
    """Pairs of a coalition and its complement, neither of them empty.

    Attributes:
        masks: bool (P, n), one member of each pair.
        weight: (P,) the share of either member in the mean over its size.
        n_enumerated: leading pairs that are enumerated; the others are drawn at random.
    """

    masks: Tensor
    weight: Tensor
    n_enumerated: int

    @property
    def signs(self) -> Tensor:
        """(P, n) float64: 1 for players of the coalition, -1 for those of its complement."""
        return self.masks.double().mul_(2).sub_(1)

    @property
    def n_drawn(self) -> int:
        """How many pairs are drawn at random."""
        return len(self.masks) - self.n_enumerated

    @property
    def widening(self) -> float:
        """Factor of variances that are estimated from few drawn pairs per size, which miss the tails of residuals."""
        pairs_per_size = max(1, self.n_drawn) / (self.masks.shape[1] / 2)
        return 1 + 8 / max(2, pairs_per_size) ** 2 if self.n_drawn else 1.0


@dataclass(frozen=True)
class PairedValues:
    """Values, or residuals, of a design and of the empty and the full coalition, in float64.

    Attributes:
        empty: (B, 1).
        full: (B, 1).
        inside: (B, P) of the coalitions of the design.
        outside: (B, P) of their complements.
    """

    empty: Tensor
    full: Tensor
    inside: Tensor
    outside: Tensor

    def __getitem__(self, part: slice) -> PairedValues:
        return self.apply(lambda x: x[part])

    def apply(self, change: Callable[[Tensor], Tensor]) -> PairedValues:
        """The same function of all four fields."""
        return PairedValues(change(self.empty), change(self.full), change(self.inside), change(self.outside))

    @property
    def odd(self) -> Tensor:
        """(B, P) half the difference of each pair."""
        return (self.inside - self.outside) / 2

    @property
    def even(self) -> Tensor:
        """(B, P) half the sum of each pair."""
        return (self.inside + self.outside) / 2


def draw_design(n_players: int, n_coalitions: int, generator: torch.Generator) -> Design:
    """Enumerate the outermost sizes while that costs no more than their share, and sample the rest.

    Example:
        >>> design = draw_design(8, 70, torch.Generator().manual_seed(0))
        >>> design.masks.shape, design.n_enumerated
        (torch.Size([35, 8]), 8)
    """
    n, device = n_players, generator.device
    players = torch.arange(n, device=device)
    masks, weights, left = [], [], n_coalitions // 2
    # A size goes with its complement's; the middle one is its own complement and has only half as many pairs.
    sizes = list(range(1, n // 2 + 1))
    while sizes and left // len(sizes) >= (n_pairs := math.comb(n, sizes[0]) // (2 if 2 * sizes[0] == n else 1)):
        members = torch.combinations(players, r=sizes[0])
        chosen = torch.zeros(len(members), n, dtype=torch.bool, device=device).scatter_(1, members, True)
        masks.append(chosen[:n_pairs])  # in lexicographic order: of the middle size, those with the first player
        weights.append(torch.full((n_pairs,), 1 / len(members), dtype=torch.float64, device=device))
        left -= n_pairs
        sizes.pop(0)
    n_enumerated = n_coalitions // 2 - left
    if sizes and left:
        sizes_left = torch.tensor(sizes, device=device)
        # A pair of size s weighs as 1 / (s (n - s)) in the variance of E2: the exponent is best for equal residuals.
        exponent = -0.5 if left < FEW_PAIRS_PER_SIZE * len(sizes) else 0.0
        density = (sizes_left * (n - sizes_left)).double() ** exponent
        shares = torch.where(2 * sizes_left == n, density / 2, density)
        # Systematic sampling: every size gets its share, rounded up or down.
        start = torch.rand(1, generator=generator, device=device, dtype=torch.float64)
        marks = (torch.arange(left, device=device) + start) / left * shares.sum()
        place = torch.searchsorted(shares.cumsum(0), marks).clamp(max=len(sizes) - 1)
        masks.append(_random_subsets(sizes_left[place], n, generator))
        weights.append(shares.sum() / (left * density[place]))
    return Design(torch.cat(masks), torch.cat(weights), n_enumerated)


def _random_subsets(sizes: Tensor, n_players: int, generator: torch.Generator) -> Tensor:
    """Uniformly random coalitions of given sizes, bool (P, n), by selection sampling: a step per player, no sorting."""
    draws = torch.rand(n_players, len(sizes), generator=generator, device=sizes.device)
    masks = torch.empty(n_players, len(sizes), dtype=torch.bool, device=sizes.device)
    missing = sizes.clone()
    for player, draw in enumerate(draws):
        # The player belongs to the coalition with the share of players still missing among those still to come.
        torch.lt(draw * (n_players - player), missing, out=masks[player])
        missing -= masks[player].long()
    return masks.T.contiguous()


def evaluate_design(game: ReducedGame, design: Design) -> PairedValues:
    """Values of a design, of the empty coalition and of the full one."""
    ends = torch.tensor([[False], [True]], device=game.device).expand(2, game.n_players)
    values = game(torch.cat([ends, design.masks, ~design.masks]))
    return PairedValues(*values.split([1, 1, len(design.masks), len(design.masks)], dim=1))
