"""What a CPU can show about other devices: host synchronisations, tensors on the wrong device, shapes of chunks.

Not covered: `.tolist()` and `.numpy()` on a CPU tensor reach no operator that could be counted; kernels of real
devices, their numerics and their memory; and what a game decides from data, for which fake tensors have no values.
"""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from bivshap_lightning import BivariateShapley, Game
from bivshap_lightning.explainers import find_explainer
from bivshap_lightning.explainers.design import Design, PairedValues
from bivshap_lightning.explainers.kernel import estimate_from_values
from bivshap_lightning.explainers.order_means import Means, controlled_means, summed_moments
from bivshap_lightning.explainers.sampling import _symmetrise, _with_errors
from bivshap_lightning.game.coalitions import pack

F = 12
OTHER = "lazy"
"""A device type whose fake tensors can be sliced and written to by a build of torch for CPUs; "cuda" cannot."""
WAITS = {
    "_local_scalar_dense", "is_nonzero", "nonzero", "_unique2", "unique_dim", "masked_select", "bincount", "equal",
}  # fmt: skip
"""Operators after which the host waits for the device: they return a number, or a tensor whose shape is data."""


class Waits(TorchDispatchMode):
    """Counts operators that make the host wait, and copies to the host."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        to_host = func.overloadpacket.__name__ == "_to_copy" and str(kwargs.get("device", "")) == "cpu"
        by_mask = func.overloadpacket.__name__ == "index" and any(
            t is not None and t.dtype == torch.bool for t in args[1]
        )
        self.n += func.overloadpacket.__name__ in WAITS or to_host or by_mask
        return func(*args, **kwargs)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(F, 16), nn.Tanh(), nn.Linear(16, 3)).eval()


def waits(method: str, n_samples: int, n_evaluations: int, per_eval: int | None) -> int:
    x = torch.randn(n_samples, F, generator=torch.Generator().manual_seed(0))
    model = network()
    with Waits() as counted:
        game = Game(model, x, perturbations_per_eval=per_eval)
        find_explainer(method).explain(game, n_evaluations)
    return counted.n


METHODS = ["sampling", "kernel", "paper_sampling", "paper_kernel", "exact", "kernel_shap", "shapley_sampling"]


@pytest.mark.parametrize("method", METHODS)
def test_host_synchronisations_do_not_grow_with_rows_chunks_or_samples(method):
    rows = 2**F if method == "exact" else 400
    few = waits(method, 3, rows, None)
    assert 0 < few < 60
    # More rows may enumerate more sizes of coalitions, of which there are F, by one or two operators that wait.
    assert waits(method, 3, rows if method == "exact" else 4 * rows, None) <= few + 2 * F
    assert waits(method, 3, rows if method == "exact" else 40 * rows, None) <= few + 2 * F
    assert waits(method, 3, rows, 5) <= few  # chunks of 15 rows instead of thousands
    assert waits(method, 12, rows, None) <= few


def test_the_count_would_see_a_loop_over_rows():
    class Careless(nn.Module):
        def forward(self, x):
            return torch.stack([row.sum() * float(row.sum() > 0) for row in x])

    with Waits() as counted:
        Game(Careless(), torch.ones(2, F), behavior="output")(torch.eye(F, dtype=torch.bool)[None])
    assert counted.n > 2 * F


def kernels(device: str) -> list[torch.Tensor]:
    """Our tensor code on one device, from masks to standard errors."""
    masks = torch.zeros(30, F, dtype=torch.bool, device=device)
    design = Design(masks, torch.ones(30, dtype=torch.float64, device=device), 6)
    values = torch.zeros(2, 30, dtype=torch.float64, device=device)
    ends = torch.zeros(2, 1, dtype=torch.float64, device=device)
    kernel = estimate_from_values(PairedValues(ends, ends, values, values), design)
    gains = torch.zeros(2, 7, F, dtype=torch.float64, device=device)
    positions = torch.zeros(7, F, dtype=torch.int64, device=device)
    moments = summed_moments(gains, gains, positions)
    means = controlled_means(gains, gains, positions).where(Means.of(moments, 7))
    largest = torch.ones(2, dtype=torch.float64, device=device)
    sampled = _symmetrise(_with_errors(means, gains, gains), moments, largest)
    return [*kernel.tensors, *sampled.tensors, pack(masks)]


def test_kernels_stay_on_the_device_of_their_tensors():
    """Fake tensors of a second device type: mixing it with the CPU raises, so a forgotten `device=` would fail."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert {t.device.type for t in kernels(OTHER)} == {OTHER}
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            torch.ones(3, device=OTHER) + torch.ones(3)


@pytest.mark.parametrize("n_samples", [1, 3])
@pytest.mark.parametrize("n_coalitions", [7, 64, 100])
def test_one_call_shows_the_model_at_most_two_shapes(n_samples, n_coalitions):
    shapes: list[tuple[int, ...]] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        shapes.append(tuple(x.shape))
        return x.sum(dim=1)

    game = Game(model, torch.randn(n_samples, F), behavior="output", perturbations_per_eval=16)
    masks = torch.rand(1, n_coalitions, F, generator=torch.Generator().manual_seed(0)) > 0.5
    game(masks)
    shapes.clear()
    game(masks)
    assert len(set(shapes)) <= 2


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_runs_the_model_in_it_and_keeps_values_in_float32(precision, tmp_path):
    model = network()

    def write(module, args, output) -> None:
        with (tmp_path / "dtypes").open("a") as file:  # a list would be restored by the game
            file.write(f"{output.dtype}\n")

    hook = model[0].register_forward_hook(write)

    def dtypes() -> set[str]:
        written = (tmp_path / "dtypes").read_text().split()
        (tmp_path / "dtypes").unlink()
        return set(written)

    x = torch.randn(2, F, generator=torch.Generator().manual_seed(0))
    masks = torch.rand(1, 50, F, generator=torch.Generator().manual_seed(1)) > 0.5
    whole = Game(model, x)(masks)
    assert dtypes() == {"torch.float32"}
    game = Game(model, x, precision=precision)
    mixed = game(masks)
    assert dtypes() == {"torch.bfloat16" if precision == "bf16" else "torch.float16"}
    assert mixed.dtype == whole.dtype == torch.float32
    assert 0 < float((mixed - whole).abs().max()) < 0.03
    explanation = BivariateShapley(model, "sampling", precision=precision).attribute(x, n_evaluations=200)
    truth = BivariateShapley(model, "sampling").attribute(x, n_evaluations=200)
    torch.testing.assert_close(explanation.bivariate, truth.bivariate, atol=0.03, rtol=0)
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    hook.remove()


@pytest.mark.parametrize(("model", "precision"), [(network(), "int8"), (lambda x: x.sum(dim=1), "bf16")])
def test_precisions_that_cannot_be_had_are_refused(model, precision):
    with pytest.raises(ValueError, match=rf"`precision` must be one of .* torch module, got '{precision}'"):
        Game(model, torch.ones(1, F), precision=precision)
