"""All tests of models run on one thread."""

from reference import one_thread  # noqa: F401
