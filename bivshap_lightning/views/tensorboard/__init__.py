"""Panels for TensorBoard: figures, tables and histograms of classes and samples."""
