"""The data sets: a registry that names them without importing anything heavy, and a loader."""

from gsat.datasets.entry import Entry, Option
from gsat.datasets.fetch.raw_files import RawFile
from gsat.datasets.registry import ENTRIES, find_entry

__all__ = ["ENTRIES", "Entry", "Option", "RawFile", "find_entry"]
