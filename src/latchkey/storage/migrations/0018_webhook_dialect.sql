-- The form in which a webhook's bodies are sent.
alter table webhooks add column dialect text not null default 'latchkey' check (dialect in ('latchkey', 'revenuecat'));
-- Of the webhook when the delivery was queued or resent, so that all its attempts send the same body. Null is the default.
alter table deliveries add column dialect text;
