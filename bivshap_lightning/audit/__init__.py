"""The audit of a set of samples, and the record that comes out of it. Knows nothing of Lightning."""
