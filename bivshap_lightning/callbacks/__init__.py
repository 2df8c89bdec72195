"""Lightning callbacks: the only room that imports Lightning."""

from bivshap_lightning.callbacks.bivshap import BivShapCallback

__all__ = ["BivShapCallback"]
