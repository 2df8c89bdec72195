"""The experiments of the paper on real data, and the page that puts its figures beside ours.

    python -m examples.paper --data DIR                 # all data sets, then docs/paper.md
    python -m examples.paper.drug --data DIR            # one of: drug divorce census mnist cifar10 imdb genes golub
    python -m examples.paper.page                       # only the page, from the results of earlier runs

The paper is Masoomi et al., "Explanations of Black-Box Models based on Directional Feature Interactions", ICLR 2022.
`--quick` runs every step on a few samples, `--full` takes as many samples as the paper. A run that was stopped
continues where it was. The data are not part of this repository: without them every script says where to get them.
"""
