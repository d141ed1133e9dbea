"""Registries of methods, backbones and data sets, which plug-ins can extend.

A decorator registers a class in the file that defines it. The package finds its own files by
itself; other packages declare entry points::

    [project.entry-points."gsat.methods"]
    my-method = "my_package.my_module:MyMethod"

:func:`load_file` registers a class from a single file. Names in recipes and run directories never
cause a file to be imported.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from gsat.core.errors import DataError, GSATError, RecipeError, shown

T = TypeVar("T", bound=type)

_NO_DEFAULT: Any = object()


class Registry(Generic[T]):
    """Classes by name: built-in classes, registered classes, and plug-ins of other packages.

    A registry behaves like a dictionary from names to classes. :meth:`names` imports nothing, so
    that a wrong name fails fast: the names of built-in classes are read from the decorators in the
    package's source files.

    Args:
        kind: What the classes are, for messages, such as ``method``.
        package: Package whose modules define the built-in classes.
        decorator: Name of the decorator that registers them.
        group: Entry-point group of plug-ins.
        error: Type of the error for an unknown name. (default: :class:`GSATError`)
        base: Full name of the common base class. (default: any class)
    """

    def __init__(
        self,
        kind: str,
        package: str,
        decorator: str,
        group: str,
        error: type[GSATError] = GSATError,
        base: str = "builtins.object",
    ) -> None:
        self.kind, self.package, self.group, self.base = kind, package, group, base
        self.error = error
        self._declaration = re.compile(rf'^@{decorator}\(\s*"([^"]+)"', re.MULTILINE)
        self._registered: dict[str, T] = {}
        self._modules: dict[str, str] | None = None
        self._points: tuple[list[str], list[EntryPoint]] | None = None

    def register(self, name: str) -> Callable[[T], T]:
        """Make a decorator that registers a class.

        Args:
            name: The name that users type. It becomes the class attribute ``name``.

        Returns:
            A decorator that returns the class unchanged.

        Raises:
            GSATError: If another class has that name, or the name has other characters than
                letters, digits, ``.``, ``_`` and ``-``.
        """

        def decorate(part: T) -> T:
            if not re.fullmatch(r"[\w.-]+", name):
                raise self.error(
                    f"the name of a {self.kind} is made of letters, digits and '-', not {name!r}"
                )
            other = self._registered.get(name, part)
            home = self.built_in().get(name, part.__module__)
            identity = (part.__module__, part.__qualname__)
            if (other.__module__, other.__qualname__) != identity or home != part.__module__:
                raise self.error(
                    f"there is a {self.kind} '{name}' already: choose another name for "
                    f"{part.__qualname__}"
                )
            part.name = name  # type: ignore[attr-defined]
            self._registered[name] = part
            return part

        return decorate

    def names(self) -> tuple[str, ...]:
        """List all names, without importing the classes."""
        plugged = {point.name for point in self._entry_points()}
        return tuple(sorted({*self.built_in(), *self._registered, *plugged}))

    def get(self, name: str, default: Any = _NO_DEFAULT) -> T:
        """Import and return the class of that name.

        Args:
            name: One of :meth:`names`.
            default: Returned for an unknown name. (default: raise an error)

        Raises:
            GSATError: If the name is unknown, or a plug-in can't be imported.
        """
        if name in self._registered:
            return self._registered[name]
        if module := self.built_in().get(name):
            importlib.import_module(module)
            return self._registered[name]
        for point in self._entry_points():
            if point.name == name:
                return self._load(point)
        if default is not _NO_DEFAULT:
            return default
        raise self.error(self.unknown(name))

    def check(self, name: str) -> None:
        """Raise a ``GSATError`` unless a name is known; imports nothing."""
        if name not in self:
            raise self.error(self.unknown(name))

    def resolve(self, text: str) -> str:
        """Return the name of a class that a user typed: a known name, or ``path/file.py:Class``.

        Args:
            text: Text from a trusted user: :func:`load_file` imports a file that is named in it.

        Returns:
            The name, registered from now on.

        Raises:
            GSATError: If there is no such name, file or class, or the class is of another kind.
        """
        if ".py:" not in text:
            self.check(text)
            return text
        name = load_file(text)
        if name not in self._registered:
            raise self.error(f"{text} is not a {self.kind}: derive the class from {self.base}")
        return name

    def unknown(self, name: str) -> str:
        """The error message for an unknown name: suggests the closest name and lists all."""
        names = self.names()
        close = difflib.get_close_matches(str(name), names, n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        return f"there is no {self.kind} '{shown(name, 80)}': {hint}available: {', '.join(names)}"

    def built_in(self) -> dict[str, str]:
        """Module of each built-in class, by name, read from the source without imports."""
        if self._modules is None:
            spec = importlib.util.find_spec(self.package)
            assert spec is not None
            assert spec.submodule_search_locations is not None
            self._modules = {
                name: ".".join((self.package, *path.relative_to(folder).with_suffix("").parts))
                for folder in spec.submodule_search_locations
                for path in sorted(Path(folder).rglob("*.py"))
                for name in self._declaration.findall(path.read_text(encoding="utf-8"))
            }
        return self._modules

    def accepts(self, part: type) -> bool:
        """Whether a class derives from the base class of this registry."""
        return any(f"{c.__module__}.{c.__qualname__}" == self.base for c in part.__mro__)

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def __getitem__(self, name: str) -> T:
        return self.get(name)

    def __setitem__(self, name: str, part: T) -> None:
        self.register(name)(part)

    def __delitem__(self, name: str) -> None:
        del self._registered[name]

    def items(self) -> list[tuple[str, T]]:
        """All names with their imported classes."""
        return [(name, self.get(name)) for name in self.names()]

    def values(self) -> list[T]:
        """All classes."""
        return [self.get(name) for name in self.names()]

    def _entry_points(self) -> list[EntryPoint]:
        # Reading the metadata of all packages is slow, so cache it until sys.path changes.
        if self._points is None or self._points[0] != sys.path:
            self._points = (list(sys.path), list(entry_points(group=self.group)))
        return self._points[1]

    def _load(self, point: EntryPoint) -> T:
        try:
            part: T = point.load()
        except Exception as error:  # a plug-in may fail in any way
            raise self.error(
                f"the plug-in {self.kind} '{point.name}' ({point.value}) can't be imported: "
                f"{type(error).__name__}: {error}"
            ) from error
        if not isinstance(part, type) or not self.accepts(part):
            raise self.error(
                f"the plug-in {self.kind} '{point.name}' ({point.value}) does not derive from "
                f"{self.base}"
            )
        return self.register(point.name)(part)


METHODS: Registry[type[Any]] = Registry(
    "method",
    "gsat.methods",
    "register_method",
    "gsat.methods",
    RecipeError,
    "gsat.methods.base.Method",
)
BACKBONES: Registry[type[Any]] = Registry(
    "backbone",
    "gsat.models",
    "register_backbone",
    "gsat.backbones",
    RecipeError,
    "gsat.models.backbone.Backbone",
)
DATASETS: Registry[type[Any]] = Registry(
    "data set",
    "gsat.datasets.sources",
    "register_dataset",
    "gsat.datasets",
    DataError,
    "gsat.datasets.source.DatasetSource",
)

register_method = METHODS.register
register_backbone = BACKBONES.register
register_dataset = DATASETS.register

# Arguments of load_file by registered name; a method and a backbone may have the same name.
_FILES: dict[str, list[str]] = {}


def load_file(text: str) -> str:
    """Import a class from ``path/file.py:Class`` and register it as method, backbone or data set.

    This executes the file's code, once per process.
    """
    file, _, class_name = text.rpartition(":")
    if not file.endswith(".py") or not class_name:
        raise GSATError(f"a class in a file is written path/file.py:Class, not {shown(text)}")
    try:
        path = Path(file).expanduser().absolute()
        exists = path.is_file()
    except (OSError, RuntimeError):  # the name is too long, or ~user is unknown
        exists = False
    if not exists:
        raise GSATError(f"there is no file {shown(file)}")
    part = getattr(_import(path), class_name, None)
    if not isinstance(part, type):
        raise GSATError(f"{path} declares no class '{class_name}'")
    for registry in (METHODS, BACKBONES, DATASETS):
        if registry.accepts(part):
            # A decorator in the file has registered the class already.
            names = [name for name, other in registry._registered.items() if other is part]
            name = names[0] if names else vars(part).get("name", class_name)
            registry.register(name)(part)
            loaded = _FILES.setdefault(name, [])
            if f"{path}:{class_name}" not in loaded:
                loaded.append(f"{path}:{class_name}")
            return name
    bases = ", ".join(registry.base for registry in (METHODS, BACKBONES, DATASETS))
    raise GSATError(f"{class_name} in {path} derives from none of {bases}")


def loaded_files(*names: str) -> list[str]:
    """List the files that methods, backbones or data sets were loaded from."""
    return list(dict.fromkeys(file for name in names for file in _FILES.get(name, ())))


def _import(path: Path) -> Any:
    plain = re.sub(r"\W", "_", str(path.resolve().with_suffix("")))
    name = f"gsat_file_{plain.strip('_')}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations that refer to each other are resolved here
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the file may fail in any way
        del sys.modules[name]
        if isinstance(error, GSATError):
            raise
        raise GSATError(f"{path} can't be imported: {type(error).__name__}: {error}") from error
    return module
