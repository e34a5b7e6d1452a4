"""Connects the app to a running `latchkey up`: creates a webhook for it, and prints its settings."""

import json
import secrets
import ssl
import urllib.request
from typing import Any

URL = "https://127.0.0.1:9443/webhooks/billing"
NAME = "Notes"

with open(".latchkey/connection.json") as file:
    service = json.load(file)
trusted = ssl.create_default_context(cafile=service["ca_cert"])
webhooks = f"{service['base_url']}/v2/projects/{service['project_id']}/integrations/webhooks"


def ask(method: str, url: str, body: object = None) -> Any:
    headers = {"Authorization": f"Bearer {service['api_key']}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, context=trusted) as reply:
        return json.load(reply)


for webhook in ask("GET", webhooks)["items"]:
    if webhook["name"] == NAME:
        ask("DELETE", f"{webhooks}/{webhook['id']}")
secret = secrets.token_urlsafe(32)
made = ask("POST", webhooks, {"name": NAME, "url": URL, "authorization_header": f"Bearer {secret}"})

for name, value in {
    "SERVICE_URL": service["base_url"],
    "SERVICE_CA": service["ca_cert"],
    "PROJECT_ID": service["project_id"],
    "API_KEY": service["api_key"],
    "WEBHOOK_SECRET": secret,
    "SIGNING_SECRETS": made["signing_secret"],
    "JWT_SECRET": secrets.token_urlsafe(32),
    "DATABASE_URL": "sqlite:///notes.db",
}.items():
    print(f"export LATCHKEY_CONSUMER_{name}={value!r}")
