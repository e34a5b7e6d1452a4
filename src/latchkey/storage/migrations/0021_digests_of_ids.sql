-- The SHA-256 of an app user id, in hex. The Android SDK names a purchase's owner to Google Play in this form.
create function app_user_id_digest(app_user_id text) returns text language sql immutable parallel safe as $$
    select encode(sha256(convert_to(app_user_id, 'UTF8')), 'hex')
$$;
