"""What the numbers of an audit mean, in words."""

from __future__ import annotations

from collections.abc import Sequence

UP, DOWN, NEITHER = "higher is better", "lower is better", ""

REDUNDANCY: dict[str, tuple[str, str]] = {
    "accuracy_with_representatives": ("same prediction when each group keeps one member and the others go", UP),
    "share_removable": ("features that can go while one of each group stays", NEITHER),
    "density": ("ordered pairs of features where the first makes the second redundant", NEITHER),
    "n_independent": ("features left when each group counts once", NEITHER),
    "groups_per_sample": ("groups of interchangeable features in a sample", NEITHER),
    "group_size": ("features in a group", NEITHER),
    "share_grouped": ("features that are in a group", NEITHER),
    "share_undecided": ("ordered pairs that the estimate is too noisy to decide; they count as not redundant", DOWN),
    "mask_sinks_accuracy": ("same prediction without the sinks, which others make redundant", UP),
    "mask_sinks_share_masked": ("features that go with that", NEITHER),
    "keep_only_sources_accuracy": ("same prediction with the sources only, which make others redundant", UP),
    "keep_only_sources_share_masked": ("features that go with that", NEITHER),
    "mask_sources_accuracy": ("same prediction without the sources: a control, it should suffer", DOWN),
    "mask_sources_share_masked": ("features that go with that", NEITHER),
    "keep_only_sinks_accuracy": ("same prediction with the sinks only: a control, it should suffer", DOWN),
    "keep_only_sinks_share_masked": ("features that go with that", NEITHER),
    "share_without_direction": (
        "samples with neither sources nor sinks, which count as right in the four above",
        NEITHER,
    ),
}
CLASS_GRAPHS: dict[str, tuple[str, str]] = {
    "density": (
        "ordered pairs of features in the mean graph of a class where the first makes the second redundant",
        NEITHER,
    ),
    "n_independent": ("features left in the mean graph of a class when each group counts once", NEITHER),
    "share_removable": ("features that can go from the mean graph of a class while one of each group stays", NEITHER),
    "n_undecided": ("pairs that the noise leaves open in the mean graph of a class", DOWN),
    "drift/weights": ("how far the weights of a class graph moved since the previous record, as a share of them", DOWN),
    "drift/redundancy": ("redundant pairs of a class graph that came or went since the previous record", DOWN),
    "drift/ranking": ("how far the ranking of a class moved since the previous record", DOWN),
}
FAMILIES: dict[str, tuple[str, str]] = {
    "posthoc_accuracy": ("same prediction as features go, least important first; mean over the curve", UP),
    "insertion_auc": ("explained output as features come in, most important first; area under the curve", UP),
    "deletion_auc": ("explained output as features go, most important first; area under the curve", DOWN),
    "estimate": ("standard error of the graphs' weights", DOWN),
}


def meaning(metric: str) -> tuple[str, str]:
    """What a metric is and which direction is better; empty for one that is not known here.

    Example:
        >>> meaning("bivshap/deletion_auc/ours")[1]
        'lower is better'
        >>> meaning("mine")
        ('', '')
    """
    if metric in CLASS_GRAPHS:
        return CLASS_GRAPHS[metric]
    family, _, name = metric.removeprefix("bivshap/").partition("/")
    return REDUNDANCY.get(name, ("", "")) if family == "redundancy" else FAMILIES.get(family, ("", ""))


def listing(names: Sequence[str], most: int = 12) -> str:
    """Names in a sentence, the first ones if there are many.

    Example:
        >>> listing(["a", "b", "c"]), listing(["a", "b", "c"], most=1), listing([])
        ('a, b and c', 'a and 2 more', 'none')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:]))) or "none"


def count(n: int, noun: str) -> str:
    """A number of things.

    Example:
        >>> count(1, "sample"), count(2, "class")
        ('1 sample', '2 classes')
    """
    return f"{n:,} {noun}" + ("" if n == 1 else "es" if noun.endswith("s") else "s")


def percent(share: float) -> str:
    """A share for readers.

    Example:
        >>> percent(0.1428), percent(1.0), percent(0.0001)
        ('14.3 %', '100 %', '0.01 %')
    """
    return f"{100 * share:.{1 if abs(share) >= 0.001 or not share else 2}f}".removesuffix(".0") + " %"
