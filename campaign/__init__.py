"""An attack that can be repeated: faults, hostile files, fuzzing (``make campaign``)."""
