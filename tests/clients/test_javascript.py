"""The JavaScript client: run by Node against a real service, and its types checked by the TypeScript compiler."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from uuid import uuid4

from msgspec import json as fast_json

from latchkey.domain.events.customer_event import EventType
from latchkey.subjects.webhooks.delivery.event_body import body_of
from latchkey.subjects.webhooks.delivery.sending.request import signature
from latchkey.subjects.webhooks.usecases.samples import sample
from tests import machine
from tests.cli.running import Up
from tests.patience import PATIENCE
from tests.web_sdk.shopper import act, call

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CLIENT = ROOT / "clients" / "javascript"
NOW = 1_800_000_000_123
SECRET = "whsec_ZXhhbXBsZSBzZWNyZXQgb2YgMjQgYg=="
# Each type with examples of it, from contract/.
EXAMPLES = {
    "Customer": ["v2/customers.customer_id.get.200.json"],
    "{ subscriber: Subscriber }": ["v1/subscribers.app_user_id.get.200.json"],
    "{ event: Event }": [f"events/{type}.json" for type in EventType],
}


def test_a_server_reads_grants_and_verifies(up: Up) -> None:
    user, friend = f"node {uuid4()}", f"node_{uuid4()}"
    act(up, "purchase", user, "pro_monthly")
    call(up, "POST", "customers", {"id": friend})
    there = up.connection
    body = body_of(fast_json.encode(sample(EventType.RENEWAL, NOW)), None)
    headers = {
        "Webhook-Id": "evt_1",
        "webhook-timestamp": str(NOW // 1000),
        "webhook-signature": f"v1,b2xk {signature([SECRET], 'evt_1', NOW // 1000, body)}",
    }
    story = {
        "baseUrl": there["base_url"],
        "apiKey": there["api_key"],
        "projectId": there["project_id"],
        "user": user,
        "friend": friend,
        "webhook": {"body": body.decode(), "headers": headers, "secret": SECRET, "now": NOW},
    }
    environment = {**os.environ, "NODE_EXTRA_CA_CERTS": there["ca_cert"], "STORY": json.dumps(story)}
    done = subprocess.run(
        [machine.optional("node"), HERE / "story.mjs"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr


def test_the_code_in_the_readme_can_be_read(tmp_path: Path) -> None:
    found = re.findall(r"```js\n(.*?)```", (CLIENT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(found) == 2
    (tmp_path / "readme.mjs").write_text("\n".join(found))
    done = subprocess.run(
        [machine.optional("node"), "--check", tmp_path / "readme.mjs"], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr


def test_the_types_are_those_of_the_code_and_fit_the_examples(tmp_path: Path) -> None:
    modules = machine.downloaded(HERE)
    compiler: list[str | Path] = [machine.optional("node"), modules / "typescript" / "bin" / "tsc"]

    def compiled(folder: Path, *words: str | Path) -> None:
        done = subprocess.run([*compiler, *words], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stdout

    client = tmp_path / "node_modules" / "latchkey-client"
    shutil.copytree(CLIENT, client)
    written = tmp_path / "written"
    compiled(client, "-p", ".", "--outDir", written)
    for made in written.iterdir():
        assert (CLIENT / made.name).read_text() == made.read_text(), "run tsc in clients/javascript"

    # A caller's code, which uses the package by its name, with the examples of every type.
    lines = ['import type { Customer, Event, Subscriber } from "latchkey-client";']
    for number, (type, path) in enumerate((type, path) for type, paths in EXAMPLES.items() for path in paths):
        shutil.copy(ROOT / "contract" / path, tmp_path / f"example{number}.json")
        lines.append(f'import example{number} from "./example{number}.json" with {{ type: "json" }};')
        lines.append(f"export const shown{number}: {type} = example{number};")
    (tmp_path / "caller.mts").write_text("\n".join(lines))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    compiled(
        tmp_path,
        *("--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2023,dom"),
        # The library's own declarations were checked by the first run.
        *("--resolveJsonModule", "--skipLibCheck", "caller.mts"),
    )
