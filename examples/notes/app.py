"""A small app that takes notes. Taking them is free; exporting them is for users with the entitlement `pro`."""

import time
from typing import Annotated

import jwt
from fastapi import Depends, FastAPI
from fastapi.responses import PlainTextResponse

from latchkey.consumer import Consumer, Settings

settings = Settings.from_env()
consumer = Consumer(settings)
app = FastAPI(lifespan=consumer.lifespan)
consumer.install(app)

ProUser = Annotated[str, Depends(consumer.require_entitlement("pro"))]
notes: dict[str, list[str]] = {}


@app.post("/login/{user}")
def login(user: str) -> PlainTextResponse:
    """Signs anybody in as anybody. Your app asks for a password here, and signs tokens with the same secret."""
    return PlainTextResponse(jwt.encode({"sub": user, "exp": time.time() + 3600}, settings.jwt_secret))


@app.post("/notes/{user}")
def take(user: str, text: str) -> dict[str, int]:
    notes.setdefault(user, []).append(text)
    return {"notes": len(notes[user])}


@app.get("/export")
def export(user: ProUser) -> dict[str, object]:
    return {"user": user, "notes": notes.get(user, [])}
