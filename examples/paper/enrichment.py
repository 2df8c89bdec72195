"""Which gene sets the important genes belong to: preranked GSEA, and the hypergeometric test beside it."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import false_discovery_control, hypergeom

GeneSets = Mapping[str, frozenset[str]]


def read_gene_sets(path: Path) -> dict[str, frozenset[str]]:
    """Gene sets of a GMT file: lines of name, description and genes, separated by tabs."""
    lines = [line.split("\t") for line in path.read_text().splitlines() if line.strip()]
    short = [k + 1 for k, line in enumerate(lines) if len(line) < 3]
    if short:
        raise ValueError(
            f"`--gene-sets` must be a GMT file, name, description and genes separated by tabs, got {path}, whose line "
            f"{short[0]} has no genes."
        )
    return {name: frozenset(filter(None, genes)) for name, _, *genes in lines}


def read_annotation(path: Path) -> dict[str, str]:
    """Gene symbols of probes, from a file with two columns separated by tabs."""
    with path.open(newline="") as file:
        return {row[0]: row[1] for row in csv.reader(file, delimiter="\t") if len(row) > 1 and row[1]}


def by_symbol(scores: Mapping[str, float], annotation: Mapping[str, str]) -> dict[str, float]:
    """The largest score of the probes of each gene; probes without a symbol keep their own name."""
    found: dict[str, float] = {}
    for probe, score in scores.items():
        gene = annotation.get(probe, probe)
        found[gene] = max(score, found.get(gene, -np.inf))
    return found


def over_representation(chosen: Collection[str], background: Collection[str], sets: GeneSets) -> list[dict[str, Any]]:
    """Gene sets that hold more of the chosen genes than chance explains.

    Args:
        chosen: genes, all of them in the background.
        background: all genes that could have been chosen.
        sets: gene sets; what lies outside the background does not count.

    Returns:
        For each set with a gene of the background, by falling significance: its name, its size in the background, the
        number of chosen genes in it, the p-value of the hypergeometric test, and q after Benjamini and Hochberg.
    """
    background, chosen = frozenset(background), frozenset(chosen)
    if not chosen <= background:
        raise ValueError(f"`chosen` must be part of `background`, got {len(chosen - background)} genes outside it.")
    rows = []
    for name, genes in sets.items():
        inside = genes & background
        if inside:
            hits = len(inside & chosen)
            p = float(hypergeom.sf(hits - 1, len(background), len(inside), len(chosen)))
            rows.append({"name": name, "size": len(inside), "hits": hits, "p": min(p, 1.0)})
    adjusted = false_discovery_control([row["p"] for row in rows], method="bh") if rows else []
    found = [{**row, "q": float(q)} for row, q in zip(rows, adjusted, strict=True)]
    return sorted(found, key=lambda row: (row["p"], row["name"]))


def preranked(
    scores: Mapping[str, float], sets: GeneSets, *, n_permutations: int = 1000, smallest: int = 5, seed: int = 0
) -> list[dict[str, Any]]:
    """Gene set enrichment analysis of a ranking, by gseapy: the paper's analysis.

    Args:
        scores: of the genes, high = important.
        sets: gene sets.
        n_permutations: of the genes; the paper has 1,000.
        smallest: genes of a set that must be ranked.
        seed: of the permutations.

    Returns:
        For each set, by falling significance: its name, size, enrichment scores, p-value and q-value.
    """
    try:
        import gseapy
        import pandas as pd
    except ImportError as error:
        raise ImportError("Preranked GSEA needs gseapy. Install it: pip install gseapy.") from error
    ranking = pd.Series(dict(scores)).sort_values(ascending=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The inplace keyword", DeprecationWarning)  # pandas, of gseapy's own code
        found = gseapy.prerank(
            rnk=ranking, gene_sets={name: sorted(genes) for name, genes in sets.items()}, min_size=smallest,
            max_size=len(ranking), permutation_num=n_permutations, seed=seed, threads=1, outdir=None, no_plot=True,
        ).res2d  # fmt: skip
    rows = [
        {
            "name": str(row["Term"]), "size": len(sets[str(row["Term"])] & set(scores)), "score": float(row["ES"]),
            "normalised": float(row["NES"]), "p": float(row["NOM p-val"]), "q": float(row["FDR q-val"]),
        }
        for _, row in found.iterrows()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (row["q"], -row["normalised"], row["name"]))
