"""What every file must keep to. A rule is a function from a parsed file to the offences it holds; each is
tried on a small offender too, so that a rule that sees nothing is itself seen.
"""

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = "server/baton_server/core/"
PORTS = "server/baton_server/ports/"
STUBS = "client/python/baton/v1/"

MODULE_LINES = 400
FUNCTION_LINES = 60

# Pure and deterministic parts of the standard library. Ids and times reach the core as inputs.
CORE_MAY_IMPORT = {
    "__future__", "abc", "base64", "bisect", "collections", "copy", "dataclasses", "datetime", "decimal",
    "enum", "fractions", "functools", "hashlib", "heapq", "itertools", "json", "math", "operator", "re",
    "string", "textwrap", "types", "typing", "unicodedata",
}  # fmt: skip
IMPURE_BUILTINS = {"open", "print", "input", "id", "hash", "eval", "exec", "__import__"}

# Composed, so that this file does not hold what it looks for.
FORBIDDEN_TEXTS = [
    "/".join(("..", "shared")),
    "/".join(("..", ".library")),
    "/".join(("", "work", "main")),
    "/".join(("", "work", "shared")),
    ".".join(("pypi", "org")),
    ".".join(("pythonhosted", "org")),
    ".".join(("registry", "npmjs", "org")),
    ".".join(("proxy", "golang", "org")),
]

Function = ast.FunctionDef | ast.AsyncFunctionDef
Rule = Callable[[ast.Module], Iterator[tuple[int, str]]]


def test_core_imports_only_pure_standard_library_modules() -> None:
    """The core can be replayed: nothing that it imports reads a clock, a random source or the machine."""
    assert offences(impure_imports, CORE) == []


def test_core_reads_no_clock_and_does_no_io() -> None:
    """Neither through a permitted module (datetime.now) nor through a builtin (open)."""
    assert offences(impure_calls, CORE) == []


def test_modules_stay_under_the_limit() -> None:
    """A longer module holds more than one concept."""
    assert offences(long_modules) == []


def test_functions_stay_under_the_limit() -> None:
    """A longer function does more than one thing."""
    assert offences(long_functions) == []


def test_core_and_ports_are_documented() -> None:
    """The inner rings are read as a specification."""
    assert offences(missing_docstrings, CORE, PORTS) == []


def test_private_names_stay_in_their_file() -> None:
    """An underscore means: of this file alone."""
    assert offences(private_imports) == []


def test_tests_do_not_sleep() -> None:
    """A test waits for what it waits for, not for a time; `sleep(0)` yields and is allowed."""
    assert offences(sleeps, "tests/") == []


def test_committed_texts_name_no_place_outside_the_repository() -> None:
    """A path of one machine, or a package registry's host, is of no use to whoever clones this."""
    found = [
        f"{path}: {text}"
        for path in committed()
        for text in FORBIDDEN_TEXTS
        if text.encode() in (ROOT / path).read_bytes()
    ]
    assert found == []


# --- the rules --------------------------------------------------------------------------------------------


def impure_imports(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields imports of the core that are neither its own nor on the list."""
    for line, name in imports(module):
        if not name.startswith((".", "baton_server.core.")) and name.partition(".")[0] not in CORE_MAY_IMPORT:
            yield line, f"imports {name}"


def impure_calls(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields coroutines, clock readings and builtins that touch the outside or differ between processes."""
    for node in ast.walk(module):
        match node:
            case ast.AsyncFunctionDef(name=name):
                yield node.lineno, f"async def {name}"
            case ast.Attribute(
                value=ast.Name(id="datetime" | "date") | ast.Attribute(attr="datetime" | "date"),
                attr="now" | "utcnow" | "today" as name,
            ):
                yield node.lineno, f"reads the clock: {name}"
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_BUILTINS:
                yield node.lineno, f"calls {name}()"


def long_modules(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields the module itself if it is too long."""
    lines = max((node.end_lineno or 0 for node in module.body), default=0)
    if lines > MODULE_LINES:
        yield lines, f"{lines} lines in the module, at most {MODULE_LINES}"


def long_functions(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields functions that are too long, their docstrings counted."""
    for node in ast.walk(module):
        if isinstance(node, Function):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield node.lineno, f"{lines} lines in {node.name}, at most {FUNCTION_LINES}"


def missing_docstrings(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields the module, and the public classes, functions and methods, that have no docstring."""
    if ast.get_docstring(module) is None:
        yield 1, "the module has no docstring"
    yield from undocumented(module.body)


def undocumented(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """Yields what has no docstring among the public definitions of a module's or a class's body."""
    for node in body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            if ast.get_docstring(node) is None and not is_overload(node):
                yield node.lineno, f"{node.name} has no docstring"
            if isinstance(node, ast.ClassDef):
                yield from undocumented(node.body)


def is_overload(node: Function | ast.ClassDef) -> bool:
    """Tells whether only the definition that follows carries the docstring."""
    return any(ast.unparse(decorator).endswith("overload") for decorator in node.decorator_list)


def private_imports(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields imports of a name, or from a module, that begins with one underscore."""
    for line, name in imports(module):
        if any(re.match(r"_(?!_)", part) for part in name.split(".")):
            yield line, f"imports {name}"


def sleeps(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields calls of a `sleep` with a positive constant."""
    for node in ast.walk(module):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="sleep") | ast.Name(id="sleep"),
                args=[ast.Constant(value=int() | float() as seconds)],
            ) if seconds > 0:
                yield node.lineno, f"sleeps for {seconds} s"


def imports(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields every imported name with its module before it; ruff keeps relative ones in their package."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)


# --- each rule sees its offender --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (impure_imports, "import asyncio"),
        (impure_imports, "from time import monotonic"),
        (impure_imports, "def f():\n    import os.path"),
        (impure_imports, "from baton_server.ports import clock"),
        (impure_calls, "datetime.now(UTC)"),
        (impure_calls, "made = field(default_factory=datetime.datetime.now)"),
        (impure_calls, "open('state')"),
        (impure_calls, "async def step(): ..."),
        (long_modules, "x = 1\n" * 401),
        (long_functions, "async def f():\n" + "    x = 1\n" * 60),
        (missing_docstrings, "x = 1"),
        (missing_docstrings, "'''Has one.'''\nclass Store:\n    '''Has one.'''\n    def read(self): ..."),
        (private_imports, "from baton_server.app.watch import _cursor"),
        (private_imports, "from ._watch import Cursor"),
        (private_imports, "import grpc._channel"),
        (sleeps, "time.sleep(0.1)"),
        (sleeps, "async def t():\n    await asyncio.sleep(1)"),
    ],
)
def test_a_rule_sees_its_offender(rule: Rule, source: str) -> None:
    """Each of these breaks exactly one rule, once."""
    assert len(list(rule(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (impure_imports, "from collections.abc import Mapping\nfrom baton_server.core.items import Item"),
        (impure_calls, "datetime.fromtimestamp(stamp, UTC)"),
        (long_modules, "x = 1\n" * 400),
        (long_functions, "def f():\n" + "    x = 1\n" * 59),
        (missing_docstrings, "'''Has one.'''\ndef _private(): ..."),
        (private_imports, "from __future__ import annotations"),
        (sleeps, "asyncio.sleep(0)\nasyncio.sleep(delay)"),
    ],
)
def test_a_rule_leaves_the_rest_alone(rule: Rule, source: str) -> None:
    """Each of these stands on the right side of one rule."""
    assert list(rule(ast.parse(source))) == []


# --- the files --------------------------------------------------------------------------------------------


def offences(rule: Rule, *folders: str) -> list[str]:
    """Applies a rule to the Python files of some folders (none: of all), generated ones left out."""
    return [
        f"{path}:{line}: {what}"
        for path in committed()
        if path.endswith(".py") and path.startswith(folders or "") and not path.startswith(STUBS)
        for line, what in rule(ast.parse((ROOT / path).read_bytes()))
    ]


def committed() -> list[str]:
    """Lists, relative to the root, what git keeps or would keep: new files count before their commit."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for path in listed.split("\0") if path and (ROOT / path).is_file()]
