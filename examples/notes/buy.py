"""Lets a user act in the test store: `buy.py dora pro_monthly` to buy, `buy.py dora pro_monthly refund` and so on."""

import json
import ssl
import sys
import urllib.request

user, product = sys.argv[1:3]
action = sys.argv[3] if len(sys.argv) > 3 else "purchase"

with open(".latchkey/connection.json") as file:
    service = json.load(file)
request = urllib.request.Request(
    f"{service['base_url']}/v2/projects/{service['project_id']}/test_store/actions",
    json.dumps({"action": action, "app_user_id": user, "product_id": product}).encode(),
    {"Authorization": f"Bearer {service['api_key']}", "Content-Type": "application/json"},
)
with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=service["ca_cert"])) as reply:
    print(*(event["type"] for event in json.load(reply)["events"]))
