"""How an operator fills offerings: route, body, query, and the path parameter whose value is the new id."""

from typing import Any

ASKS: tuple[tuple[str, Any, str, str], ...] = (
    (
        "POST /offerings",
        {"lookup_key": "sale", "display_name": "Summer sale", "metadata": {"color": "red"}},
        "",
        "offering_id",
    ),
    ("POST /offerings/{offering_id}", {"display_name": "Sale"}, "", ""),
    (
        "POST /offerings/{offering_id}/packages",
        {"lookup_key": "$rc_annual", "display_name": "Yearly", "position": 1},
        "",
        "package_id",
    ),
    ("POST /packages/{package_id}", {"display_name": "One year"}, "", ""),
    ("PATCH /packages/{package_id}", {"position": 1}, "", ""),
    (
        "POST /packages/{package_id}/actions/attach_products",
        {"products": [{"product_id": "pro_yearly", "eligibility_criteria": "all"}]},
        "",
        "",
    ),
    ("GET /packages/{package_id}", None, "?expand=product", ""),
    ("GET /packages/{package_id}/products", None, "", ""),
    ("GET /offerings/{offering_id}/packages", None, "", ""),
    ("GET /offerings/{offering_id}", None, "?expand=package", ""),
    ("GET /offerings", None, "?limit=2", ""),
    ("PATCH /offerings/{offering_id}", {"is_current": False}, "", ""),
    (
        "PATCH /experiments/{experiment_id}",
        {"variants": [{"id": "b", "offering_id": "ofrng_demo_team"}]},
        "",
        "",
    ),
    ("POST /experiments/{experiment_id}", {"variants": [{"id": "b", "offering_id": None}]}, "", ""),
    ("POST /v1/subscribers/{app_user_id}/offerings/{offering_id}/override", None, "", ""),
    ("POST /customers/{customer_id}/actions/assign_offering", {"offering_id": "ofrng_demo_team"}, "", ""),
    ("DELETE /v1/subscribers/{app_user_id}/offerings/override", None, "", ""),
    ("POST /placements", {"id": "settings", "display_name": "In the settings", "offering_id": None}, "", ""),
    ("GET /placements", None, "", ""),
    ("GET /placements/{placement_id}", None, "", ""),
    ("POST /placements/{placement_id}", {"is_fallback": True}, "", ""),
    ("PATCH /placements/{placement_id}", {"is_fallback": False}, "", ""),
    ("DELETE /placements/{placement_id}", None, "", ""),
    ("POST /packages/{package_id}/actions/detach_products", {"product_ids": ["pro_yearly"]}, "", ""),
    ("DELETE /packages/{package_id}", None, "", ""),
    ("DELETE /offerings/{offering_id}", None, "", ""),
)
