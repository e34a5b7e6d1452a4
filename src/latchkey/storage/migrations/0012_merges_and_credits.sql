-- Who was credited by a purchase that has changed hands since is found by the key of the movement.
create index currency_transactions_by_key on currency_transactions (idempotency_key, project_id);

-- A webhook that asked for every type there was asked for all of them. It hears of merged customers too.
update webhooks
set event_types = event_types || '{SUBSCRIBER_ALIAS}'::text[]
where not event_types @> '{SUBSCRIBER_ALIAS}'::text[]
    and event_types @> '{
        INITIAL_PURCHASE, RENEWAL, NON_RENEWING_PURCHASE, CANCELLATION, UNCANCELLATION, TRIAL_STARTED, TRIAL_CANCELLED,
        BILLING_ISSUE, EXPIRATION, REFUND, REFUND_REVERSED, PRODUCT_CHANGE, SUBSCRIPTION_PAUSED, SUBSCRIPTION_EXTENDED,
        TRANSFER, INVOICE_ISSUANCE, TEMPORARY_ENTITLEMENT_GRANT, VIRTUAL_CURRENCY_TRANSACTION, EXPERIMENT_ENROLLMENT
    }'::text[];
