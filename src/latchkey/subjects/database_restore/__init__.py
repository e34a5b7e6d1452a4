"""What has to be done after the database was restored, and `latchkey backup` and `restore`. Begin with `usecases.py`;
`database/database_identity.py` recognises a restore."""
