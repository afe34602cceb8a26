"""What a target on the command line stands for, and what a person is told where it stands for nothing."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from baton_server.cli.given.loading import WrongTarget, folder_of, load, load_tools

Write = Callable[[str, str], None]

WEATHER = """
    from baton import Worker, function_tool

    worker = Worker(scopes=["shop"], max_concurrency=3)

    @worker.function
    def get_weather(city: str) -> str:
        '''Get the weather of a city.'''
        return city

    @function_tool
    def get_time(city: str) -> str:
        return city

    same_time = get_time

    def plain(count: int) -> int:
        '''Count on.'''
        return count + 1

    SETTINGS = {}
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes files into the working folder; forgets afterwards what was imported from there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = dict(sys.modules)

    def put(path: str, text: str) -> None:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))

    yield put
    for name in set(sys.modules) - set(before):
        del sys.modules[name]


def names(target: str) -> list[str]:
    """Load a target and name its tools."""
    return [tool.name for tool in load_tools(target)]


def problem(target: str) -> str:
    """Load a target that must be wrong; return what is said of it."""
    with pytest.raises(WrongTarget) as caught:
        load(target)
    return str(caught.value)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("weather_a", ["get_weather", "get_time"]),
        ("weather_a.py", ["get_weather", "get_time"]),
        ("weather_a:worker", ["get_weather"]),
        ("weather_a.py:get_time", ["get_time"]),
        ("weather_a:same_time", ["get_time"]),
        ("./weather_a.py:plain", ["plain"]),
    ],
)
def test_a_target_is_a_module_or_a_file_with_or_without_a_name(write: Write, target: str, expected: list[str]) -> None:
    """Without a name all tools count, each once; a plain function counts only where it is named."""
    write("weather_a.py", WEATHER)

    assert names(target) == expected


def test_a_plain_function_becomes_a_tool_with_its_docstring(write: Write) -> None:
    """The model is told what the function says of itself."""
    write("weather_b.py", WEATHER)

    (tool,) = load_tools("weather_b:plain")

    assert tool.description == "Count on."
    assert list(tool.params_json_schema["properties"]) == ["count"]


def test_the_settings_of_a_named_or_only_worker_are_kept(write: Write) -> None:
    """Whoever hosts them can see the worker; a single tool has none."""
    write("weather_c.py", WEATHER)

    for target in ("weather_c", "weather_c:worker"):
        worker = load(target).worker
        assert worker is not None
        assert (worker.scopes, worker.max_concurrency) == (("shop",), 3)
    assert load("weather_c:get_weather").worker is None


def test_a_worker_that_has_only_hooks_can_be_hosted(write: Write) -> None:
    """Its hooks are reason enough; a command that calls functions says where such a worker belongs."""
    write(
        "only_hooks.py",
        """
        from baton import Worker
        worker = Worker()
        @worker.hook("input_guardrail")
        def allowed(data): return False
        @worker.check("pay")
        def paid(data): return "unknown"
        """,
    )

    for target in ("only_hooks", "only_hooks.py:worker"):
        worker = load(target).worker
        assert worker is not None
        assert worker.hooks == (("input_guardrail", "allowed"), ("effect_check", "pay"))
        with pytest.raises(WrongTarget, match=f"{target} has hooks and no functions; host it with baton worker"):
            load_tools(target)


def test_versions_of_a_name_are_hosted_side_by_side(write: Write) -> None:
    """Of a worker and loose ones alike; the same version twice is a mistake that is told."""
    versions = """
        from baton import Worker, function_tool
        worker = Worker()
        @worker.function(version="1", name_override="greet")
        def first() -> str: return "Hello"
        @worker.function(version="2", name_override="greet")
        def second() -> str: return "Hi"
        """
    write("versions.py", versions)
    write(
        "version_twice.py",
        f'{versions}\n        third = function_tool(name_override="greet", version="2")(lambda: "Ho")',
    )

    for target in ("versions", "versions:worker"):
        assert [(tool.name, tool.version) for tool in load(target).tools] == [("greet", "1"), ("greet", "2")]
    assert problem("version_twice").startswith("version_twice has several tools named greet (version 2);")


def test_a_file_finds_its_neighbours_and_the_working_folder(write: Write) -> None:
    """As if Python had been started with the file, and as if in the working folder."""
    write("shop_settings.py", "CITY = 'Kyoto'")
    write("functions/shop_prices.py", "PRICE = 3")
    write(
        "functions/shop_tools.py",
        """
        import shop_prices, shop_settings
        def price() -> int: return shop_prices.PRICE
        """,
    )

    assert names("functions/shop_tools.py:price") == ["price"]


def test_a_file_in_a_package_may_import_relatively(write: Write) -> None:
    """It is the module of that package, whichever way it is named."""
    write("shop_package/__init__.py", "")
    write("shop_package/prices.py", "PRICE = 3")
    write("shop_package/tools.py", "from .prices import PRICE\ndef price() -> int: return PRICE")

    assert names("shop_package/tools.py:price") == names("shop_package.tools:price") == ["price"]
    assert sys.modules["shop_package.tools"].PRICE == 3


def test_a_file_may_have_the_name_of_a_module_of_python(write: Write) -> None:
    """`calendar.py` is a likely name for functions; Python's own calendar stays what it is."""
    write("calendar.py", "def next_meeting() -> str: return 'now'")
    own = sys.modules.setdefault("calendar", __import__("calendar"))

    assert names("calendar.py:next_meeting") == names("calendar:next_meeting") == ["next_meeting"]
    assert sys.modules["calendar"] is own


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("wether_d", "there is no module 'wether_d'; did you mean weather_d?"),
        ("shop.wether_d", "there is no module 'shop'"),
        ("tools/wether_d.py", "there is no file tools/wether_d.py; did you mean tools/weather_d.py?"),
        ("tools/weather_d", "there is no file tools/weather_d; did you mean tools/weather_d.py?"),
        ("tools/", "tools is a folder; name a file in it: tools/weather_d.py"),
        ("tools", "tools has no Worker with functions and no function_tool; it has the modules tools.weather_d"),
        ("weather_d:get_wether", "weather_d has no 'get_wether'; did you mean get_weather?"),
        ("weather_d:zzz", "it has weather_d:worker, weather_d:get_weather, weather_d:get_time"),
        ("weather_d.get_time", "'weather_d' is no package; for a name in that module write weather_d:get_time"),
        ("weather_d:SETTINGS", "weather_d:SETTINGS is a dict"),
        ("weather_d:", "'weather_d:' is no target; write MODULE, MODULE:NAME, FILE.py or FILE.py:NAME"),
        ("", "'' is no target"),
        ("weather-d", "'weather-d' is neither a module nor a path to a .py file"),
        ("only_plain", "only_plain has no Worker with functions and no function_tool; it has only_plain:count"),
        ("two_workers", "two_workers has 2 workers; name one of them: two_workers:a, two_workers:b"),
        ("two_workers:a", "two_workers:a has no functions and no hooks; decorate some with @a.function or @a.hook"),
        ("twice", "twice has several tools named get"),
        ("only_plain:unknown", "only_plain:unknown cannot be made a tool: unknown: the annotation 'Nothing'"),
    ],
)
def test_a_wrong_target_is_told_in_a_line(write: Write, target: str, said: str) -> None:
    """What was wrong, with its name, and what there is instead."""
    write("weather_d.py", WEATHER)
    write("tools/weather_d.py", WEATHER)
    write(
        "only_plain.py",
        """
        from __future__ import annotations
        def count(): ...
        def unknown(a: Nothing): ...
        """,
    )
    write("two_workers.py", "from baton import Worker\na, b = Worker(), Worker()")
    write(
        "twice.py",
        """
        from baton import function_tool
        one = function_tool(name_override="get")(lambda: 1)
        two = function_tool(name_override="get")(lambda: 2)
        """,
    )

    assert said in problem(target)
    assert "\n" not in problem(target)


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("def broken(:", "SyntaxError: invalid syntax"),
        ("def fail():\n    return {}['key']\nfail()", "KeyError: 'key'"),
    ],
)
@pytest.mark.parametrize("target", ["failing_module", "failing_module.py", "failing_module:name"])
def test_a_module_that_fails_shows_its_own_traceback(write: Write, target: str, text: str, last: str) -> None:
    """From the user's file on: how it was imported is no help."""
    write("failing_module.py", text)

    first, *trace = problem(target).splitlines()

    assert first == f"{target.removesuffix(':name')} fails when it is imported:"
    files = [line for line in trace if line.startswith("  File ")]
    assert "failing_module.py" in files[0]
    assert not any("baton_server" in line or "importlib" in line for line in files)
    assert trace[-1] == last
    sys.modules.pop("failing_module", None)


def test_a_module_that_hosts_or_ends_by_itself_is_told_what_to_do(write: Write) -> None:
    """The worker of an example ends with `run_sync`; hosting it twice would wait for two interrupts."""
    write("hosting.py", f"{textwrap.dedent(WEATHER)}\nworker.run_sync()")
    write("ending.py", "raise SystemExit(3)")

    assert 'below `if __name__ == "__main__":`' in problem("hosting")
    assert problem("ending").startswith("ending ends the program when it is imported, with 3;")
    assert 'below `if __name__ == "__main__":`' in problem("ending.py")


def test_a_target_is_loaded_again_without_being_run_again(write: Write) -> None:
    """Two options may name two functions of one module."""
    write("counting.py", "runs = []\ndef one(): return runs\ndef two(): return runs\n")

    assert names("counting.py:one") + names("counting:two") + names("./counting.py:two") == ["one", "two", "two"]
    assert sys.modules["counting"].__name__ == "counting"


def test_the_folder_of_a_target_is_where_its_file_is(write: Write, tmp_path: Path) -> None:
    """There changes of it are to be looked for."""
    assert folder_of("functions/weather.py:worker") == tmp_path / "functions"
    assert folder_of("functions.weather:worker") == tmp_path
