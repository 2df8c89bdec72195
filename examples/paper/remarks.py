"""What the page says in words: its introduction, why cells differ, slips of the paper, and what we do beyond it."""

from __future__ import annotations

INTRODUCTION = """# The paper on real data

This page is made by a command, from results that are made by commands; no figure is typed in.

    python -m examples.paper --data DIR      # everything: train, explain, measure, write this page
    python -m examples.paper.page            # only this page, from examples/paper/results

It repeats the experiments of Masoomi et al., "Explanations of Black-Box Models based on Directional Feature
Interactions" (ICLR 2022). `Ours-SS` and `Ours-K` are the paper's two algorithms as printed there, `present default`
is what this package does if it is not told otherwise; the rivals are Captum's and our own implementations of the
paper's. All methods but `Ours-SS` may use as many model rows as `Ours-K`, 2 (2F + 2048) for F features, so that no
row of a table wins by its budget; `random` ranks by chance.

**How to read a cell.** `ours ± standard error / the paper's`. ✓: they differ by no more than the paper's rounding and
two standard errors of the difference, taking the paper's error to be as large as ours (shares masked, which have no
error bar: by no more than two points). A footnote: they differ, and why. {AGREE} compared cells agree ({BY_STUDY}).
Only the same data are compared (Drug, Divorce, Census, MNIST); for the others the paper's figure stands beside ours for
orientation. **Few samples make wide bars, and a ✓ within them says little**: the column `samples` counts
them, and an error bar of 0.0 only says that all samples of that row came out alike. Where fewer than 1,000 orders per
feature were drawn (last table), `Ours-SS` is the paper's algorithm but not its budget. {MISSING}

**Where to look first.** What this package adds, with error bars:
[Beyond the paper](#beyond-the-paper-on-the-same-data). What is wrong in the paper and in its code, with the evidence:
[Slips](#slips-of-the-paper-and-of-its-code). Rows of other methods and most pictures are folded.
"""

_EXACT_INDEX = (
    "Ours are the exact indices. The paper estimates them (Sh-Exc and Sh-Int by KernelSHAP on changed games, Sh-Tay "
    "from 200 orders per pair), and ranks with an unstable sort where ours breaks ties by Shapley value; which of the "
    "two makes the difference was not separated."
)
_NOISY_INDEX = (
    "The paper's figures are those of a ranking by chance (compare `random`): with 54 features its estimates of this "
    "index are mostly noise. Ours come from a regression with as many rows as all other methods, and rank better."
)
_COUPLES = (
    "The share follows the test couples: an answer of 3 equals its replacement. Such answers are 15.6 to 23.5 % of the "
    "test set in 95 % of 2,000 random splits, 16.0 % in this one; the authors' split is not published."
)
_EMPTIED = (
    "Above 0.5 the value of the emptied input does not vanish: 411 of the 500 samples keep their class with nothing "
    "present. If the point at which everything is deleted is counted too, the sum is 0.322 instead of 0.288 (that of "
    "insertion stays 0.441). Whether the authors counted it is not known."
)
_SELECTOR = (
    "L2X is a trained network. The paper states neither the number of selected features nor the training; here it is "
    "trained to keep half of them, 1,000 steps for tables and 320 for images and texts, and the same order is used at "
    "every share."
)
_CHANCE = (
    "Both rank by chance. GNNExplainer masks edges that a network without a graph does not look at: in the paper its "
    "insertion equals its deletion in six of seven columns, and ours equal those of `random` within the error bars. "
    "What chance gives depends on the order in which ties are left: by position, Divorce has 0.24 and 0.11."
)
_FULL_KERNEL = (
    "The paper's kSHAP lies below its own Sh-Sam, which estimates the same values, so its regression was probably "
    "noisy. Ours has as many rows as all other methods, and with few features sees nearly all coalitions."
)
REASONS: dict[tuple[str, str], str] = {
    **{
        (study, f"{topic} {method}"): _EXACT_INDEX
        for study in ("drug", "census")
        for topic in ("post-hoc", "insertion", "deletion")
        for method in ("shapley_interaction", "shapley_taylor", "shapley_excess")
    },
    **{
        ("divorce", f"{topic} {method}"): _NOISY_INDEX
        for topic in ("post-hoc", "insertion", "deletion")
        for method in ("shapley_interaction", "shapley_excess")
    },
    **{("divorce", f"share {method}"): _COUPLES for method in ("paper_sampling", "paper_kernel")},
    **{("census", f"deletion {method}"): _EMPTIED for method in ("paper_sampling", "paper_kernel", "shapley_sampling")},
    **{("", f"{topic} l2x"): _SELECTOR for topic in ("post-hoc", "insertion", "deletion")},
    **{("divorce", f"{topic} gnn_explainer"): _CHANCE for topic in ("post-hoc", "insertion", "deletion")},
    **{("", f"{topic} kernel_shap"): _FULL_KERNEL for topic in ("post-hoc", "insertion", "deletion")},
    ("mnist", "accuracy"): "Trained for one epoch instead of twenty.",
    ("mnist", "share paper_kernel"): (
        "Three quarters of the features are black, equal to their replacement. Here such features are taken out before "
        "the regression, so that their zeros are exact; the paper's regression misses them at γ = 1e-5."
    ),
    ("census", "share paper_kernel"): (
        "With 12 features 2 (2F + 2048) rows hold all 4,096 coalitions, so K is exact here and finds the sinks of S. "
        "The paper's K differs from its own S (23.8); why is not known."
    ),
}
"""By study (or "" for all) and topic."""

SLIPS: tuple[tuple[str, str, str], ...] = (
    (
        "Theorem 1",
        "the factor d!/2 should be 1/2",
        "the weights of E2[i, j] sum to 1/2, so abs(E2[i, j]) ≤ ε/2 is the bound; with d!/2 it is true but "
        "empty (d = 12: 479 million times too wide)",
    ),
    (
        'Algorithm "Directional Redundancy"',
        "source and sink are swapped",
        "it takes the source as the largest PageRank; the text above it, and the code, take the smallest. "
        'Mass flows along "makes redundant", so the redundant sink has the largest',
    ),
    (
        "PageRank appendix",
        "damping is the wrong way round",
        "it jumps with probability α and defaults to α = 0.85; scikit-network, which the code calls, follows "
        "an arrow with probability 0.85",
    ),
    (
        "definition of G and Algorithm 1",
        "W(i, j) = E2[j, i] in the text; the algorithm returns E2 itself as G",
        "orientation decides what a source is; the hand-worked game max(2a, b) tells the two apart",
    ),
    (
        "kernel code",
        "the column of a null feature is filled with φ/2",
        "off by 0.18 on a random game of 7 players; the right column is the potential R",
    ),
    (
        "kernel variant at γ = 1e-5",
        "zeros of a regression are not zeros",
        "it reports 5e-4 to 8e-4 for null features, so nearly all edges of H are missed: MNIST 13.6 % of the "
        "features are sinks for K, 77.7 % for S",
    ),
    (
        '"± standard deviation" in the table of variances',
        "these are standard errors of the mean",
        "Divorce 98.5 ± 1.5: the error of 67 of 68 is 1.46, the deviation 12.0; Census 96.8 ± 0.8: the error "
        "of 500 samples is 0.79",
    ),
    (
        "directional tables",
        '"source masked" is "everything but the sinks masked"',
        "the two shares add to 100 in all 14 rows, and Drug's 48.5 % at 56.5 % is reproduced only so",
    ),
    (
        "code of the directional tables",
        'without sinks, "mask sinks" masks nothing and its complement everything',
        "Drug: 19 % of the samples have none; masking nothing in both gives 55.1 % at 37.4 %",
    ),
    (
        "mutual masking",
        "the text ends with one member left of each group, the code with none",
        "`int(keep * size)` is 0 at the lowest level",
    ),
    (
        "AUC",
        "two conventions, above 0.5 and above the value of the empty input",
        "no single one fits all columns of the table, see (c)",
    ),
    (
        "ranking",
        "personalised PageRank is the univariate ranking",
        "softplus makes the matrix nearly constant: Ours-SS equals Sh-Sam in all 14 cells of the AUC table",
    ),
    (
        "PageRank as sink finder",
        "the largest score may be no sink",
        "46 of 254 random graphs of 100 nodes; the code also mislabels nodes of larger graphs (27 of 252 at 54 nodes)",
    ),
    (
        "Drug, features",
        "the text names cocaine and ecstasy, the code uses methadone and heroin",
        "with the code's features the accuracy is 85.2 %, with the text's 84.5 (paper 85.3)",
    ),
    (
        "Drug, time",
        "Sh-Tay takes 10.1 s in one table and 181 s in the other",
        "the two time tables of the paper",
    ),
    (
        "Divorce, baseline",
        "3 is called the neutral answer on a scale from 1 to 5",
        "the data run from 0 to 4, whose middle is 2",
    ),
    (
        "Census, training",
        "the test rows stop the training early",
        "`early_stopping_rounds=20` on the test set in the code",
    ),
    (
        "COPD, network",
        "the text has batch normalisation and 1,077 genes",
        "the code comments the normalisation out and has 1,079 inputs; the text itself ranks 1,079 genes",
    ),
)
"""Where, what, and the evidence; "code" is the authors' published repository."""

BEYOND = """In our default convention of the AUC. The default stops early where it is accurate enough: `rows` says how
many it spent, and where that is less than those of the paper's algorithm (d), or where `samples` differ from its own,
the last column of each three is not at equal evaluations or not on the same samples. `keep` and `remove` are the two
rankings that use redundancy: greedy on the quadratic game with the same Shapley values and E2, of the log-odds (clipped
at 0.001). They stand beside the Shapley order of the same explanation, and beside the paper's personalised PageRank on
its kernel algorithm, which spends as many rows. Keeping and removing conflict under redundancy, so each is asked only
of the number that it is meant for. A difference within two error bars is none. Of the commits named at the end,
`4929054` ranks without the look-ahead and with a less accurate proxy than those after it.

The second table: roles of features at the default threshold (1 % of what there is to explain, or 15 % / F), the share
of the squares of E2 that the potential R alone explains (structure theorem: E2[i, j] = R[i] + C[i, j], C symmetric),
and the share of the edges of H at γ = 1e-5 that lead to a feature whose own Shapley value is zero: where it is near
100 %, H lists features that play no part, and hardly any that stand in for one another."""
