"""Designs of coalitions: complementary pairs, the outermost sizes enumerated, the others drawn.

``kernel`` and ``proxy`` evaluate the same designs. Pairs of a coalition and its complement split every problem into an
odd and an even part: half the difference and half the sum of the two values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bivshap_lightning.explainers.null_players import ReducedGame
from bivshap_lightning.explainers.rows import Rows

# With fewer drawn pairs per size than this, more of them go to small and large coalitions, which weigh most in E2.
FEW_PAIRS_PER_SIZE = 8


@dataclass(frozen=True)
class Design(Rows):
    """Pairs of a coalition and its complement, neither of them empty.

    Attributes:
        masks: bool (P, n), one member of each pair.
        weight: (P,) the share of either member in the mean over its size.
        n_enumerated: leading pairs that are enumerated; the others are drawn at random.
        expected: (n // 2 + 1,) how many pairs of each size were to be drawn, by the size of the smaller member.
    """

    masks: Tensor
    weight: Tensor
    n_enumerated: int
    expected: Tensor | None = None

    @property
    def coalitions(self) -> Tensor:
        """Bool (2 + 2 P, n): no player, all players, then pair by pair."""
        ends = torch.tensor([[False], [True]], device=self.masks.device).expand(2, self.masks.shape[1])
        return torch.cat([ends, torch.stack([self.masks, ~self.masks], dim=1).flatten(0, 1)])

    def paired(self, values: Tensor) -> PairedValues:
        """Values (B, 2 + 2 P) of the coalitions, by pairs."""
        return PairedValues(values[:, :1], values[:, 1:2], values[:, 2::2].contiguous(), values[:, 3::2].contiguous())

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


def draw_design(
    n_players: int, n_coalitions: int, generator: torch.Generator, previous: Design | None = None
) -> Design:
    """Enumerate the outermost sizes while that costs no more than their share, and sample the rest.

    A design that goes on from a ``previous`` one keeps its pairs, and which sizes are enumerated, and draws more.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> design = draw_design(8, 70, generator)
        >>> design.masks.shape, design.n_enumerated
        (torch.Size([35, 8]), 8)
        >>> draw_design(8, 140, generator, design).masks.shape
        torch.Size([70, 8])
    """
    if previous is None:
        previous = _enumerate_sizes(n_players, n_coalitions // 2, generator.device)
    n_new = n_coalitions // 2 - len(previous.masks)
    sizes = _drawn_sizes(previous)
    if n_new <= 0 or not len(sizes):
        return previous
    n_drawn = previous.n_drawn + n_new
    is_middle = 2 * sizes == n_players
    # A pair of size s weighs as 1 / (s (n - s)) in the variance of E2: the exponent is best for equal residuals.
    exponent = -0.5 if n_drawn < FEW_PAIRS_PER_SIZE * len(sizes) else 0.0
    density = (sizes * (n_players - sizes)).double() ** exponent
    shares = torch.where(is_middle, density / 2, density)
    # Systematic sampling: every size gets its share, rounded up or down.
    start = torch.rand(1, generator=generator, device=generator.device, dtype=torch.float64)
    marks = (torch.arange(n_new, device=generator.device) + start) / n_new * shares.sum()
    place = torch.searchsorted(shares.cumsum(0), marks).clamp(max=len(sizes) - 1)
    masks = torch.cat([previous.masks, _random_subsets(sizes[place], n_players, generator)])
    expected = torch.zeros(n_players // 2 + 1, dtype=torch.float64, device=generator.device)
    expected[sizes] = n_new * shares / shares.sum()
    if previous.expected is not None:
        expected = expected + previous.expected
    # The middle size is its own complement: a pair holds two of its coalitions.
    of_size = torch.where(2 * torch.arange(len(expected), device=expected.device) == n_players, 0.5, 1.0) / expected
    smaller = masks[previous.n_enumerated :].sum(dim=1)
    weight = torch.cat([previous.weight[: previous.n_enumerated], of_size[torch.minimum(smaller, n_players - smaller)]])
    return Design(masks, weight, previous.n_enumerated, expected)


def draw_design_alike(n_players: int, n_coalitions: int, budgets: Sequence[int], generator: torch.Generator) -> Design:
    """A design of the quality of one draw, of pairs that another explainer drew in stages wherever it draws pairs.

    Sizes that so many coalitions enumerate are enumerated, although the first stage may have had too few for that; the
    pairs that the stages drew of these sizes are given up for others. If the stages drew more pairs than are wanted,
    evenly spaced ones are left out.

    Args:
        n_players: n.
        n_coalitions: of the design.
        budgets: increasing numbers of coalitions, one stage each.
        generator: the source of random draws, in the state in which the other explainer's was.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> design = draw_design_alike(20, 500, [80, 510], generator)
        >>> design.masks.shape, design.n_enumerated
        (torch.Size([250, 20]), 20)
    """
    staged = draw_design(n_players, budgets[0], generator)
    for budget in budgets[1:]:
        staged = draw_design(n_players, budget, generator, staged)
    outer = _enumerate_sizes(n_players, n_coalitions // 2, generator.device)
    if staged.n_enumerated > outer.n_enumerated:
        if staged.n_enumerated > n_coalitions // 2:  # far more was drawn than is wanted
            return draw_design(n_players, n_coalitions, generator)
        first = slice(staged.n_enumerated)
        outer = Design(staged.masks[first], staged.weight[first], staged.n_enumerated)
    sizes = staged.masks.sum(dim=1)
    others = torch.isin(torch.minimum(sizes, n_players - sizes), _drawn_sizes(outer)).nonzero()[:, 0]
    n_kept = min(len(others), n_coalitions // 2 - outer.n_enumerated)
    kept = others[torch.arange(n_kept, device=others.device) * len(others) // max(1, n_kept)]
    share = n_kept / max(1, len(others))
    alike = Design(
        torch.cat([outer.masks, staged.masks[kept]]),
        torch.cat([outer.weight, staged.weight[kept] / share]) if n_kept else outer.weight,
        outer.n_enumerated,
        None if staged.expected is None else share * staged.expected,
    )
    return draw_design(n_players, n_coalitions, generator, alike)


def _enumerate_sizes(n_players: int, n_pairs: int, device: torch.device) -> Design:
    """The outermost sizes, while all coalitions of a size cost no more than its share of the pairs."""
    players, left = torch.arange(n_players, device=device), n_pairs
    masks = [torch.zeros(0, n_players, dtype=torch.bool, device=device)]
    weights = [torch.zeros(0, dtype=torch.float64, device=device)]
    # A size goes with its complement's; the middle one is its own complement and has only half as many pairs.
    sizes = list(range(1, n_players // 2 + 1))
    while sizes and left // len(sizes) >= (
        n_here := math.comb(n_players, sizes[0]) // (2 if 2 * sizes[0] == n_players else 1)
    ):
        members = torch.combinations(players, r=sizes[0])
        chosen = torch.zeros(len(members), n_players, dtype=torch.bool, device=device).scatter_(1, members, True)
        masks.append(chosen[:n_here])  # in lexicographic order: of the middle size, those with the first player
        weights.append(torch.full((n_here,), 1 / len(members), dtype=torch.float64, device=device))
        left -= n_here
        sizes.pop(0)
    return Design(torch.cat(masks), torch.cat(weights), n_pairs - left)


def _drawn_sizes(design: Design) -> Tensor:
    """The sizes up to n / 2 that are not enumerated."""
    n, device = design.masks.shape[1], design.masks.device
    largest = int(design.masks[design.n_enumerated - 1].sum()) if design.n_enumerated else 0
    return torch.arange(min(largest, n - largest) + 1, n // 2 + 1, device=device)


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
    return design.paired(game(design.coalitions))
