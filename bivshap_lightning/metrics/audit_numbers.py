"""Entries of the catalogue for the numbers that an audit computes or logs; see `catalogue`. No torch."""

from __future__ import annotations

from bivshap_lightning.metrics.intervals import Interval
from bivshap_lightning.metrics.number import (
    CLASSIFICATION,
    COUNT,
    REAL,
    REGRESSION,
    UNIT,
    Number,
    RedundancyCounts,
)

REDUNDANCY, ROLES = "bivshap/redundancy/", "bivshap/roles/"


def _density(h: RedundancyCounts) -> Interval:
    return Interval(h.density, h.density, min(1.0, h.density + h.n_undecided / max(1, h.n_pairs)))


def _n_independent(h: RedundancyCounts) -> Interval:
    # An edge that turns out redundant can only merge components, in the extreme all of them.
    n = h.n_players - h.n_removable
    return Interval(n, 1 if h.n_undecided else n, n)


def _share_removable(h: RedundancyCounts) -> Interval:
    share = h.n_removable / h.n_players
    return Interval(share, share, (h.n_players - 1) / h.n_players if h.n_undecided else share)


AUDIT_NUMBERS: list[Number] = [
    Number(
        tag="bivshap/post_hoc_accuracy/{explainer}", title="post-hoc accuracy", direction="higher", range=UNIT,
        formula="mean over removed fractions of [same decision as on the whole input], least important removed first",
        interval="normal or wilson", tasks=CLASSIFICATION, metric="bivshap_lightning.metrics:PostHocAccuracy",
        key="area", meaning="same prediction as features go, least important first; mean over the curve",
    ),
    Number(
        tag="bivshap/share_kept/{explainer}", title="prediction kept", direction="higher", range=UNIT,
        formula="1 - mean over removed fractions of |u - u(all)| / |u(all) - u(none)|, least important removed first; "
        "sums over samples, cut off at 0 per sample", interval="normal", tasks=REGRESSION,
        metric="bivshap_lightning.metrics:PredictionKept", key="share_kept", is_mean=False,
        meaning="how much of the predicted value is kept as features go, least important first",
    ),
    Number(
        tag="bivshap/removal_error/{explainer}", title="removal error", direction="lower", range=COUNT,
        formula="mean over removed fractions of |u - u(all)|, least important removed first", interval="normal",
        tasks=REGRESSION, metric="bivshap_lightning.metrics:PredictionKept", key="error",
        meaning="how far the predicted value moves as features go, least important first, in its units",
        is_charted=False,
    ),
    Number(
        tag="bivshap/insertion_auc/{explainer}", title="insertion", direction="higher", range=REAL, interval="normal",
        formula="area under the explained output as features are inserted, most important first, above that of no "
        "feature in the direction of the whole input",
        metric="bivshap_lightning.metrics:InsertionAUC", key="auc",
        meaning="explained output as features come in, most important first; area under the curve",
        is_charted=False,
    ),
    Number(
        tag="bivshap/deletion_auc/{explainer}", title="deletion", direction="lower", range=REAL, interval="normal",
        formula="area under the explained output as features are deleted, most important first, above that of no "
        "feature in the direction of the whole input",
        metric="bivshap_lightning.metrics:DeletionAUC", key="auc",
        meaning="explained output as features go, most important first; area under the curve",
        is_charted=False,
    ),
    *(
        Number(
            tag=f"{ROLES}{role}", title=role, direction="lower" if role == "undecided" else "neutral", range=UNIT,
            formula=f"mean over samples of {role} players / players", interval="normal", meaning=meaning,
        )
        for role, meaning in (
            ("irrelevant", "features that play no part in the decision"),
            ("interchangeable", "features that matter and of which any one of a group will do"),
            ("redundant", "features that matter, and say nothing new once another one is there"),
            ("essential", "features that matter and that no single other feature replaces"),
            ("undecided", "features whose role the audit was too short to tell"),
        )
    ),
    Number(
        tag=f"{ROLES}n_independent", title="independent", direction="neutral", range=COUNT, interval="normal",
        formula="mean over samples of essential players + groups of interchangeable ones",
        meaning="pieces of evidence behind a decision: essential features, and groups of interchangeable ones",
    ),
    Number(
        tag=f"{ROLES}groups_per_sample", title="interchangeable groups", direction="neutral", range=COUNT,
        formula="mean over samples of the number of groups of interchangeable players", interval="none",
        meaning="groups of interchangeable features in a sample",
        is_charted=False,
    ),
    Number(
        tag=f"{ROLES}group_size", title="size of these groups", direction="neutral", range=COUNT, interval="none",
        formula="sum over samples of interchangeable players in groups / sum of groups; 0 without groups",
        meaning="features in a group of interchangeable ones",
        is_charted=False,
    ),
    Number(
        tag=f"{ROLES}share_groups_stable", title="one is enough", direction="higher", range=UNIT, interval="none",
        formula="groups whose decision stays with any of 5 random members in place of all / groups; 0 without groups",
        meaning="groups of interchangeable features of which one random member is enough for the decision",
        is_charted=False,
    ),
    Number(
        tag=f"{ROLES}share_groups_moving", title="all matter", direction="higher", range=UNIT, interval="none",
        formula="groups whose removal changes the value by more than 2 gamma / groups; 0 without groups",
        meaning="groups of interchangeable features whose removal changes the explained output",
        is_charted=False,
    ),
    Number(
        tag=f"{ROLES}share_groups_confirmed", title="confirmed", direction="higher", range=UNIT, interval="none",
        formula="groups that are stable and moving / groups; 0 without groups",
        meaning="groups of interchangeable features that the model confirms: one is enough, and without all the output "
        "changes",
        is_charted=False,
    ),
    Number(
        tag="bivshap/sufficient/size", title="features that suffice", direction="neutral", range=COUNT,
        interval="normal", tasks=CLASSIFICATION,
        formula="mean over samples of the size of the smallest set found that keeps the decision, all others replaced",
        meaning="features that suffice for the decision while all others are replaced",
    ),
    Number(
        tag="bivshap/sufficient/stable_size", title="that suffice stably", direction="neutral", range=COUNT,
        interval="normal", tasks=CLASSIFICATION,
        formula="mean over samples of the size of the set on which 8 to 32 random supersets in a row keep the decision",
        meaning="features that suffice for the decision whatever other features are added at random",
        is_charted=False,
    ),
    Number(
        tag="bivshap/sufficient/stable_agreement", title="random additions that agree", direction="higher", range=UNIT,
        interval="normal", tasks=CLASSIFICATION,
        formula="mean over samples of the share of fresh random supersets of the stable set that keep the decision",
        meaning="random additions to the stable set that leave the decision: the certificate of its size",
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}accuracy_with_representatives", title="with representatives", direction="higher", range=UNIT,
        formula="share of samples with the same decision when each group keeps its highest-ranked member",
        interval="wilson", tasks=CLASSIFICATION,
        meaning="same prediction when each group of H keeps its highest-ranked member and the others go; with random "
        "members it is harder to reach",
    ),
    Number(
        tag=f"{REDUNDANCY}error_with_representatives", title="error with representatives", direction="lower",
        range=COUNT, formula="mean over samples of |u - u(all)| when each group keeps its highest-ranked member",
        interval="normal", tasks=REGRESSION,
        meaning="how far the predicted value moves when each group of H keeps its highest-ranked member, in its units",
    ),
    Number(
        tag=f"{REDUNDANCY}share_kept_with_representatives", title="kept with representatives", direction="higher",
        range=UNIT, formula="1 - sum over samples of min(|u - u(all)|, |u(all) - u(none)|) / sum of |u(all) - u(none)|",
        interval="none", tasks=REGRESSION,
        meaning="how much of the predicted value is kept when each group of H keeps its highest-ranked member",
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}random_removal_error", title="error of random removal", direction="neutral", range=COUNT,
        formula="mean over samples and draws of |u - u(all)| when as many players are removed at random",
        interval="normal", tasks=REGRESSION,
        meaning="control of error_with_representatives: how far the value moves when as many features go at random",
    ),
    Number(
        tag=f"{REDUNDANCY}empty_error", title="error of nothing left", direction="neutral", range=COUNT,
        formula="mean over samples of |u(all) - u(none)|", interval="normal", tasks=REGRESSION,
        meaning="control of all errors after removal: how far the value moves without any feature",
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}share_removable", title="removable", direction="neutral", range=UNIT, interval="normal",
        formula="sum over samples of (players in groups - groups) / sum of players",
        meaning="features that can go while one of each group of H stays, most of them usually irrelevant",
        parts=lambda h: (h.n_removable, h.n_players),
    ),
    Number(
        tag=f"{REDUNDANCY}n_independent", title="independent features", direction="neutral", range=COUNT,
        formula="mean over samples of players - (players in groups - groups)", interval="normal",
        meaning="features left when each group of H counts once, irrelevant ones included",
        parts=lambda h: (h.n_players - h.n_removable, 1),
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}density", title="density", direction="neutral", range=UNIT, interval="normal",
        formula="mean over samples of redundant edges / ordered pairs",
        meaning="ordered pairs of features where the first makes the second redundant",
        parts=lambda h: (h.density, 1),
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}groups_per_sample", title="groups per sample", direction="neutral", range=COUNT,
        formula="mean over samples of the number of groups of H", interval="normal",
        meaning="groups of mutually redundant features in a sample, irrelevant ones included",
        parts=lambda h: (h.n_groups, 1),
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}group_size", title="group size", direction="neutral", range=COUNT, interval="normal",
        formula="sum over samples of players in groups / sum of groups", meaning="features in a group",
        parts=lambda h: (h.n_grouped, h.n_groups),
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}share_grouped", title="in groups", direction="neutral", range=UNIT, interval="normal",
        formula="sum over samples of players in groups / sum of players", meaning="features that are in a group",
        parts=lambda h: (h.n_grouped, h.n_players),
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}share_undecided", title="undecided", direction="lower", range=UNIT, interval="normal",
        formula="sum over samples of undecided edges / sum of ordered pairs",
        meaning="ordered pairs that the estimate is too noisy to decide; they count as not redundant",
        parts=lambda h: (h.n_undecided, h.n_pairs),
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}mask_sinks_accuracy", title="without sinks", direction="higher", range=UNIT,
        formula="share of samples with the same decision when the sinks of H are removed", interval="wilson",
        tasks=CLASSIFICATION, meaning="same prediction without the sinks, which others make redundant",
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}mask_sinks_share_masked", title="sinks", direction="neutral", range=UNIT, interval="normal",
        formula="sum over samples of sinks / sum of players", meaning="features removed with the sinks",
        parts=lambda h: (h.n_sinks, h.n_players),
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}keep_only_sources_accuracy", title="sources only", direction="higher", range=UNIT,
        formula="share of samples with the same decision when only the sources of H stay", interval="wilson",
        tasks=CLASSIFICATION, meaning="same prediction with the sources only, which make others redundant",
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}keep_only_sources_share_masked", title="all but sources", direction="neutral", range=UNIT,
        formula="sum over samples with sources of (players - sources) / sum of players", interval="normal",
        meaning="features removed when only the sources stay",
        parts=lambda h: ((h.n_players - h.n_sources) * bool(h.n_sources), h.n_players),
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}mask_sources_accuracy", title="without sources", direction="lower", range=UNIT,
        formula="share of samples with the same decision when the sources of H are removed", interval="wilson",
        tasks=CLASSIFICATION, meaning="same prediction without the sources: a control, it should be low",
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}mask_sources_share_masked", title="sources", direction="neutral", range=UNIT,
        formula="sum over samples of sources / sum of players", interval="normal",
        meaning="features removed with the sources", parts=lambda h: (h.n_sources, h.n_players),
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}keep_only_sinks_accuracy", title="sinks only", direction="lower", range=UNIT,
        formula="share of samples with the same decision when only the sinks of H stay", interval="wilson",
        tasks=CLASSIFICATION, meaning="same prediction with the sinks only: a control, it should be low",
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}keep_only_sinks_share_masked", title="all but sinks", direction="neutral", range=UNIT,
        formula="sum over samples with sinks of (players - sinks) / sum of players", interval="normal",
        meaning="features removed when only the sinks stay",
        parts=lambda h: ((h.n_players - h.n_sinks) * bool(h.n_sinks), h.n_players),
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}share_without_direction", title="without direction", direction="neutral", range=UNIT,
        formula="share of samples whose H has neither sources nor sinks", interval="wilson",
        meaning="samples with neither sources nor sinks, which count as right in the four accuracies of sources and "
        "sinks", parts=lambda h: (not h.n_sources + h.n_sinks, 1),
        is_charted=False,
    ),
    Number(
        tag=f"{REDUNDANCY}random_removal_accuracy", title="random removal", direction="neutral", range=UNIT,
        formula="share of samples and draws with the same decision when as many players are removed at random as for "
        "accuracy_with_representatives", interval="normal", tasks=CLASSIFICATION,
        meaning="control of accuracy_with_representatives: same prediction when as many features go at random",
    ),
    Number(
        tag=f"{REDUNDANCY}empty_accuracy", title="nothing left", direction="neutral", range=UNIT,
        formula="share of samples with the same decision when all players are removed", interval="wilson",
        tasks=CLASSIFICATION,
        meaning="control of all accuracies after removal: same prediction without any feature",
        is_charted=False,
    ),
    *(
        Number(
            tag=f"{REDUNDANCY}{masking}_random_accuracy", title=f"{title}, at random", direction="neutral", range=UNIT,
            formula="share of samples and draws with the same decision when as many players are removed at random as "
            f"for {masking}_accuracy", interval="normal", tasks=CLASSIFICATION,
            meaning=f"control of {masking}_accuracy: same prediction when as many features go at random",
            is_charted=False,
        )
        for masking, title in (
            ("mask_sinks", "without sinks"), ("keep_only_sources", "sources only"),
            ("mask_sources", "without sources"), ("keep_only_sinks", "sinks only"),
        )
    ),
    Number(
        tag="bivshap/estimate/standard_error", title="standard error", direction="lower", range=COUNT, interval="none",
        formula="mean over samples and edges of the standard error of G's weights",
        meaning="standard error of the graphs' weights; 0 when they are exact",
    ),
    Number(
        tag="bivshap/change/importance", title="change", direction="neutral", range=COUNT, interval="normal",
        formula="mean over samples of sum |phi - phi'| / sum |phi|, phi' of the audit before; samples whose explained "
        "class or players changed are left out",
        meaning="how much Shapley values changed since the audit before, as a share of them",
    ),
    Number(
        tag="bivshap/change/standard_error", title="error of the change", direction="lower", range=COUNT,
        formula="mean over samples of sum of the standard errors of phi - phi' / sum |phi|", interval="none",
        meaning="how large bivshap/change/importance may be by the estimate's noise alone; 0 when values are exact",
    ),
    Number(
        tag="class_graph/density", title="density", direction="neutral", range=UNIT, interval="undecided edges",
        formula="redundant edges / ordered pairs of the class's mean graph", scope="class graph", of_graph=_density,
        meaning="ordered pairs of features in the mean graph of a class where the first makes the second redundant",
    ),
    Number(
        tag="class_graph/n_independent", title="independent features", direction="neutral", range=COUNT,
        formula="players - (players in groups - groups) of the class's mean graph", interval="undecided edges",
        scope="class graph", of_graph=_n_independent,
        meaning="features left in the mean graph of a class when each group counts once",
    ),
    Number(
        tag="class_graph/share_removable", title="removable", direction="neutral", range=UNIT, scope="class graph",
        formula="(players in groups - groups) / players of the class's mean graph", interval="undecided edges",
        meaning="features that can go from the mean graph of a class while one of each group stays",
        of_graph=_share_removable,
    ),
    Number(
        tag="class_graph/n_undecided", title="undecided pairs", direction="lower", range=COUNT, interval="none",
        formula="undecided edges of the class's mean graph", scope="class graph",
        meaning="ordered pairs that the noise leaves undecided in the mean graph of a class",
        of_graph=lambda h: Interval(h.n_undecided, h.n_undecided, h.n_undecided),
    ),
    Number(
        tag="drift/weights", title="weights", direction="lower", range=UNIT, interval="upper", scope="drift",
        formula="sum |W - W'| / (sum |W| + sum |W'|) of the mean graphs of a class, now and before",
        meaning="how far the weights of a class graph moved since the previous record, as a share of them",
    ),
    Number(
        tag="drift/redundancy", title="redundancy", direction="lower", range=UNIT, interval="undecided edges",
        formula="1 - |H and H'| / |H or H'| of the redundant edges of a class, now and before", scope="drift",
        meaning="redundant pairs of a class graph that came or went since the previous record",
    ),
    Number(
        tag="drift/ranking", title="ranking", direction="lower", range=(0.0, 2.0), interval="upper", scope="drift",
        formula="1 - Spearman's rank correlation of mean |phi| in the mean graphs of a class, now and before",
        meaning="how far the ranking of a class by importance moved since the previous record",
    ),
    Number(
        tag="bivshap/cost/seconds", title="seconds", direction="lower", range=COUNT, interval="none", scope="run",
        formula="wall-clock seconds of the audit", meaning="how long the audit took",
    ),
    Number(
        tag="bivshap/cost/forwards", title="model rows", direction="lower", range=COUNT, interval="none", scope="run",
        formula="rows passed through the model, over all processes", meaning="how many rows the model evaluated",
        is_charted=False,
    ),
    Number(
        tag="bivshap/cost/epochs", title="cost in epochs", direction="lower", range=COUNT, interval="none",
        formula="seconds of the audit / seconds of the epoch without it", scope="run",
        meaning="how many epochs the audit took as long as",
    ),
    Number(
        tag="bivshap/failed", title="failed", direction="lower", range=UNIT, interval="none", scope="run",
        formula="1 if the last audit failed, else 0", meaning="whether the last audit failed",
    ),
    Number(
        tag="bivshap/gate/passed", title="gate passed", direction="higher", range=UNIT, interval="none", scope="run",
        formula="1 if the last verdict of RedundancyGate is a pass, else 0", meaning="whether the gate passed",
    ),
]  # fmt: skip
"""In the order in which tables show them."""
