"""The explorer of explanation graphs: one plain ES module that runs in TensorBoard's tab and in the HTML page.

`payload` turns a record into what the browser needs, `assets` serves the files in `static/`. Decisions that depend on
gamma (redundancy, roles, groups) are made in the browser by `static/decide.js`, with the arithmetic of
:mod:`bivshap_lightning.graph`; everything else is computed here.
"""
