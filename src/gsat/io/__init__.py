"""Files on disk: atomic writes, locks, hashes, cache folders."""
