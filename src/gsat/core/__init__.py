"""Errors, settings, registry, parsing, files and locks: nothing about graphs."""
