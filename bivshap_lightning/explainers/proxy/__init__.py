"""Bivariate Shapley values from a Gaussian-process proxy of the game, in closed form."""

from bivshap_lightning.explainers.proxy.estimator import GaussianProcessProxy

__all__ = ["GaussianProcessProxy"]
