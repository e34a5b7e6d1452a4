"""A project's catalog and settings as V2 shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import quote

from msgspec import UNSET

from latchkey.usecases.currencies import Currency
from latchkey.usecases.entitlements import Entitlement
from latchkey.usecases.experiments import Experiment
from latchkey.usecases.products import Product
from latchkey.usecases.rendering.v2 import page
from latchkey.wire import management as wire
from latchkey.wire.v2 import Page

T = TypeVar("T")
Item = TypeVar("Item")


def project_path(project_id: str, *parts: str) -> str:
    return "/".join(("/v2/projects", *(quote(part, safe="") for part in (project_id, *parts))))


def listed(
    found: Sequence[T], render: Callable[[str, T], Item], name: Callable[[Item], str], limit: int, *path: str
) -> Page[Item]:
    """A page of what was found. One more than `limit` was looked for, so that it is known whether more follow."""
    return page([render(path[0], one) for one in found], name, project_path(*path), limit, None)


def product(project_id: str, one: Product) -> wire.Product:
    return wire.Product(
        id=one.id,
        project_id=project_id,
        display_name=one.display_name,
        kind=one.kind.value,
        duration=one.duration,
        trial_duration=one.trial_duration,
        price=one.price.amount,
        currency=one.price.currency,
        credits=wire.Credits(code=one.credits.code, amount=one.credits.amount) if one.credits is not None else None,
        entitlement_ids=list(one.entitlement_ids),
        created_at=one.created_at,
        deleted_at=UNSET if one.deleted_at is None else one.deleted_at,
    )


def entitlement(project_id: str, one: Entitlement) -> wire.Entitlement:
    return wire.Entitlement(id=one.id, project_id=project_id, display_name=one.display_name, created_at=one.created_at)


def currency(project_id: str, one: Currency) -> wire.VirtualCurrency:
    return wire.VirtualCurrency(
        code=one.code, project_id=project_id, name=one.name, description=one.description, created_at=one.created_at
    )


def experiment(project_id: str, one: Experiment) -> wire.Experiment:
    return wire.Experiment(
        id=one.id,
        project_id=project_id,
        name=one.name,
        variants=[wire.Variant(id=variant.id, weight=variant.weight) for variant in one.variants],
        created_at=one.created_at,
    )
