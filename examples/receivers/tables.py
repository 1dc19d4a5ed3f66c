"""Print the tables that the receivers need: ``python tables.py | psql "$DATABASE_URL"``."""

from fencepost.receiver import Inbox

PAYMENTS = "CREATE TABLE IF NOT EXISTS payments (invoice text NOT NULL, amount bigint NOT NULL);"

print(Inbox.ddl, PAYMENTS, sep="\n")
