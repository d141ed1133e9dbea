"""Data sets: found by name or path, read or generated once, split by a seed.

:func:`gsat.load_dataset` loads one; :mod:`gsat.datasets.source` says how to add one.
"""

from gsat.datasets.fetch.raw_files import RawFile
from gsat.datasets.registry import dataset_names, describe_options, find_source, make_options
from gsat.datasets.source import DatasetOptions, DatasetSource

__all__ = [
    "DatasetOptions",
    "DatasetSource",
    "RawFile",
    "dataset_names",
    "describe_options",
    "find_source",
    "make_options",
]
