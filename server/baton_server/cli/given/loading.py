"""Finds the functions that a person names on the command line: `module`, `module:name`, `path/to/file.py:name`.

Importing runs the user's module, so everything that it may do wrong ends here as a WrongTarget.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import pkgutil
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from baton import FunctionTool, UserError, Worker, function_tool
from baton.server.worker import hosted_elsewhere

_IMPORTING = (__file__, str(Path(importlib.__file__).parent), "<frozen importlib")
"""Files whose frames come before the user's in the traceback of an import."""

_LISTED = 8
"""Names that an error lists; more would hide what it says."""


class WrongTarget(Exception):
    """A target names nothing that can be hosted. The text is a line that says what and why.

    Where the user's module failed, the line is followed by its traceback, from the user's file on.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a target stands for. `worker`: the one whose settings and hooks hold; None: there is none.

    `tools` may be empty where the worker has hooks.
    """

    tools: tuple[FunctionTool, ...]
    worker: Worker | None


def load_tools(target: str) -> list[FunctionTool]:
    """Import what a target names and list its functions, at least one. Raises WrongTarget."""
    found = load(target)
    if not found.tools:
        raise WrongTarget(f"{target} has hooks and no functions; host it with baton worker")
    return list(found.tools)


def load(target: str) -> Loaded:
    """Import what a target names: a Worker, a FunctionTool, a plain function; without a name all that is there.

    The working folder comes first on sys.path; for a file, the folder from which Python would import it. Raises
    WrongTarget.
    """
    place, name = _split(target)
    _on_path(Path.cwd())
    module = _import_file(Path(place)) if _is_path(place) else _import_module(place)
    return _named(place, module, name) if name else _all(place, module)


def folder_of(target: str) -> Path:
    """Find the folder of a target that is a file; of a module: the working folder."""
    place = target.rpartition(":")[0] or target
    return Path(place).resolve().parent if _is_path(place) else Path.cwd()


def _split(target: str) -> tuple[str, str]:
    place, colon, name = target.rpartition(":")
    if not colon:
        place, name = target, ""
    if not place or (colon and not name.isidentifier()):
        raise WrongTarget(f"{target!r} is no target; write MODULE, MODULE:NAME, FILE.py or FILE.py:NAME")
    return place, name


def _is_path(place: str) -> bool:
    return place.endswith(".py") or "/" in place or os.sep in place


def _on_path(folder: Path) -> None:
    importlib.invalidate_caches()  # a file may have been written since Python last looked
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


# --- importing ----------------------------------------------------------------------------------------------


def _import_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise WrongTarget(f"{name!r} is neither a module nor a path to a .py file")
    here = Path.cwd() / f"{name}.py"
    if name in sys.modules and here.is_file() and not _is_from(sys.modules[name], here):
        return _import_file(here)  # a file that has the name of one of Python's own modules
    folders = [str(Path.cwd())]
    known = ""
    for part in name.split("."):
        with _running(name):
            spec = importlib.util.find_spec(f"{known}{part}")
        if spec is None:
            missing = f"{known}{part}"
            near = _similar(part, (module.name for module in pkgutil.iter_modules(folders)))
            raise WrongTarget(f"there is no module {missing!r}{_did_you_mean(near and known + near)}")
        if spec.submodule_search_locations is None and spec.name != name:
            rest = name.removeprefix(f"{spec.name}.")
            raise WrongTarget(f"{spec.name!r} is no package; for a name in that module write {spec.name}:{rest}")
        folders, known = list(spec.submodule_search_locations or ()), f"{known}{part}."
    with _running(name):
        return importlib.import_module(name)


def _import_file(path: Path) -> ModuleType:
    """Import a file under the name that it has in its package, or else under its own."""
    whole = path.resolve()
    if path.is_dir():
        found = _list(str(path / file) for file in _python_files(path))
        raise WrongTarget(f"{path} is a folder; name a file in it" + (f": {found}" if found else ""))
    if not path.is_file():
        near = _similar(path.stem + ".py", _python_files(path.parent))
        raise WrongTarget(f"there is no file {path}{_did_you_mean(near and str(path.parent / near))}")
    if path.suffix != ".py":
        raise WrongTarget(f"{path} is no .py file")
    root, name = whole.parent, whole.stem
    while (root / "__init__.py").is_file():
        root, name = root.parent, f"{root.name}.{name}"
    _on_path(root)
    if "." in name:
        return _import_module(name)
    taken = sys.modules.get(name)
    if taken is not None and _is_from(taken, whole):
        return taken
    with _running(str(path)):
        return _execute(name if taken is None else f"{name}_of_baton_worker", whole)


def _execute(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None  # it ends with .py
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _is_from(module: ModuleType, file: Path) -> bool:
    origin = getattr(module, "__file__", None)
    return origin is not None and Path(origin).resolve() == file.resolve()


def _python_files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("*.py")) if folder.is_dir() else []


@contextmanager
def _running(shown: str) -> Iterator[None]:
    """Run the user's module; whatever it raises becomes a WrongTarget."""
    token = hosted_elsewhere.set(True)
    try:
        yield
    except SystemExit as ended:
        raise WrongTarget(
            f"{shown} ends the program when it is imported, with {ended.code!r}; "
            'put what is to run by itself below `if __name__ == "__main__":`'
        ) from None
    except Exception as error:  # the boundary of user code: shown to the user with its traceback
        raise WrongTarget(f"{shown} fails when it is imported:\n{_trace(error)}") from error
    finally:
        hosted_elsewhere.reset(token)


def _trace(error: Exception) -> str:
    """Format a traceback from the first frame that is the user's; a syntax error has none."""
    frames: TracebackType | None = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_IMPORTING):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


# --- what is there ------------------------------------------------------------------------------------------


def _named(place: str, module: ModuleType, name: str) -> Loaded:
    found = vars(module).get(name)
    if isinstance(found, Worker):
        if not found.tools and not found.hooks:
            raise WrongTarget(
                f"{place}:{name} has no functions and no hooks; decorate some with @{name}.function or @{name}.hook"
            )
        return Loaded(tools=found.tools, worker=found)
    if isinstance(found, FunctionTool):
        return Loaded(tools=(found,), worker=None)
    if inspect.isfunction(found):
        try:
            return Loaded(tools=(function_tool(found),), worker=None)
        except UserError as error:
            raise WrongTarget(f"{place}:{name} cannot be made a tool: {error}") from None
    if name in vars(module):
        raise WrongTarget(f"{place}:{name} is a {type(found).__name__}; name a Worker, a function_tool or a function")
    near = _similar(name, (known for known in vars(module) if not known.startswith("__")))
    raise WrongTarget(f"{place} has no {name!r}{_did_you_mean(near) or f'; {_contents(place, module)}'}")


def _all(place: str, module: ModuleType) -> Loaded:
    """Take all tools of a module, those of its Worker first, each once; versions of a name stand side by side."""
    workers = _unique(found for found in vars(module).values() if isinstance(found, Worker))
    if len(workers) > 1:
        known = _list(f"{place}:{name}" for name, found in vars(module).items() if isinstance(found, Worker))
        raise WrongTarget(f"{place} has {len(workers)} workers; name one of them: {known}")
    worker = workers[0] if workers else None
    loose = (found for found in vars(module).values() if isinstance(found, FunctionTool))
    tools = _unique([*(worker.tools if worker else ()), *loose])
    if not tools and not (worker and worker.hooks):
        raise WrongTarget(f"{place} has no Worker with functions and no function_tool; {_contents(place, module)}")
    served = Counter((tool.name, tool.version) for tool in tools)
    twice = sorted(_versioned(*one) for one, times in served.items() if times > 1)
    if twice:
        raise WrongTarget(f"{place} has several tools named {_list(twice)}; name one target of them: {place}:NAME")
    return Loaded(tools=tuple(tools), worker=worker)


def _versioned(name: str, version: str) -> str:
    return f"{name} (version {version})" if version else name


def _contents(place: str, module: ModuleType) -> str:
    """Say what there is to name instead."""
    own = [
        name
        for name, found in vars(module).items()
        if isinstance(found, Worker | FunctionTool)
        or (inspect.isfunction(found) and found.__module__ == module.__name__)
    ]
    if own:
        return f"it has {_list(f'{place}:{name}' for name in own)}"
    inner = [found.name for found in pkgutil.iter_modules(getattr(module, "__path__", ()))]
    return f"it has the modules {_list(f'{place}.{name}' for name in inner)}" if inner else "it has no functions"


def _unique(values: Iterable[Any]) -> list[Any]:
    """List each object once, though it has several names."""
    return list({id(value): value for value in values}.values())


def _list(names: Iterable[str]) -> str:
    every = list(names)
    more = [f"and {len(every) - _LISTED} more"] if len(every) > _LISTED else []
    return ", ".join([*every[:_LISTED], *more])


def _similar(wrong: str, names: Iterable[str]) -> str:
    """Find the name that was meant; empty: none is near."""
    return next(iter(difflib.get_close_matches(wrong, list(names), n=1)), "")


def _did_you_mean(near: str) -> str:
    return f"; did you mean {near}?" if near else ""
