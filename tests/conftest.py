"""Settings every test shares: hypothesis profile, fixed seeds, visible logs, and a guard for the global generators."""

import logging
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


@pytest.fixture(autouse=True)
def _lightning_logs_are_seen() -> None:
    """Let `caplog` see Lightning's logs: imported before pytest logs anything, Lightning keeps them to itself."""
    for name in ("pytorch_lightning", "lightning", "lightning.pytorch"):
        logging.getLogger(name).propagate = True


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
