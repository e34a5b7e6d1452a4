"""The page and its files. Nothing inline and nothing from other hosts, so that the policy can be strict."""

from __future__ import annotations

from importlib.resources import files

from latchkey.runtime.script import web_module

_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_OWN = ("style.css", "scene.css", "app.js", "server.js", "words.js", "icon.svg")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)


def policy() -> dict[str, str]:
    return {
        "Content-Security-Policy": _POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }


def _read(name: str) -> tuple[str, str]:
    content = files("latchkey.cli.demo_app").joinpath("web", name).read_text(encoding="utf-8")
    return content, _KINDS[name.rsplit(".")[-1]]


# Content and type by path.
PAGES = {
    "/": _read("index.html"),
    **{f"/demo/{name}": _read(name) for name in _OWN},
    # The same module that an app uses in its own web content.
    "/demo/push.js": (web_module(), _KINDS["js"]),
}
