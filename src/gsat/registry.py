"""Registries: named parts that outsiders can add to without editing this package.

A part is registered by a decorator in the file that declares it. Files of this package are found
by themselves; other packages announce theirs as entry points::

    [project.entry-points."gsat.methods"]
    my-method = "my_package.my_module:MyMethod"
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import re
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from gsat.errors import DataError, GSATError, RecipeError

if TYPE_CHECKING:
    from gsat.datasets.source import DatasetSource
    from gsat.methods.base import Method
    from gsat.models.backbone import Backbone

T = TypeVar("T", bound=type)


class Registry(Generic[T]):
    """Classes by name: built-in ones, registered ones, and plug-ins of other packages.

    :meth:`names` imports nothing, so that a wrong name is refused at once: the names of built-in
    parts are read from the decorators in the package's source files.

    Args:
        kind: what is registered, for messages, such as ``method``.
        package: the package whose modules declare the built-in parts.
        decorator: the name of the decorator they are declared with.
        group: the entry-point group of plug-ins.
        error: the type of the error for an unknown name. (default: :class:`GSATError`)
    """

    def __init__(
        self,
        kind: str,
        package: str,
        decorator: str,
        group: str,
        error: type[GSATError] = GSATError,
    ) -> None:
        self.kind, self.package, self.group, self.error = kind, package, group, error
        self._declaration = re.compile(rf'^@{decorator}\(\s*"([^"]+)"', re.MULTILINE)
        self._registered: dict[str, T] = {}
        self._modules: dict[str, str] | None = None

    def register(self, name: str) -> Callable[[T], T]:
        """Make a decorator that registers a class.

        Args:
            name: as users type it.

        Returns:
            The decorator. It returns the class unchanged.

        Raises:
            GSATError: if another class has that name.
        """

        def decorate(part: T) -> T:
            known = self._registered.get(name)
            taken = known is not None and (known.__module__, known.__qualname__) != (
                part.__module__,
                part.__qualname__,
            )
            built_in = self.built_in().get(name)
            if taken or (built_in is not None and built_in != part.__module__):
                raise self.error(
                    f"there is a {self.kind} '{name}' already: choose another name for "
                    f"{part.__qualname__}"
                )
            self._registered[name] = part
            return part

        return decorate

    def names(self) -> tuple[str, ...]:
        """List all names without importing what they stand for."""
        plugged = {point.name for point in self._entry_points()}
        return tuple(sorted({*self.built_in(), *self._registered, *plugged}))

    def get(self, name: str) -> T:
        """Import and return the class of that name.

        Args:
            name: one of :meth:`names`.

        Returns:
            The class.

        Raises:
            GSATError: if there is no such name, or a plug-in can't be imported.
        """
        if name in self._registered:
            return self._registered[name]
        if module := self.built_in().get(name):
            importlib.import_module(module)
            return self._registered[name]
        for point in self._entry_points():
            if point.name == name:
                return self._load(point)
        raise self.error(self.unknown(name))

    def check(self, name: str) -> None:
        """Raise the registry's error unless the name is known; nothing is imported."""
        if name not in self.names():
            raise self.error(self.unknown(name))

    def unknown(self, name: str) -> str:
        """The message for an unknown name, with the closest known one."""
        names = self.names()
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        return f"there is no {self.kind} '{name}': {hint}available: {', '.join(names)}"

    def built_in(self) -> dict[str, str]:
        """The module of each built-in part, by name; read from the source, nothing is imported."""
        if self._modules is None:
            spec = importlib.util.find_spec(self.package)
            assert spec is not None
            assert spec.submodule_search_locations is not None
            self._modules = {
                name: f"{self.package}.{path.stem}"
                for folder in spec.submodule_search_locations
                for path in sorted(Path(folder).glob("*.py"))
                for name in self._declaration.findall(path.read_text(encoding="utf-8"))
            }
        return self._modules

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __getitem__(self, name: str) -> T:
        return self.get(name)

    def items(self) -> list[tuple[str, T]]:
        """All names with their classes, imported."""
        return [(name, self.get(name)) for name in self.names()]

    def values(self) -> list[T]:
        """All classes, imported."""
        return [self.get(name) for name in self.names()]

    def _entry_points(self) -> list[EntryPoint]:
        return list(entry_points(group=self.group))

    def _load(self, point: EntryPoint) -> T:
        try:
            part: T = point.load()
        except Exception as error:  # a plug-in may fail in any way
            raise self.error(
                f"the plug-in {self.kind} '{point.name}' ({point.value}) can't be imported: "
                f"{type(error).__name__}: {error}"
            ) from error
        return self._registered.setdefault(point.name, part)


METHODS: Registry[type[Method]] = Registry(
    "method", "gsat.methods", "register_method", "gsat.methods", RecipeError
)
BACKBONES: Registry[type[Backbone]] = Registry(
    "backbone", "gsat.models", "register_backbone", "gsat.backbones", RecipeError
)
DATASETS: Registry[type[DatasetSource]] = Registry(
    "data set", "gsat.datasets.sources", "register_dataset", "gsat.datasets", DataError
)

register_method = METHODS.register
register_backbone = BACKBONES.register
register_dataset = DATASETS.register
