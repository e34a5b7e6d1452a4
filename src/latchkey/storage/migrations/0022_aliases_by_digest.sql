create index concurrently aliases_by_digest on aliases (project_id, app_user_id_digest(app_user_id));
