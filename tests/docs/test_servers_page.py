"""docs/servers.md: its commands work as they stand."""

import base64
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from uuid import uuid4

from latchkey.subjects.webhooks.delivery.sending.request import signature
from tests.cli.running import Up
from tests.patience import PATIENCE
from tests.web_sdk.shopper import act

PAGE = (Path(__file__).parents[2] / "docs" / "servers.md").read_text(encoding="utf-8")
SECRET = "whsec_" + base64.b64encode(bytes(range(24))).decode()
BODY = '{"api_version":"1.0","event":{"id":"é"}}'


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def shell(script: str, **environment: str) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_requests_are_answered(up: Up) -> None:
    user = f"curl_{uuid4().hex}"
    act(up, "purchase", user, "pro_monthly")
    there = up.connection
    reached = {
        "BASE": there["base_url"],
        "KEY": there["api_key"],
        "PROJECT": there["project_id"],
        "CURL_CA_BUNDLE": there["ca_cert"],
    }
    requests = [one.replace("/ada", f"/{user}") for one in blocks("sh") if "curl" in one]
    customer, subscriber, grants, events, credited = (shell(one, **reached) for one in requests)
    assert json.loads(customer)["active_entitlements"]["items"][0]["entitlement_id"] == "pro"
    assert set(json.loads(subscriber)["subscriber"]["entitlements"]) == {"pro"}
    granted, end = json.JSONDecoder().raw_decode(grants)
    revoked = json.loads(grants[end:])
    held = [{one["entitlement_id"] for one in said["active_entitlements"]["items"]} for said in (granted, revoked)]
    assert held == [{"pro", "team"}, {"pro"}]
    assert json.loads(events)["object"] == json.loads(credited)["object"] == "list"


def test_the_signature_is_computed_by_hand() -> None:
    [script] = [one for one in blocks("sh") if "openssl" in one]
    made = shell(script, SECRET=SECRET, WEBHOOK_ID="evt_1", WEBHOOK_TIMESTAMP="1800000000", BODY=BODY)
    assert f"v1,{made}" == signature([SECRET], "evt_1", 1_800_000_000, BODY.encode())


def test_the_go_program_is_whole() -> None:
    """Compiling it would take a minute of CPU where nothing is cached. It was run when it was written."""
    [program] = blocks("go")
    imports = re.findall(r'^\t"([a-z0-9/]+)"$', program, re.MULTILINE)
    assert all(f"{path.rpartition('/')[2]}." in program for path in imports)
    gofmt = shutil.which("gofmt")
    if gofmt is not None:
        done = subprocess.run([gofmt, "-l"], input=program, capture_output=True, text=True, timeout=PATIENCE)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
