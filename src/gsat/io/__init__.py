"""Files on disk: atomic writes, locks, checksums, the cache folder, JSON lines."""
