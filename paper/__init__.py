"""Scripts behind this repository's own result pages and defaults: ``python -m paper``."""
