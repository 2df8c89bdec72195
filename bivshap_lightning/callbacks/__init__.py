"""Lightning callbacks: the only room that imports Lightning."""

from bivshap_lightning.callbacks.bivshap import BivShapCallback
from bivshap_lightning.callbacks.gate import RedundancyGate
from bivshap_lightning.callbacks.l2x import fit_l2x
from bivshap_lightning.callbacks.output import PanelOptions

__all__ = ["BivShapCallback", "PanelOptions", "RedundancyGate", "fit_l2x"]
