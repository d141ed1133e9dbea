"""The data sets of this package, one file each; see :mod:`gsat.datasets.source`.

Not data sets themselves: ``_motifs`` (what the generated sets are made of), ``superpixels`` (of
MNIST-75sp) and ``word_vectors`` (of Graph-SST2).
"""
