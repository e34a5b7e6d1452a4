"""What users of `latchkey.client` and `latchkey.consumer` may rely on. A change here needs a changelog line."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import pytest

import latchkey.client
import latchkey.consumer
import latchkey.consumer.django
import latchkey.consumer.flask
from latchkey.consumer.blocking_consumer import BlockingConsumer

ROOT = Path(__file__).parents[1]
PACKAGES = (latchkey.client, latchkey.consumer)

NAMES = {
    "latchkey.client": """
        ActiveEntitlement ApiError Attribute BadAnswer Client ClientError Customer Event NotFound Page Patience
        RateLimited SubscriberResponse Unreachable Untrusted UnusableId
    """,
    "latchkey.consumer": """
        AccessRefused AccessUnknownError Checked Consumer ConsumerError Entitlement Guard Job LocalCopy NewJob Settings
        SettingsError Subscription View
    """,
    "latchkey.consumer.django": "DjangoConsumer",
    "latchkey.consumer.flask": "FlaskConsumer",
}
MEMBERS = {
    latchkey.client.Client: """
        active_entitlements attributes close customer customer_as_of event_page events rest subscriber
    """,
    latchkey.consumer.Consumer: """
        app balances check_connection client experiments has_entitlement install invoices later lifespan local
        require_entitlement routes settings view
    """,
    BlockingConsumer: """
        balances experiments has_entitlement invoices later local settings start stop view
    """,
    latchkey.consumer.django.DjangoConsumer: "require_entitlement urls",
    latchkey.consumer.flask.FlaskConsumer: "blueprint require_entitlement",
}


@pytest.mark.parametrize("module", [latchkey.consumer.django, latchkey.consumer.flask], ids=lambda one: one.__name__)
def test_a_framework_has_one_public_name(module: ModuleType) -> None:
    assert list(module.__all__) == NAMES[module.__name__].split()


def public(names: Any) -> set[str]:
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda one: one.__name__)
def test_the_public_names_are_these(package: ModuleType) -> None:
    assert sorted(package.__all__) == list(package.__all__) == NAMES[package.__name__].split()
    # Nothing else is there by accident, but for the package's own modules.
    folder = Path(str(package.__file__)).parent
    modules = {path.stem for path in folder.iterdir()}
    assert public(vars(package)) - modules == set(package.__all__) - modules


@pytest.mark.parametrize("kind", MEMBERS, ids=lambda one: one.__name__)
def test_the_public_members_are_these(kind: type) -> None:
    source = ast.parse(inspect.getsource(kind))
    set_in_code = {
        node.attr
        for node in ast.walk(source)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    assert public(vars(kind)) | public(set_in_code) == set(MEMBERS[kind].split())


def named_types(hint: Any) -> Iterator[Any]:
    yield hint
    for one in get_args(hint):
        # The arguments of a Callable are a list.
        for part in one if isinstance(one, list) else [one]:
            yield from named_types(part)


@pytest.mark.parametrize("kind", MEMBERS, ids=lambda one: one.__name__)
def test_whoever_calls_a_public_method_can_import_the_types_it_names(kind: type) -> None:
    importable = {getattr(package, name) for package in PACKAGES for name in package.__all__}
    for name, method in inspect.getmembers(kind, callable):
        if name.startswith("_") and name != "__init__":
            continue
        for parameter, hint in get_type_hints(method).items():
            if parameter.startswith("_"):
                continue
            ours = {one for one in named_types(hint) if inspect.isclass(one) and one.__module__.startswith("latchkey.")}
            assert ours <= importable, f"{kind.__name__}.{name}: {parameter}"


def snippets() -> Iterator[tuple[str, str]]:
    for pattern in ("*.md", "docs/*.md", "examples/**/*.md", "examples/**/*.py"):
        for path in ROOT.glob(pattern):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def test_examples_and_documents_use_public_names_only() -> None:
    seen = 0
    for where, text in snippets():
        for module, names in re.findall(r"^\s*from (latchkey[\w.]*) import ([\w, ]+)", text, re.MULTILINE):
            assert module in NAMES, f"{where}: {module}"
            assert {name.strip() for name in names.split(",")} <= set(NAMES[module].split()), where
            seen += 1
    assert seen
