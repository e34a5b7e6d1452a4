"""Receives webhooks of Paddle Billing, and tells Latchkey how the purchases stand."""

import hashlib
import hmac
import json
import os
import ssl
import time
import urllib.error
import urllib.request
from datetime import datetime
from typing import Annotated, Any

from fastapi import FastAPI, Header, HTTPException, Request
from fastapi.concurrency import run_in_threadpool

SECRETS = os.environ["PADDLE_WEBHOOK_SECRETS"].split(",")  # the new one and the old one while you change it
PADDLE_API, PADDLE_KEY = os.environ.get("PADDLE_API_URL", "https://api.paddle.com"), os.environ["PADDLE_API_KEY"]
LATCHKEY = f"{os.environ['LATCHKEY_URL']}/v2/projects/{os.environ['LATCHKEY_PROJECT']}/purchases"
LATCHKEY_KEY = os.environ["LATCHKEY_SECRET_KEY"]
TRUSTED = ssl.create_default_context(cafile=os.environ.get("LATCHKEY_CA"))
# From Paddle's price ids to products of your catalog. A price that is not listed is a product with the price's id.
PRODUCTS: dict[str, str] = json.loads(os.environ.get("PADDLE_PRODUCTS", "{}"))
SANDBOX = "sandbox" in PADDLE_API
TOLERANCE_SECONDS = 300
WITHOUT_DECIMALS = {"CLP", "JPY", "KRW", "VND"}

app = FastAPI()


@app.post("/paddle")
async def receive(request: Request, paddle_signature: Annotated[str, Header()] = "") -> dict[str, str]:
    body = await request.body()
    if not genuine(paddle_signature, body, time.time()):
        raise HTTPException(401, "The signature is wrong or too old.")
    return {"outcome": await run_in_threadpool(take, json.loads(body))}


def take(told: dict[str, Any]) -> str:
    snapshot = snapshot_of(told)
    return feed(snapshot) if snapshot is not None else "ignored"


def genuine(header: str, body: bytes, now: float) -> bool:
    """The header is `ts=…;h1=…`, with an `h1` for each secret that is valid."""
    parts = [part.partition("=") for part in header.split(";")]
    at = next((value for name, _, value in parts if name == "ts"), "")
    # No longer than seconds ever are: Python refuses to read a number of thousands of digits.
    if not at.isascii() or not at.isdigit() or len(at) > 12 or abs(now - int(at)) > TOLERANCE_SECONDS:
        return False
    signed = f"{at}:".encode() + body
    right = [hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest() for secret in SECRETS]
    sent = [value for name, _, value in parts if name == "h1"]
    return any(hmac.compare_digest(expected.encode(), other.encode()) for expected in right for other in sent)


def snapshot_of(told: dict[str, Any]) -> dict[str, Any] | None:
    """None for what says nothing about access or money."""
    kind, data = told["event_type"], told["data"]
    if kind.startswith("subscription."):
        return of_subscription(data, ms(told["occurred_at"]))
    if kind == "transaction.completed":
        return of_transaction(data)
    if kind.startswith("adjustment.") and data["status"] == "approved":
        # It names a transaction. How that stands now, Paddle knows.
        return of_transaction(ask_paddle(f"/transactions/{data['transaction_id']}?include=adjustments"))
    return None


def of_subscription(data: dict[str, Any], as_of: int) -> dict[str, Any]:
    """The status. What was paid comes with transactions, except a trial, which costs nothing."""
    period, change = data.get("current_billing_period"), data.get("scheduled_change") or {}
    item = data["items"][0]
    said: dict[str, Any] = {"store_subscription_identifier": data["id"], "auto_renew": True}
    if data["status"] == "trialing":
        trial = {"transaction_id": f"{data['id']}/trial", "product_id": product_of(item), "period_type": "trial"}
        dates = item["trial_dates"]
        said["periods"] = [trial | {"purchased_at": ms(dates["starts_at"]), "expires_at": ms(dates["ends_at"])}]
    if data["status"] == "past_due" and period:
        # Paddle tries for weeks. Here access stays until the end of the period that was not paid: it is your choice.
        said |= {"billing_issues_detected_at": min(ms(period["starts_at"]), as_of)}
        said |= {"grace_period_expires_at": ms(period["ends_at"])}
    if data["status"] == "canceled":
        said |= {"auto_renew": False, "ended_reason": "UNSUBSCRIBE", "ended_at": ms(data["canceled_at"])}
    elif change.get("action") == "cancel":
        said |= {"auto_renew": False}
    elif change.get("action") == "pause" and change.get("resume_at"):
        said |= {"auto_resume_at": ms(change["resume_at"])}
    elif change.get("action") == "resume":
        said |= {"auto_resume_at": ms(change["effective_at"])}
    elif change.get("action") == "pause" or data["status"] == "paused":
        said |= {"auto_renew": False, "cancellation_reason": "SUBSCRIPTION_PAUSED"}
    return named(data, as_of) | {"subscription": said}


def of_transaction(data: dict[str, Any]) -> dict[str, Any] | None:
    """What was paid and what went back, and nothing about renewal."""
    paid_at = ms(data["billed_at"])
    item, totals = data["items"][0], data["details"]["totals"]
    if totals["total"] == "0" and item["price"].get("trial_period"):
        return None  # the checkout of a trial
    price, currency = amount(totals["total"], data["currency_code"]), data["currency_code"]
    payment = {"product_id": product_of(item), "purchased_at": paid_at, "price": price, "currency": currency}
    refunds = [refund for refund in data.get("adjustments", []) if refund["action"] in ("refund", "chargeback")]
    approved = [refund for refund in refunds if refund["status"] == "approved"]
    back = sum(int(refund["totals"]["total"]) for refund in approved)
    as_of = max([paid_at, *(ms(refund["updated_at"]) for refund in approved)])
    if back >= int(totals["total"]) > 0:
        payment |= {"refunded_at": as_of}
    elif back:
        payment |= {"refunded_amount": amount(str(back), currency)}
    if data.get("subscription_id") is None:
        return named(data, as_of) | {"purchase": {"store_purchase_identifier": data["id"], **payment}}
    period = {"transaction_id": data["id"], "expires_at": ms(data["billing_period"]["ends_at"]), **payment}
    if data["origin"].startswith("subscription_"):
        period |= {"cause": "renewal"}
    said = {"store_subscription_identifier": data["subscription_id"], "periods": [period]}
    return named(data, as_of) | {"subscription": said}


def named(data: dict[str, Any], as_of: int) -> dict[str, Any]:
    """Your checkout gives Paddle the user: `customData: {app_user_id: …}`."""
    who = (data.get("custom_data") or {}).get("app_user_id")
    environment = "sandbox" if SANDBOX else "production"
    return {"store": "paddle", "app_user_id": who, "as_of": as_of, "environment": environment}


def product_of(item: dict[str, Any]) -> str:
    return PRODUCTS.get(item["price"]["id"], item["price"]["id"])


def amount(smallest: str, currency: str) -> float:
    return int(smallest) / (1 if currency in WITHOUT_DECIMALS else 100)


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def feed(snapshot: dict[str, Any]) -> str:
    status, answer = ask(LATCHKEY, LATCHKEY_KEY, snapshot)
    if status == 409 and answer.get("param") == "app_user_id":
        # It was moved to another customer since. It is still the same purchase.
        status, answer = ask(LATCHKEY, LATCHKEY_KEY, snapshot | {"app_user_id": None})
    if status == 200:
        return str(answer["outcome"])
    print(f"Latchkey answered {status}: {answer.get('message')}", flush=True)
    # Paddle sends it again later: by then the payment that this needs, or the product, may be there.
    raise HTTPException(503, "Not taken in yet.")


def ask_paddle(path: str) -> dict[str, Any]:
    status, answer = ask(PADDLE_API + path, PADDLE_KEY)
    if status != 200:
        raise HTTPException(503, "Paddle cannot be asked now.")
    found: dict[str, Any] = answer["data"]
    return found


def ask(url: str, key: str, body: object = None) -> tuple[int, dict[str, Any]]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body is not None else None
    try:
        request = urllib.request.Request(url, data, headers)
        with urllib.request.urlopen(request, timeout=20, context=TRUSTED) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"{}")
    except OSError:
        return 0, {}
