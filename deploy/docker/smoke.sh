#!/bin/sh
# Builds the image and tries it: `make image`. Needs Docker or Podman (ENGINE=podman), and says loudly if it is missing.
set -eu
cd "$(dirname "$0")/../.."
engine=${ENGINE:-docker}
# Without it, Podman leaves out the health check.
export BUILDAH_FORMAT=docker
image=${IMAGE:-latchkey:smoke}
name=latchkey-smoke-$$

if ! $engine info >/dev/null 2>&1; then
    echo "!!! NOT RUN: $engine does not work here. The image was neither built nor tried." >&2
    exit "${WITHOUT_ENGINE:-1}"
fi

end() {
    $engine rm --force "$name-service" "$name-database" >/dev/null 2>&1 || true
    $engine network rm "$name" >/dev/null 2>&1 || true
}
trap end EXIT INT TERM

$engine build --file deploy/docker/Dockerfile --tag "$image" .
echo "Size: $($engine image inspect --format '{{.Size}}' "$image") bytes"
test "$($engine run --rm --entrypoint id "$image" -u)" = 10001

subnet=172.31.251
$engine network create --subnet "$subnet.0/24" "$name" >/dev/null
$engine run --detach --name "$name-database" --network "$name" --ip "$subnet.2" \
    --env POSTGRES_USER=latchkey --env POSTGRES_PASSWORD=smoke --env POSTGRES_DB=latchkey postgres:17-bookworm >/dev/null
secret_key=$(openssl rand -base64 32)
# As in production: no root, a read-only file system, no capabilities.
run() {
    $engine run --network "$name" --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
        --env LATCHKEY_DATABASE_URL="postgresql://latchkey:smoke@$subnet.2/latchkey" \
        --env LATCHKEY_SECRET_KEY="$secret_key" --env LATCHKEY_BEHIND_PROXY=true --env LATCHKEY_HOST="$subnet.10" "$@"
}
until $engine exec "$name-database" pg_isready --quiet --username latchkey --host 127.0.0.1; do sleep 1; done
run --rm "$image" migrate
run --detach --name "$name-service" --ip "$subnet.10" --health-interval 2s "$image" >/dev/null

healthy() {
    case $engine in
    *podman) $engine healthcheck run "$name-service" >/dev/null 2>&1 ;; # of its own accord Podman checks only with systemd
    *) [ "$($engine inspect --format '{{.State.Health.Status}}' "$name-service")" = healthy ] ;;
    esac
}
for _ in $(seq 120); do
    ! healthy || break
    sleep 1
done
healthy || { $engine logs "$name-service"; exit 1; }
$engine exec "$name-service" python -m latchkey.process.probe ready
$engine stop --time 60 "$name-service" >/dev/null
test "$($engine inspect --format '{{.State.ExitCode}}' "$name-service")" = 0
echo "The image was built, became healthy and ready without root and with a read-only file system, and stopped cleanly."
