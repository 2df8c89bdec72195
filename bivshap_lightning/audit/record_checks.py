"""Verifies that the fields of an audit record are possible and agree with each other. Types are verified before."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bivshap_lightning.audit.errors import RecordError
from bivshap_lightning.audit.record_columns import columns_that_can_go
from bivshap_lightning.audit.record_parts import FIXED_GAMMA
from bivshap_lightning.graph import ROLES, relative_gamma
from bivshap_lightning.metrics.catalogue import estimate_over, find_number
from bivshap_lightning.text import shown

if TYPE_CHECKING:
    from bivshap_lightning.audit.record import AuditRecord
    from bivshap_lightning.audit.record_columns import ColumnReport
    from bivshap_lightning.audit.record_decisions import SufficientSummary
    from bivshap_lightning.audit.record_parts import Curve, Estimate, GraphSummary, SampleSummary

TOLERANCE = 1e-6


def demand(
    holds: bool, record: AuditRecord, place: str, rule: str, got: object, *, key: str | None = None, field: str = ""
) -> None:
    """Raise unless a condition holds.

    Args:
        holds: the condition.
        record: that is verified.
        place: which of its fields.
        rule: what must hold, after "must".
        got: what was found instead.
        key: of an entry of the place, if the place is a mapping.
        field: of that entry.

    Raises:
        RecordError: it does not hold.
    """
    if not holds:
        where = place if key is None else f"{place}[{shown(key)}]{field}"
        raise RecordError(
            f"{record.source}: {where} must {rule}, got {shown(got)}. Audit again or pass another record."
        )


def _repeated(values: Iterable[Hashable]) -> list[Hashable]:
    return [value for value, n in Counter(values).items() if n > 1]


def verify_fields(record: AuditRecord) -> None:
    """Verify everything but the arrays.

    Args:
        record: the record.

    Raises:
        RecordError: naming the field, the rule and what was found.
    """
    demand(bool(record.samples), record, "samples", "hold at least one sample", [])
    repeated = _repeated(s.index for s in record.samples)
    demand(not repeated, record, "samples", "be different, with one index each", repeated)
    keys, largest = record.run.sample_keys, max(sample.index for sample in record.samples)
    demand(len(set(keys)) == len(keys), record, "run.sample_keys", "be different", _repeated(keys))
    rule = f"be empty or name all samples, up to index {largest}"
    demand(not keys or len(keys) > largest, record, "run.sample_keys", rule, f"{len(keys)} keys")
    for k, sample in enumerate(record.samples):
        _verify_sample(record, sample, f"samples[{k}]")
    members: dict[str, list[SampleSummary]] = {}
    for sample in record.samples:
        members.setdefault(sample.class_name, []).append(sample)
    for name, graph in record.classes.items():
        _verify_graph(record, graph, f"classes[{shown(name)}]")
        demand(name in members, record, "classes", "be classes of samples", name)
    _verify_gammas(record)
    _verify_metrics(record, record.metrics, record.samples, "metrics")
    for name, found in record.class_metrics.items():
        place = f"class_metrics[{shown(name)}]"
        demand(name in members, record, "class_metrics", "be of classes of samples", name)
        n_samples = len(members[name])
        demand(found.n_samples == n_samples, record, f"{place}.n_samples", f"be {n_samples}", found.n_samples)
        _verify_metrics(record, found.metrics, members[name], f"{place}.metrics")
    if record.columns is not None:
        _verify_columns(record, record.columns)
    for tag, found_change in ({} if record.change is None else record.change.metrics).items():
        error = found_change.standard_error
        demand(error >= 0, record, "change.metrics", "be 0 or more", error, key=tag, field=".standard_error")
    for k, point in enumerate(record.sweep):
        shares = [*point.roles.values(), point.density, point.share_removable, point.accuracy_with_representatives]
        inside = point.gamma >= 0 and all(-TOLERANCE <= share <= 1 + TOLERANCE for share in shares)
        demand(inside, record, f"sweep[{k}]", "hold shares from 0 to 1 at a gamma of 0 or more", point.gamma)
    for name, curve in record.curves.items():
        _verify_curve(record, curve, f"curves[{shown(name)}]")
    for name, value in {"seconds": record.cost.seconds, "forwards": record.cost.forwards}.items():
        demand(value >= 0, record, f"cost.{name}", "be 0 or more", value)


def gamma_by_rule(record: AuditRecord, n_players: int) -> float:
    """The threshold that the rule of a record gives a sample: that of the sample with the most players, scaled by F.

    Args:
        record: the record.
        n_players: F of the sample.
    """
    if record.configuration.gamma_rule == FIXED_GAMMA:
        return record.configuration.gamma
    most = max(sample.n_players for sample in record.samples)
    return record.configuration.gamma * (relative_gamma(n_players, 1.0) / relative_gamma(most, 1.0))


def _verify_gammas(record: AuditRecord) -> None:
    """All samples and classes say their threshold or none does, and it is that of the rule, of a class the smallest."""
    gamma = record.configuration.gamma
    demand(gamma >= 0, record, "configuration.gamma", "be 0 or more", gamma)
    stated: dict[str, list[float]] = {}
    for k, sample in enumerate(record.samples):
        if sample.gamma is not None:
            right = gamma_by_rule(record, sample.n_players)
            close = math.isclose(sample.gamma, right, rel_tol=TOLERANCE)
            demand(close, record, f"samples[{k}].gamma", f"be that of its players, {right:.6g}", sample.gamma)
            stated.setdefault(sample.class_name, []).append(sample.gamma)
    n_stated = sum(map(len, stated.values()))
    demand(n_stated in (0, len(record.samples)), record, "samples", "all have a gamma or none", n_stated)
    for name, graph in record.classes.items():
        least = min(stated.get(name, ()), default=None)
        demand(graph.gamma == least, record, f"classes[{shown(name)}].gamma", f"be {least}", graph.gamma)


def _verify_sample(record: AuditRecord, sample: SampleSummary, place: str) -> None:
    demand(sample.index >= 0, record, f"{place}.index", "be 0 or more", sample.index)
    _verify_graph(record, sample, place)
    relevant = set(sample.players) - set(sample.players_of_role("irrelevant"))
    outside = {
        name for pair in (*sample.substitutes, *sample.partners) for name in (pair.player, pair.given)
    } - relevant
    demand(not outside, record, f"{place}.substitutes", "consist of relevant players", sorted(outside))
    same = sample.words is None or len(sample.words) == sample.n_players
    demand(same, record, f"{place}.words", "hold one word per player", sample.words)
    for tag, score in sample.scores.items():
        _verify_range(record, tag, score, f"{place}.scores")
    if sample.sufficient is not None:
        _verify_sufficient(record, sample, sample.sufficient, f"{place}.sufficient")
    if sample.change is not None:
        sizes = (len(sample.change.shapley), len(sample.change.standard_error))
        demand(set(sizes) == {sample.n_players}, record, f"{place}.change", "hold a number per player", sizes)
        sound = all(error >= 0 for error in sample.change.standard_error)
        demand(sound, record, f"{place}.change.standard_error", "be 0 or more", sample.change.standard_error)


def _verify_sufficient(record: AuditRecord, sample: SampleSummary, found: SufficientSummary, place: str) -> None:
    """Members are players, the stable set begins with the small one, and shares and scores are theirs."""
    stable = found.stable_members
    known = set(stable) <= set(sample.players) and len(set(stable)) == len(stable)
    demand(known, record, f"{place}.stable_members", "be different players", stable)
    begins = stable[: len(found.members)] == found.members
    demand(begins, record, f"{place}.members", "be the first of the stable members", found.members)
    for name in ("agreement", "stable_agreement"):
        share: float = getattr(found, name)
        demand(0 <= share <= 1, record, f"{place}.{name}", "lie in [0, 1]", share)
    counts = (found.n_supersets, found.n_evaluations)
    demand(min(counts) >= 0, record, f"{place}.n_supersets", "be 0 or more, and n_evaluations too", counts)
    for tag, score in found.scores.items():
        same = sample.scores.get(tag, score) == score
        demand(same, record, f"{place}.scores", f"say of {tag} what the set says, {score:g}", sample.scores.get(tag))


def _verify_columns(record: AuditRecord, report: ColumnReport) -> None:
    """Columns are the players of all samples, with their roles; costs decide which of them can go."""
    names = [column.name for column in report.columns]
    same = all(sorted(names) == sorted(sample.players) for sample in record.samples)
    demand(same, record, "columns.columns", "be the players of every sample", names)
    n = len(record.samples)
    demand(report.n_samples == n, record, "columns.n_samples", f"be {n}", report.n_samples)
    for k, column in enumerate(report.columns):
        place = f"columns.columns[{k}]"
        demand(0 <= column.share <= 1, record, f"{place}.share", "lie in [0, 1]", column.share)
        demand(column.cost_error >= 0, record, f"{place}.cost_error", "be 0 or more", column.cost_error)
        roles = record.roles_of_features[column.name] if record.samples[0].roles else column.roles
        close = roles.keys() == column.roles.keys() and all(
            abs(roles[role] - share) <= TOLERANCE for role, share in column.roles.items()
        )
        demand(close, record, f"{place}.roles", "be what the samples say", column.roles)
        others = {*column.copies, *column.interchangeable_with}
        demand(others <= set(names) - {column.name}, record, place, "name other columns", sorted(others))
        inside = all(0 <= value <= 1 for value in column.copies.values())
        demand(inside, record, f"{place}.copies", "lie in [0, 1]", column.copies)
        together = {
            other: sum(
                any({column.name, other} <= set(group) for group in sample.interchangeable) for sample in record.samples
            )
            for other in column.interchangeable_with
        }
        demand(together == column.interchangeable_with, record, f"{place}.interchangeable_with",
               "be what the samples say", column.interchangeable_with)  # fmt: skip
    right = columns_that_can_go(report.columns)
    demand(report.can_go == right, record, "columns.can_go", f"follow from the costs, {shown(right)}", report.can_go)


def _verify_range(record: AuditRecord, tag: str, value: float, place: str, field: str = "") -> None:
    number = find_number(tag)
    if number is not None and not number.contains(value, tolerance=TOLERANCE):
        low, high = number.range
        demand(False, record, place, f"lie in [{low:g}, {high:g}]", value, key=tag, field=field)


def _verify_graph(record: AuditRecord, graph: GraphSummary, place: str) -> None:
    players = set(graph.players)
    ranked = [entry.player for entry in graph.ranking]
    demand(bool(players), record, f"{place}.players", "name at least one player", [])
    demand(len(players) == graph.n_players, record, f"{place}.players", "be different names", graph.players)
    once = len(ranked) == graph.n_players and set(ranked) == players
    demand(once, record, f"{place}.ranking", "list every player once", ranked)
    for kind, names in {"sources": graph.sources, "sinks": graph.sinks}.items():
        demand(len(set(names)) == len(names), record, f"{place}.{kind}", "be different names", names)
        demand(set(names) <= players, record, f"{place}.{kind}", "be players", names)
    both = set(graph.sources) & set(graph.sinks)
    demand(not both, record, f"{place}.sources", "not be sinks too", sorted(both))
    grouped = [player for group in graph.groups for player in group]
    proper = len(set(grouped)) == len(grouped) and all(len(group) > 1 for group in graph.groups)
    demand(proper, record, f"{place}.groups", "be disjoint, of two players or more", graph.groups)
    demand(set(grouped) <= players, record, f"{place}.groups", "consist of players", graph.groups)
    _verify_roles(record, graph, place)
    demand(0 <= graph.density <= 1, record, f"{place}.density", "lie in [0, 1]", graph.density)
    n_redundant = round(graph.density * graph.n_pairs)
    n_free = graph.n_pairs - n_redundant
    countable = 0 <= graph.n_undecided <= n_free
    demand(countable, record, f"{place}.n_undecided", f"lie between 0 and {n_free}", graph.n_undecided)


def _verify_roles(record: AuditRecord, graph: GraphSummary, place: str) -> None:
    """Every player has a role or none has, and what is called interchangeable has that role."""
    known = set(graph.roles) <= set(ROLES)
    demand(known, record, f"{place}.roles", f"be among {', '.join(ROLES)}", sorted(set(graph.roles) - set(ROLES)))
    complete = len(graph.roles) in (0, graph.n_players)
    demand(complete, record, f"{place}.roles", f"be {graph.n_players}, one per player", len(graph.roles))
    grouped = [player for group in graph.interchangeable for player in group]
    proper = len(set(grouped)) == len(grouped) and all(len(group) > 1 for group in graph.interchangeable)
    demand(proper, record, f"{place}.interchangeable", "be disjoint, of two players or more", graph.interchangeable)
    named = set(grouped) <= set(graph.players_of_role("interchangeable"))
    demand(named, record, f"{place}.interchangeable", "consist of players of that role", graph.interchangeable)
    for kind, pairs in {"substitutes": graph.substitutes, "partners": graph.partners}.items():
        errors = [pair.own_error for pair in pairs]
        demand(all(error >= 0 for error in errors), record, f"{place}.{kind}", "have errors of 0 or more", errors)


def _verify_metrics(
    record: AuditRecord, metrics: Mapping[str, Estimate], samples: Sequence[SampleSummary], place: str
) -> None:
    for tag, found in metrics.items():
        _verify_range(record, tag, found.value, place, ".value")
        error = found.standard_error
        demand(error >= 0, record, place, "be 0 or more", error, key=tag, field=".standard_error")
        derived = estimate_over(tag, samples)
        if derived is not None:
            agrees = abs(derived[0] - found.value) <= TOLERANCE * max(1.0, abs(derived[0]))
            rule = f"be what the samples say, {derived[0]:.6g}"
            demand(agrees, record, place, rule, found.value, key=tag, field=".value")


def _verify_curve(record: AuditRecord, curve: Curve, place: str) -> None:
    lengths = [len(curve.masked_fraction), len(curve.accuracy), len(curve.standard_error)]
    demand(len(set(lengths)) == 1, record, place, "have as many values of each kind", lengths)
    for name in ("masked_fraction", "accuracy"):
        values: tuple[float, ...] = getattr(curve, name)
        inside = all(-TOLERANCE <= value <= 1 + TOLERANCE for value in values)
        demand(inside, record, f"{place}.{name}", "lie in [0, 1]", values)
    demand(all(e >= 0 for e in curve.standard_error), record, f"{place}.standard_error", "be 0 or more", curve)
