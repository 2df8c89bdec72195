"""The cooperative game: a model, its inputs, the players, their removal and the explained output as one set function.

Only :class:`Game` calls the model. The other modules prepare what it needs: ``inputs`` as tensors, ``players``,
``removal`` (what replaces an absent player), ``behavior`` (the number read off the output), ``model`` (calling a model
without side effects), ``state`` (what a model may change, put back), ``trees`` (tree ensembles as tensors) and
``masked_inputs`` (the rows of a coalition).
"""

from bivshap_lightning.game.game import Game

__all__ = ["Game"]
