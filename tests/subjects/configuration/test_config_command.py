"""`latchkey config`, against the database and against a running service."""

import asyncio
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from latchkey.now import real_now
from latchkey.process.local_ca.authority import ensure_certificates
from latchkey.subjects.configuration.command import read
from tests.cli.running import latchkey
from tests.cli.test_data_commands import Terminal
from tests.cli.test_data_commands import terminal as terminal
from tests.http.client import Shop
from tests.http.serving import serving

CATALOG = """
entitlements:
  max: {}
products:
  pro_monthly:
    entitlement_ids: [max]
webhooks:
  backend:
    url: https://93.184.215.14/hook
    authorization_header: Bearer ${TOKEN}
"""


# Nine aliases of nine aliases, and so on: 3 GB as JSON.
BOMB = "a0: &a0 [x, x, x]\n" + "".join(
    f"a{level + 1}: &a{level + 1} [{', '.join([f'*a{level}'] * 9)}]\n" for level in range(9)
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "latchkey.yaml"
    path.write_text(CATALOG)
    return path


@pytest.fixture
def wrong(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "wrong.yaml"
    path.write_text(request.param)
    return path


async def test_a_file_is_planned_applied_and_pulled(terminal: Terminal, file: Path) -> None:
    missing = await terminal.refused("config", "plan", str(file))
    assert missing["param"] == "webhooks.backend.authorization_header"
    terminal.environment["TOKEN"] = "hush-hush"
    plan = (await terminal.type("config", "plan", str(file))).stdout
    assert "+ entitlements.max" in plan
    assert 'entitlement_ids: ["pro"] → ["max"]' in plan
    assert "1 customers gain max" in plan
    assert "1 customers lose pro" in plan
    assert "products.pro_yearly is not in the file, and stays as it is" in plan
    assert "hush-hush" not in plan
    assert "--yes" in (await terminal.refused("config", "apply", str(file), code=2))["message"]
    done = await terminal.ask("config", "apply", str(file), "--yes")
    assert done["applied"] is True
    assert ("webhook.created", "backend", "done") in await terminal.audited()
    assert "Nothing would change." in (await terminal.type("config", "plan", str(file))).stdout

    copy = file.with_name("copy.yaml")
    await terminal.type("config", "pull", str(copy))
    assert "exists" in (await terminal.type("config", "pull", str(copy), code=1)).stderr
    await terminal.type("config", "pull", str(copy), "--force")
    text = copy.read_text()
    assert yaml.safe_load(text)["products"]["pro_monthly"]["entitlement_ids"] == ["max"]
    assert "hush-hush" not in text
    assert (await terminal.ask("config", "plan", str(copy), "--prune"))["changes"] == []


@pytest.mark.parametrize("wrong", ["x: &x {display_name: X}\nentitlements: {max: {<<: *x}}"], indirect=True)
def test_a_part_of_a_file_can_be_used_twice(wrong: Path) -> None:
    assert read(str(wrong))["entitlements"] == {"max": {"display_name": "X"}}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("products: {a: {}, a: {}}", "line 1: 'a' is there twice"),
        ("products:\n  a:\n    yes: 1", "line 3: The key 'yes' is not a text"),
        ("products: [", "is not YAML"),
        ("just a text", "has no sections"),
        ("a: &a [*a]", "values that JSON cannot have"),
        ("a: !!python/object:os.system {}", "line 1: The tag !!python/object:os.system means nothing here. Remove it."),
        ("a:\n  b: !secret x", "line 2: The tag !secret means nothing here. Remove it."),
        ("a: !!int x", "values that JSON cannot have"),
        (BOMB, "With what its aliases repeat, the file has more than 10,000,000 characters"),
        (BOMB.replace("[", "{<<: [").replace("]", "]}").replace("x,", "{x: 1},"), "the file has more than 10,000,000"),
        ("colours: {}", "colours: There is no such field."),
        ("placements: {here: {offering: none}}", "placements.here.offering: There is no offering 'none'"),
    ],
    indirect=["wrong"],
)
async def test_a_file_that_is_wrong_is_refused_with_the_place(terminal: Terminal, wrong: Path, words: str) -> None:
    assert words in (await terminal.refused("config", "apply", str(wrong), "--yes"))["message"]


async def test_the_schema_is_for_what_is_pulled(terminal: Terminal) -> None:
    schema: dict[str, Any] = json.loads((await terminal.type("config", "schema")).stdout)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(await terminal.ask("config", "pull"))
    validator.validate(yaml.safe_load(CATALOG))
    wrong: list[dict[str, Any]] = [
        {"colours": {}},
        {"products": {"a": {"price": "1"}}},
        {"webhooks": {"w": {"authorization_header": "x"}}},
    ]
    assert not any(map(validator.is_valid, wrong))


async def test_a_running_service_is_configured_with_a_key_over_https(shop: Shop, file: Path, tmp_path: Path) -> None:
    certificates = ensure_certificates(tmp_path / "tls", [], real_now())
    authority = ("--ca", str(certificates.authority))
    environment = {"TOKEN": "hush-hush", "LATCHKEY_API_KEY": shop.secret}

    async def typed(*words: str, code: int = 0) -> str:
        # A process of its own: the service logs to the stdout of this one.
        done = await asyncio.to_thread(latchkey, "config", *words, "--json", **environment)
        assert done.returncode == code, done
        assert "hush-hush" not in done.stdout + done.stderr
        return done.stderr if code else done.stdout

    async with serving(shop.client.app, certificates) as url:
        environment["LATCHKEY_URL"] = url
        done = json.loads(await typed("apply", str(file), "--yes", *authority))
        assert (done["project_id"], len(done["changes"])) == (shop.project_id, 3)
        assert json.loads(await typed("plan", str(file), *authority))["changes"] == []
        assert list(json.loads(await typed("pull", *authority))["webhooks"]) == ["backend"]
        assert "does not answer" in await typed("plan", str(file), code=1), "it is not trusted"
        environment["LATCHKEY_API_KEY"] = shop.public
        assert "secret key" in await typed("pull", *authority, code=1)
