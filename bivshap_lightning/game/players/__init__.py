"""Players: groups of input elements, made by hand or from images, texts, tables and series.

A maker is a function of an input that returns its feature mask, and that may name the players. It can be passed
wherever a feature mask can: ``attribute(images, feature_mask=Grid(4))``.
"""

from bivshap_lightning.game.players.images import Grid, Superpixels
from bivshap_lightning.game.players.partition import NO_PLAYER, Players
from bivshap_lightning.game.players.resolve import automatic_mask, make_players
from bivshap_lightning.game.players.tables import Columns, Segments
from bivshap_lightning.game.players.text import Tokens

__all__ = [
    "NO_PLAYER",
    "Columns",
    "Grid",
    "Players",
    "Segments",
    "Superpixels",
    "Tokens",
    "automatic_mask",
    "make_players",
]
