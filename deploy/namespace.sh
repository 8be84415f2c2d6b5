#!/bin/sh
# Create the namespace where it is missing, and wait until the server serves it. May run any number of times.
#
# The server is in the environment: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE; RETENTION is how long closed workflows are kept.
set -eu

# until_done SECONDS COMMAND...: repeat the command, once a second, until it succeeds; say what it said if it never does.
until_done() {
  left=$1
  shift
  until said=$("$@" 2>&1); do
    left=$((left - 1))
    if [ "$left" -le 0 ]; then
      echo "$* does not succeed: $said" >&2
      exit 1
    fi
    sleep 1
  done
}

until_done 120 temporal operator cluster health
if ! temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1; then
  temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "${RETENTION:-72h}"
fi
# The frontend learns of a new namespace when it next looks, which takes some seconds.
until_done 60 temporal workflow list --limit 1
