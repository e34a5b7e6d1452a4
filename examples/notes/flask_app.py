"""`app.py` as a Flask app."""

import time

import jwt
from flask import Flask, Response, g, request

from latchkey.consumer import Settings
from latchkey.consumer.flask import FlaskConsumer

settings = Settings.from_env()
consumer = FlaskConsumer(settings)
app = Flask(__name__)
app.register_blueprint(consumer.blueprint)

notes: dict[str, list[str]] = {}


@app.post("/login/<user>")
def login(user: str) -> Response:
    """Signs anybody in as anybody. Your app asks for a password here, and signs tokens with the same secret."""
    token = jwt.encode({"sub": user, "exp": time.time() + 3600}, settings.jwt_secret)
    return Response(token, mimetype="text/plain")


@app.post("/notes/<user>")
def take(user: str) -> dict[str, int]:
    notes.setdefault(user, []).append(request.args["text"])
    return {"notes": len(notes[user])}


@app.get("/export")
@consumer.require_entitlement("pro")
def export() -> dict[str, object]:
    return {"user": g.app_user_id, "notes": notes.get(g.app_user_id, [])}
