#!/bin/sh
# Builds the image and tries it: `make image`. Needs a Docker engine, and says loudly if there is none.
set -eu
cd "$(dirname "$0")/../.."
image=${IMAGE:-latchkey:smoke}
name=latchkey-smoke-$$

if ! docker info >/dev/null 2>&1; then
    echo "!!! NOT RUN: there is no Docker engine here. The image was neither built nor tried." >&2
    exit "${WITHOUT_ENGINE:-1}"
fi

end() {
    docker rm --force "$name-service" "$name-database" >/dev/null 2>&1 || true
    docker network rm "$name" >/dev/null 2>&1 || true
    rm -rf "$work"
}
work=$(mktemp -d)
trap end EXIT INT TERM

docker build --file deploy/docker/Dockerfile --tag "$image" .
echo "Size: $(docker image inspect --format '{{.Size}}' "$image") bytes"
test "$(docker run --rm --entrypoint id "$image" -u)" = 10001

subnet=172.31.251
docker network create --subnet "$subnet.0/24" "$name" >/dev/null
docker run --detach --name "$name-database" --network "$name" --ip "$subnet.2" \
    --env POSTGRES_USER=latchkey --env POSTGRES_PASSWORD=smoke --env POSTGRES_DB=latchkey postgres:17-bookworm >/dev/null
secret_key=$(openssl rand -base64 32)
# As in production: no root, a read-only file system, no capabilities.
run() {
    docker run --network "$name" --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
        --env LATCHKEY_DATABASE_URL="postgresql://latchkey:smoke@$subnet.2/latchkey" \
        --env LATCHKEY_SECRET_KEY="$secret_key" --env LATCHKEY_BEHIND_PROXY=true --env LATCHKEY_HOST="$subnet.10" "$@"
}
until docker exec "$name-database" pg_isready --quiet --username latchkey --host 127.0.0.1; do sleep 1; done
run --rm "$image" migrate
run --detach --name "$name-service" --ip "$subnet.10" --health-interval 2s "$image" >/dev/null

state() { docker inspect --format '{{.State.Health.Status}}' "$name-service"; }
for _ in $(seq 120); do
    [ "$(state)" != healthy ] || break
    sleep 1
done
[ "$(state)" = healthy ] || { docker logs "$name-service"; exit 1; }
docker exec "$name-service" python -m latchkey.cli.probe ready
docker stop --time 60 "$name-service" >/dev/null
test "$(docker inspect --format '{{.State.ExitCode}}' "$name-service")" = 0
echo "The image was built, became healthy and ready without root and with a read-only file system, and stopped cleanly."
