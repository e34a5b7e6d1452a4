"""What a link sells, how a page opens the app, and what is no deep link."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.database.sealing import Sealer
from latchkey.domain.catalog import Catalog, Offering, Offerings, Package, PackageProduct, Product, ProductKind
from latchkey.domain.instants import HOUR
from latchkey.domain.money.amounts import Price
from latchkey.domain.refusal import Invalid
from latchkey.subjects.checkout.rules import obfuscated
from latchkey.subjects.checkout.usecases.redemption_token import new_token, opened
from latchkey.subjects.projects.rules import checked_deep_link
from latchkey.subjects.purchase_links.rules import PurchaseLink, offers_of, opens_app

SEALER = Sealer(bytes(32))


@pytest.mark.parametrize("text", ["notes://", "com.example.notes://", "https://example.com/app", "rc-1a2b://redeem/it"])
def test_a_scheme_of_the_app_and_a_universal_link_are_deep_links(text: str) -> None:
    assert checked_deep_link(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "notes", "notes:", "//evil.example", "http://example.com", "https://", "https:///", "javascript://x",
        "javascript:alert(1)", "data://text/html", "file:///etc/passwd", "Notes://", "notes://a?b=c", "notes://a#b",
        "https://good.example@evil.example/", "notes://a\nb", "notes://\"onclick", "notes://%0aalert", "notes://\\evil",
    ],
)  # fmt: skip
def test_everything_else_is_none(text: str) -> None:
    with pytest.raises(Invalid):
        checked_deep_link(text)


@pytest.mark.parametrize(
    ("deep_link", "token", "expected"),
    [
        ("notes://", None, "notes://"),
        ("notes://open/me", None, "notes://open/me"),
        ("notes://", "abc", "notes://redeem_web_purchase?redemption_token=abc"),
        ("notes://open/me", "abc", "notes://redeem_web_purchase?redemption_token=abc"),
        ("https://example.com/app", "abc", "https://example.com/app?redemption_token=abc"),
    ],
)
def test_the_address_that_opens_the_app(deep_link: str, token: str | None, expected: str) -> None:
    assert opens_app(deep_link, token) == expected


@pytest.mark.parametrize(
    ("email", "shown"),
    [("ada@example.com", "a***@e***.com"), ("a@b.co.uk", "a***@b***.uk"), (None, ""), ("", ""), ("@x", "")],
)
def test_an_address_is_shown_so_that_only_its_owner_recognises_it(email: str | None, shown: str) -> None:
    assert obfuscated(email) == shown


def sold(id: str, *apps: str, deleted: bool = False) -> Product:
    kind, price = ProductKind.ONE_TIME, Price(1, "USD")
    return Product(id=id, kind=kind, price=price, apps=apps, deleted_at=1 if deleted else None)


def test_an_offering_sells_what_is_on_sale_in_this_app_once_and_in_its_order() -> None:
    products = [sold("b"), sold("a", "mine"), sold("theirs", "other"), sold("old", deleted=True)]
    ids = ("b", "theirs", "old", "gone", "a", "b")
    packages = tuple(Package(id, (PackageProduct(id),)) for id in ids)
    offering = Offering(id="of_1", lookup_key="default", display_name="", packages=packages)
    catalog = Catalog({one.id: one for one in products}, offerings=Offerings(offerings=(offering,)))

    def ids_of(archived_at: int | None = None, **what: str) -> list[tuple[str, str | None]]:
        link = PurchaseLink(id="x", project_id="p", app_id="mine", created_at=1, archived_at=archived_at, **what)
        return [(offer.product.id, offer.offering) for offer in offers_of(link, catalog, "stripe")]

    assert ids_of(offering_id="of_1") == [("b", "default"), ("a", "default")]
    assert ids_of(offering_id="of_gone") == []
    assert ids_of(product_id="a") == [("a", None)]
    assert ids_of(product_id="old") == ids_of(product_id="theirs") == ids_of(product_id="b:cheap") == []
    assert ids_of(offering_id="of_1", archived_at=2) == []


@given(st.binary(min_size=32, max_size=32), st.integers(0, 2**45), st.data())
def test_a_token_is_opened_by_this_service_alone_and_only_unchanged(hash: bytes, now: int, data: st.DataObject) -> None:
    token = new_token(SEALER, hash, now)
    assert opened(SEALER, token) == (hash, now + HOUR)
    assert opened(Sealer(bytes([1] * 32)), token) is None
    # The last character has bits that stand for nothing.
    place = data.draw(st.integers(0, len(token) - 2))
    other = data.draw(st.sampled_from("AbZ09-_").filter(lambda one: one != token[place]))
    assert opened(SEALER, token[:place] + other + token[place + 1 :]) is None


@given(st.text())
def test_any_other_text_is_no_token(text: str) -> None:
    assert opened(SEALER, text) is None
