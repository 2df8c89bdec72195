"""Lightning callbacks: the only room that imports Lightning."""

from bivshap_lightning.callbacks.bivshap import BivShapCallback, PanelOptions
from bivshap_lightning.callbacks.gate import RedundancyGate

__all__ = ["BivShapCallback", "PanelOptions", "RedundancyGate"]
