"""Catalogue entries of numbers that are read off audit records: top share, drift between records, and single features.

They are computed in :mod:`bivshap_lightning.gate`, by name of a rule, and are not logged. No torch.
"""

from bivshap_lightning.metrics.number import CLASSIFICATION, COUNT, UNIT, Number

RECORD_NUMBERS: list[Number] = [
    Number(
        tag="top1_share", title="top share", direction="lower", range=UNIT, interval="jackknife", scope="record",
        formula="max_i s[i], s[i] = sum over samples of |phi[i]| / sum over samples and features of |phi|",
        meaning="share of the most important feature in the mean absolute Shapley values",
    ),
    Number(
        tag="top1_lead", title="lead of the top", direction="lower", range=UNIT, interval="jackknife", scope="record",
        formula="s[1] / (s[1] + s[2]) of the two largest shares s of mean |phi|; 0.75 is three times the second",
        meaning="share of the most important feature in the importance of the first two, whatever the number of others",
    ),
    Number(
        tag="top1_alone", title="alone", direction="lower", range=UNIT, interval="jackknife", scope="record",
        formula="max_i of the samples whose sufficient set is {i} / samples whose sufficient set is not empty; 0 "
        "without any", tasks=CLASSIFICATION,
        meaning="of the decisions that need any feature, those for which one and the same feature suffices",
    ),
    Number(
        tag="drift/shares", title="shares", direction="lower", range=UNIT, interval="none", scope="record drift",
        formula="sqrt(sum_i (sqrt(s[i]) - sqrt(s'[i]))^2 / 2), Hellinger distance of the shares s of mean |phi|",
        meaning="how far importance moved between features since the reference or previous record",
    ),
    Number(
        tag="drift/rise", title="rise", direction="lower", range=COUNT, interval="none", scope="record drift",
        formula="max(0, max_i log((s[i] + 0.01) / (s'[i] + 0.01))) of the shares s of mean |phi|",
        meaning="largest growth of one feature's share since the reference or previous record, as a logarithm",
    ),
    Number(
        tag="drift/samples", title="samples", direction="lower", range=(0.0, 2.0), interval="none",
        scope="record drift", formula="1 - cos(phi, phi') over all shared samples and players",
        meaning="how far the Shapley values of the shared samples turned since the reference or previous record",
    ),
    Number(
        tag="drift/roles", title="roles", direction="lower", range=UNIT, interval="none", scope="record drift",
        formula="share of shared samples and players with another role, at three times the default gamma; against a "
        "reference, mean over its records",
        meaning="players of shared samples with another role than in the reference or previous record",
    ),
    Number(
        tag="drift/ndcg", title="NDCG", direction="higher", range=UNIT, interval="none", scope="record drift",
        formula="sum_i s'[i] / log2(1 + place of i by s), divided by its largest possible value",
        meaning="agreement of the ranking by mean |phi| with the reference or previous record; 1 is the same",
    ),
    Number(
        tag="feature/share", title="share", direction="neutral", range=UNIT, interval="jackknife", scope="feature",
        formula="sum over samples of |phi[i]| / sum over samples and features of |phi|",
        meaning="share of one feature in the mean absolute Shapley values",
    ),
    Number(
        tag="feature/place", title="place", direction="neutral", range=(1.0, COUNT[1]), interval="none",
        scope="feature", formula="1 + number of features with a larger feature/share",
        meaning="place of one feature by its share, 1 for the largest",
    ),
    *(
        Number(
            tag=f"feature/{role}", title=role, direction="neutral", range=UNIT, interval="wilson", scope="feature",
            formula=f"share of the samples with the feature in which its role is {role}, at the default gamma",
            meaning=f"samples in which one feature is {role}",
        )
        for role in ("irrelevant", "interchangeable", "redundant", "essential", "undecided")
    ),
    Number(
        tag="feature/makes_redundant", title="makes redundant", direction="neutral", range=UNIT, interval="wilson",
        scope="feature", meaning="samples in which one feature makes another relevant feature redundant",
        formula="share of the samples with the feature in which some relevant feature is redundant given it",
    ),
    Number(
        tag="feature/stand_in", title="strongest stand-in", direction="neutral", range=COUNT, interval="none",
        scope="feature", formula="max(0, max_j of the mean of -2 C[i, j] / phi[i] over samples, weighted by |phi[i]|)",
        meaning="largest share of one feature's importance that another feature takes over (a proxy)",
    ),
]  # fmt: skip
"""In the order in which tables show them."""
