#!/bin/sh
# Renew the digests of the images that docker-compose.yml and the Dockerfile name, from what their tags now stand for.
#
# A tag is written by hand (postgres:16.13-bookworm), its digest by this script: it asks the registry (docker buildx) and
# changes nothing unless it has an answer for every image. Look at the difference, and try it, before you commit it.
set -eu
cd "${1:-$(dirname "$0")/..}"

expression='[a-z0-9][a-z0-9./-]*:[A-Za-z0-9._-]+@sha256:[0-9a-f]{64}'
renewed=''
for pinned in $(grep -ohE "$expression" docker-compose.yml Dockerfile | sort -u); do
  image=${pinned%@*}
  digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$image")
  if ! printf '%s\n' "$digest" | grep -qxE 'sha256:[0-9a-f]{64}'; then
    echo "$0: $image: the registry's answer is no digest: $digest" >&2
    exit 1
  fi
  renewed="$renewed -e s|$pinned|$image@$digest|"
  echo "$image@$digest"
done
# shellcheck disable=SC2086  # an expression for each image
sed -i $renewed docker-compose.yml Dockerfile
