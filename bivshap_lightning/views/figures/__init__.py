"""Figures of graphs, groups, rankings and curves, drawn with matplotlib but without pyplot."""
