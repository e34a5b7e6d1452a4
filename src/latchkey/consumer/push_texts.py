"""The texts of push notifications, by occasion and language."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct

from latchkey.consumer.rules.timestamps import Ms, to_iso
from latchkey.push.push_notification import PushNotification

OCCASIONS = ("billing_issue", "trial_ending", "expired", "refunded", "granted")


class Text(Struct, frozen=True, forbid_unknown_fields=True):
    heading: str
    content: str


Texts = Mapping[str, Mapping[str, Text]]


def read_texts(path: str = "") -> Texts:
    """The built-in texts, overridden by those in the file. Raises ValueError for a file that cannot be used."""
    own = _decoded(files("latchkey.consumer").joinpath("push_texts.toml").read_bytes())
    if not path:
        return own
    given = _decoded(Path(path).read_bytes())
    if strange := sorted(set(given) - set(OCCASIONS)):
        raise ValueError(f"{path} has a text for {strange[0]!r}; there are {', '.join(OCCASIONS)}.")
    return {occasion: {**own[occasion], **given.get(occasion, {})} for occasion in own}


def notification(texts: Mapping[str, Text], *, product_id: str | None, ends_at: Ms | None) -> PushNotification:
    values = {"{product}": product_id or "", "{date}": to_iso(ends_at)[:10] if ends_at is not None else ""}

    def filled(words: str) -> str:
        for name, value in values.items():
            words = words.replace(name, value)
        return words

    return PushNotification(
        contents={language: filled(text.content) for language, text in texts.items()},
        headings={language: filled(text.heading) for language, text in texts.items()},
    )


def _decoded(raw: bytes) -> dict[str, dict[str, Text]]:
    return msgspec.toml.decode(raw, type=dict[str, dict[str, Text]])
