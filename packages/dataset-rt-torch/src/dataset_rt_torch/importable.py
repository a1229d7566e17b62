"""Tells which modules a fresh worker process would find under the same name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# The second is the main script in a spawned process; in its parent it is another name of the first.
_MAIN_MODULES = ("__main__", "__mp_main__")


def can_be_imported(module: ModuleType) -> bool:
    """Return whether importing the module's name in another process gives the same source file.

    A worker gets this process's ``sys.path`` but not its ``sys.modules``. Modules without a source
    file (built in, compiled, made up at run time) count as importable: nothing better can be done.
    """
    source = getattr(module, "__file__", None)
    if source is None or not source.endswith(".py") or module.__name__ in _MAIN_MODULES:
        return True
    search_path: Sequence[str] | None = None
    name = ""
    specification: ModuleSpec | None = None
    for part in module.__name__.split("."):
        name = f"{name}.{part}" if name else part
        specification = _find(name, search_path)
        if specification is None:
            return False
        search_path = specification.submodule_search_locations
    origin = specification.origin if specification is not None else None
    return origin is None or Path(origin).resolve() == Path(source).resolve()


def _find(name: str, search_path: Sequence[str] | None) -> ModuleSpec | None:
    # importlib.util.find_spec would answer from sys.modules, which a worker does not have.
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        specification: ModuleSpec | None = (
            find_spec(name, search_path, None) if find_spec is not None else None
        )
        if specification is not None:
            return specification
    return None


def main_is_importable() -> bool:
    """Return whether a spawned process runs the main script again, so that names in it resolve."""
    specification = getattr(sys.modules["__main__"], "__spec__", None)
    if specification is not None:
        name = str(specification.name)
        return name != "__main__" and not name.endswith(".__main__")
    path = main_path()
    return path is not None and path.is_file()


def main_path() -> Path | None:
    """Return the file that a spawned process would run as its main script; None if it has none."""
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if path is None or getattr(main, "__spec__", None) is not None:
        return None
    return Path(path)
