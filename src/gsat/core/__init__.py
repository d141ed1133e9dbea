"""Errors, settings, registries, parsing, files and locks; independent of graphs."""
