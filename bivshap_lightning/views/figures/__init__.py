"""Figures of importance, graphs, groups, rankings and curves, as matplotlib figures without pyplot."""
