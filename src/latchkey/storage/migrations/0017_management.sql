-- When a customer got an id. Null for ids from before: they are shown with the time the customer was first seen.
alter table aliases add column created_at bigint;

-- What the management API keeps of an app beside its name: bundle id, package name and the like, by field. No secrets.
alter table apps add column details json not null default '{}';

-- A public key ships inside an app, so it is no secret and can be shown again. Null for secret keys, and for public keys
-- from before.
alter table api_keys add column plaintext text;
