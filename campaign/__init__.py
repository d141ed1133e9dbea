"""An attack on the package that can be repeated: faults, hostile files, fuzzing. ``make campaign``."""
