#!/bin/sh
# Makes the secrets of compose.yaml, once. Keep secret_key as safe as the database: without it, webhook secrets are lost.
set -eu
cd "$(dirname "$0")"
# Others on this machine cannot enter the folder. The files themselves must be readable for the containers' users.
mkdir -p secrets
chmod 700 secrets
if [ -e secrets/secret_key ]; then
    echo "The secrets exist already; nothing was changed." >&2
    exit 1
fi
password=$(openssl rand -hex 24)
printf '%s\n' "$password" >secrets/database_password
printf 'postgresql://latchkey:%s@database/latchkey\n' "$password" >secrets/database_url
openssl rand -base64 32 >secrets/secret_key
chmod 644 secrets/*
echo "Made $(pwd)/secrets"
