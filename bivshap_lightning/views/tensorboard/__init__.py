"""What is written into TensorBoard: pictures, tables, native graphs, curves and histograms."""
