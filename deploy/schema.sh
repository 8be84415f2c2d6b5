#!/bin/sh
# Create Temporal's two databases and bring their schemas up to date. May run any number of times.
#
# The connection is in the environment: SQL_PLUGIN, SQL_HOST, SQL_PORT, SQL_USER, SQL_PASSWORD. SCHEMA is where the schemas
# are, as the admin-tools image has them.
set -eu

schema=${SCHEMA:-/etc/temporal/schema}/postgresql/v12

prepare() { # DATABASE SCHEMA
  temporal-sql-tool --database "$1" create-database
  temporal-sql-tool --database "$1" setup-schema --version 0.0
  temporal-sql-tool --database "$1" update-schema --schema-dir "$schema/$2/versioned"
}

prepare temporal temporal
prepare temporal_visibility visibility
