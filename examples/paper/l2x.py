"""L2X, the rival that learns: its selector is trained once for a study and kept."""

from __future__ import annotations

import math
from pathlib import Path

from bivshap_lightning.callbacks import fit_l2x
from bivshap_lightning.explainers.rivals.l2x import L2X
from examples.paper.study import Study

# Training rows, and steps of 128 of them, of tables and of everything else, whose networks are slower.
ROWS, STEPS, BATCH = {True: 10_000, False: 2_000}, {True: 1_000, False: 320}, 128


def trained_selector(study: Study, path: Path) -> L2X:
    """The selector of half of the features, read or trained; the paper does not say which share it trained for."""
    if not path.is_file():
        is_table = study.training.dim() == 2 and study.training.is_floating_point()
        data = study.training[: ROWS[is_table]]
        game = study.game(slice(0, 1))
        fit_l2x(
            study.model, data, max(1, game.n_players // 2), baselines=study.baselines, feature_mask=study.feature_mask,
            n_epochs=math.ceil(STEPS[is_table] / math.ceil(len(data) / BATCH)), batch_size=BATCH,
        ).save(path)  # fmt: skip
    return L2X.load(path)
