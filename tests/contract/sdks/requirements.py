"""What the parsers of the vendor's SDKs require of a reply. Pure data.

A path goes through maps and lists with `*`. A kind with `?` may be null, one in brackets may be missing. `one of:`
names all values that are understood.
"""

Requirements = dict[str, str]

_PERIODS = "one of:normal,intro,trial,prepaid"
_OWNERS = "one of:PURCHASED,FAMILY_SHARED,UNKNOWN"

_DATES_OF_A_SUBSCRIPTION: Requirements = {
    f"subscriber.subscriptions.*.{name}": "[date?]"
    for name in (
        "expires_date",
        "unsubscribe_detected_at",
        "billing_issues_detected_at",
        "grace_period_expires_date",
        "refunded_at",
        "auto_resume_date",
    )
}
_OPTIONS_OF_A_SUBSCRIPTION: Requirements = {
    "subscriber.subscriptions.*.store_transaction_id": "[text?]",
    "subscriber.subscriptions.*.display_name": "[text?]",
    "subscriber.subscriptions.*.product_plan_identifier": "[text?]",
    "subscriber.subscriptions.*.management_url": "[url?]",
    "subscriber.subscriptions.*.price": "[map?]",
    "subscriber.subscriptions.*.price.amount": "[number]",
    "subscriber.subscriptions.*.price.currency": "[text]",
    "subscriber.non_subscriptions.*.*.store_transaction_id": "[text?]",
    "subscriber.non_subscriptions.*.*.display_name": "[text?]",
    "subscriber.non_subscriptions.*.*.price": "[map?]",
    "subscriber.non_subscriptions.*.*.price.amount": "[number]",
    "subscriber.non_subscriptions.*.*.price.currency": "[text]",
}
_COMMON: Requirements = {
    **_DATES_OF_A_SUBSCRIPTION,
    **_OPTIONS_OF_A_SUBSCRIPTION,
    "request_date": "date",
    "subscriber": "map",
    "subscriber.original_app_user_id": "text",
    "subscriber.first_seen": "date",
    "subscriber.management_url": "[url?]",
    "subscriber.original_purchase_date": "[date?]",
    "subscriber.original_application_version": "[text?]",
}

CUSTOMER_INFO: dict[str, Requirements] = {
    "ios": {
        **_COMMON,
        "subscriber.subscriber_attributes.*.updated_at_ms": "[int]",
        "subscriber.subscriptions.*.purchase_date": "date",
        "subscriber.subscriptions.*.original_purchase_date": "[date?]",
        "subscriber.non_subscriptions.*.*.purchase_date": "date",
        "subscriber.non_subscriptions.*.*.is_sandbox": "bool",
        "subscriber.entitlements.*.product_identifier": "text",
        "subscriber.entitlements.*.purchase_date": "[date?]",
        "subscriber.entitlements.*.expires_date": "[date?]",
    },
    "android": {
        **_COMMON,
        "subscriber.subscriptions": "map",
        "subscriber.non_subscriptions": "map",
        "subscriber.subscriptions.*.purchase_date": "date",
        "subscriber.subscriptions.*.original_purchase_date": "date",
        "subscriber.subscriptions.*.store": "text",
        "subscriber.subscriptions.*.is_sandbox": "bool",
        "subscriber.subscriptions.*.period_type": _PERIODS,
        "subscriber.subscriptions.*.ownership_type": _OWNERS,
        "subscriber.non_subscriptions.*.*.id": "text",
        "subscriber.non_subscriptions.*.*.purchase_date": "date",
        "subscriber.non_subscriptions.*.*.original_purchase_date": "date",
        "subscriber.non_subscriptions.*.*.store": "text",
        "subscriber.non_subscriptions.*.*.is_sandbox": "bool",
        "subscriber.entitlements.*.product_identifier": "text",
        "subscriber.entitlements.*.purchase_date": "date",
        "subscriber.entitlements.*.expires_date": "[date?]",
        "subscriber.entitlements.*.product_plan_identifier": "[text]",
    },
    "js": {
        **_COMMON,
        "subscriber.subscriptions": "map",
        "subscriber.non_subscriptions": "map",
        "subscriber.entitlements": "map",
        "subscriber.subscriptions.*.purchase_date": "date",
        "subscriber.subscriptions.*.store": "text",
        "subscriber.subscriptions.*.period_type": _PERIODS,
        "subscriber.non_subscriptions.*.*.id": "text",
        "subscriber.non_subscriptions.*.*.purchase_date": "date",
        "subscriber.entitlements.*.product_identifier": "text",
        "subscriber.entitlements.*.purchase_date": "date",
        "subscriber.entitlements.*.expires_date": "date?",
    },
}

OFFERINGS: dict[str, Requirements] = {
    sdk: {
        "current_offering_id": "text?",
        "offerings": "list",
        "offerings.*.identifier": "text",
        "offerings.*.description": "text",
        "offerings.*.metadata": "[map?]",
        "offerings.*.packages": "list",
        "offerings.*.packages.*.identifier": "text",
        "offerings.*.packages.*.platform_product_identifier": "text",
        "offerings.*.packages.*.platform_product_plan_identifier": "[text?]",
        "offerings.*.packages.*.web_checkout_url": "[url]",
        "offerings.*.web_checkout_url": "[url]",
        "offerings.*.paywall_components": "[null]",
        "offerings.*.paywall": "[null]",
        "placements": "[map?]",
        "placements.fallback_offering_id": "[text?]",
        "placements.offering_ids_by_placement": "[map?]",
        "placements.offering_ids_by_placement.*": "[text?]",
        "targeting": "[map?]",
        "targeting.revision": "[int]",
        "targeting.rule_id": "[text]",
        "ui_config": "[null]",
    }
    for sdk in ("ios", "android", "js")
}

_PHASES = ("base", "trial", "intro_price", "discount")
_OPTION = "product_details.*.purchase_options.*"
PRODUCTS: Requirements = {
    "product_details": "list",
    "product_details.*.identifier": "text",
    "product_details.*.product_type": "one of:subscription,consumable,non_consumable",
    "product_details.*.title": "text",
    "product_details.*.description": "text?",
    "product_details.*.default_purchase_option_id": "text",
    "product_details.*.purchase_options": "map",
    f"{_OPTION}.id": "text",
    f"{_OPTION}.price_id": "text",
    f"{_OPTION}.base_price.amount_micros": "[int]",
    f"{_OPTION}.base_price.currency": "[text]",
    **{f"{_OPTION}.{phase}.period_duration": "[duration]" for phase in _PHASES},
    **{f"{_OPTION}.{phase}.cycle_count": "[int]" for phase in _PHASES},
    **{f"{_OPTION}.{phase}.price.amount_micros": "[int]" for phase in _PHASES},
    **{f"{_OPTION}.{phase}.price.currency": "[text]" for phase in _PHASES},
}

MAPPING: Requirements = {
    "product_entitlement_mapping": "map",
    "product_entitlement_mapping.*.product_identifier": "text",
    "product_entitlement_mapping.*.base_plan_id": "[text]",
    "product_entitlement_mapping.*.entitlements": "list",
    "product_entitlement_mapping.*.entitlements.*": "text",
}

CURRENCIES: Requirements = {
    "virtual_currencies": "map",
    "virtual_currencies.*.balance": "int",
    "virtual_currencies.*.name": "text",
    "virtual_currencies.*.code": "text",
    "virtual_currencies.*.description": "[text?]",
}

OFFERS: Requirements = {
    "offers": "list",
    "offers.*.key_id": "text",
    "offers.*.offer_id": "text",
    "offers.*.product_id": "text",
    "offers.*.signature_data": "[map?]",
    "offers.*.signature_data.nonce": "[text]",
    "offers.*.signature_data.signature": "[text]",
    "offers.*.signature_data.timestamp": "[int]",
    "offers.*.signature_error": "[map?]",
    "offers.*.signature_error.code": "[int]",
    "offers.*.signature_error.message": "[text]",
}

INTRO_ELIGIBILITY: Requirements = {"*": "bool?"}
RESTORE_ELIGIBILITY: Requirements = {"is_purchase_allowed_by_restore_behavior": "bool"}
HEALTH_REPORT: Requirements = {"report_logs": "bool"}
ERROR: Requirements = {"code": "int", "message": "text"}
ATTRIBUTE_ERRORS: Requirements = {
    **ERROR,
    "attribute_errors": "list",
    "attribute_errors.*.key_name": "text",
    "attribute_errors.*.message": "text",
}
RECEIPT: Requirements = {
    "purchased_products.*.should_consume": "[bool]",
    "attributes_error_response.attribute_errors.*.key_name": "[text]",
    "attributes_error_response.attribute_errors.*.message": "[text]",
}
# Any JSON at all.
BRANDING: Requirements = {
    "id": "text",
    "app_name": "text?",
    "app_icon": "text?",
    "app_icon_webp": "text?",
    "app_wordmark": "text?",
    "app_wordmark_webp": "text?",
    "appearance": "map?",
    "brand_font_config": "map?",
    "support_email": "[text?]",
    "gateway_tax_collection_enabled": "bool",
}


def _elements(path: str) -> Requirements:
    return {
        f"{path}.mode": "one of:payment,setup",
        f"{path}.payment_method_types.*": "text",
        f"{path}.setup_future_usage": "one of:off_session,on_session",
        f"{path}.amount": "[int]",
        f"{path}.currency": "[text]",
    }


def _form(path: str) -> Requirements:
    # The SDK says that the configuration is missing if one of these is.
    names = {f"{path}.stripe_account_id": "text", f"{path}.publishable_api_key": "text"}
    return {path: "map", **names, **_elements(f"{path}.elements_configuration")}


_STARTED: Requirements = {"operation_session_id": "text", "checkout_mode": "one of:purchase", "gateway_params": "map"}
CHECKOUT_START: dict[str, Requirements] = {
    "stripe": {
        **_STARTED,
        "stripe_billing_params.client_secret": "text",
        "stripe_billing_params.environment": "one of:production,sandbox",
        "stripe_billing_params.publishable_api_key": "text",
        "stripe_billing_params.stripe_account_id": "text",
    },
    "rc_billing": {**_STARTED, **_form("gateway_params")},
}
CHECKOUT_PREPARE: Requirements = _form("stripe_gateway_params")
CHECKOUT_PRICING: Requirements = {
    "operation_session_id": "text",
    "currency": "text",
    "total_amount_in_micros": "int",
    "tax_amount_in_micros": "int",
    "total_excluding_tax_in_micros": "int",
    "tax_inclusive": "bool",
    "tax_breakdown": "list",
    **_elements("gateway_params.elements_configuration"),
}
CHECKOUT_COMPLETE: Requirements = {"operation_session_id": "text", "gateway_params.client_secret": "text"}
CHECKOUT_STATUS: Requirements = {
    "operation.status": "one of:started,in_progress,succeeded,failed",
    "operation.is_expired": "bool",
}
CHECKOUT_SUCCEEDED: Requirements = {
    "operation.store_transaction_identifier": "text",
    "operation.product_identifier": "text",
    "operation.purchase_date": "date",
}
ANYTHING: Requirements = {}
