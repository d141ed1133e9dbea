"""The examples in docstrings give what they show."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import gsat.studies

MODULES = [module.name for module in pkgutil.iter_modules(gsat.studies.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"gsat.studies.{name}"))
    assert found.failed == 0
