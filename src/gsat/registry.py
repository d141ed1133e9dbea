"""Former place of :mod:`gsat.core.registry`, for plug-ins."""

from gsat.core.registry import register_backbone, register_dataset, register_method

__all__ = ["register_backbone", "register_dataset", "register_method"]
