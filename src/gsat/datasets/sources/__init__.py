"""The data sets of this package, one file per family; see :mod:`gsat.datasets.source`.

Helpers: ``_motifs`` (generated sets), ``_molecules`` (molecules with known atoms), ``superpixels``
(MNIST-75sp) and ``word_vectors`` (Graph-SST2).
"""
