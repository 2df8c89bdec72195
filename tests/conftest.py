"""Settings every test shares: hypothesis profile, fixed seeds, and a guard for the global generators."""

import random
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import settings

settings.register_profile("bivshap", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("bivshap")


@pytest.fixture(autouse=True)
def _fixed_global_seeds() -> None:
    """Start every test from the same global generators: no result depends on the order of the tests."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - the legacy generator is the one third-party code draws from
    torch.manual_seed(0)


@pytest.fixture
def global_rng_untouched(_fixed_global_seeds: None) -> Iterator[None]:
    """Fail a test that asks for this fixture if it moves a global random generator."""
    before = _global_rng_states()
    yield
    after = _global_rng_states()
    moved = [library for library in before if before[library] != after[library]]
    assert not moved, f"global random generators were moved: {', '.join(moved)}"


def _global_rng_states() -> dict[str, object]:
    name, keys, *position = np.random.get_state()  # noqa: NPY002
    return {
        "random": random.getstate(),
        "numpy": (name, keys.tobytes(), *position),
        "torch": torch.get_rng_state().tolist(),
    }
