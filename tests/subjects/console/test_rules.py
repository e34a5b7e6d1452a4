"""What a role may send from the console."""

import pytest
from fastapi.routing import APIRoute

from latchkey.dashboard.page import ACTIONS, Needs
from latchkey.process.dashboard_application import EVERY_PAGE
from latchkey.process.http_application import routes
from latchkey.subjects.accounts.rules import Permission
from latchkey.subjects.console.rules import needed, scopes

PROJECT = "/v2/projects/{project_id}"
GRANTS = {"customer.granted"}


@pytest.mark.parametrize(
    ("method", "route", "action", "permission"),
    [
        ("GET", f"{PROJECT}/customers/{{customer_id}}", None, Permission.READ),
        (
            "POST",
            f"{PROJECT}/customers/{{id}}/actions/grant_entitlement",
            "customer.granted",
            Permission.GRANT,
        ),
        ("POST", f"{PROJECT}/products", "product.created", Permission.MANAGE),
        # Without a name in the audit log.
        ("POST", f"{PROJECT}/test_store/actions", None, Permission.MANAGE),
        ("DELETE", f"{PROJECT}/customers/{{customer_id}}", "customer.deleted", Permission.MANAGE),
        # Of V1.
        ("GET", "/v1/subscribers/{app_user_id}", None, Permission.MANAGE),
        ("POST", "/v1/subscribers/{app_user_id}/entitlements/{e}/promotional", "customer.granted", Permission.MANAGE),
        ("GET", "/rcbilling/v1/branding", None, Permission.MANAGE),
    ],
)
def test_an_operation_needs_what_its_page_needs(
    method: str, route: str, action: str | None, permission: Permission
) -> None:
    assert needed(method, route, action, GRANTS) is permission


def test_a_member_who_only_reads_has_no_scope_to_write() -> None:
    assert scopes(Permission.READ, manages=False) == {"read"}
    assert scopes(Permission.GRANT, manages=False) == {"read", "write"}
    assert scopes(Permission.READ, manages=True) == {"read", "write"}


def test_support_changes_what_the_pages_let_them_and_nothing_else() -> None:
    """Add an operation only with a reason: it is open to everybody with the role support."""
    assert EVERY_PAGE
    grants = {action for action, needs in ACTIONS.items() if needs is Needs.GRANT}
    found = {
        f"{method} {route.path.removeprefix(PROJECT)}"
        for route in routes().routes
        if isinstance(route, APIRoute) and route.include_in_schema
        for method in route.methods or ()
        if needed(method, route.path, getattr(route.endpoint, "audited_as", None), grants) is Permission.GRANT
    }
    assert found == {
        "POST /customers/{customer_id}/actions/grant_entitlement",
        "POST /customers/{customer_id}/actions/revoke_granted_entitlement",
        "POST /bulk_grants",
        "POST /bulk_grants/{bulk_grant_id}/actions/start",
        "POST /bulk_grants/{bulk_grant_id}/actions/stop",
        "POST /customer_segments",
        "DELETE /customer_segments/{segment_id}",
    }
