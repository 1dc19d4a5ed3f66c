-- Keys are looked for by their beginning: in the order of their bytes, which are visible ASCII, a beginning is a
-- range of the primary key. No value changes and no row is rewritten; the key's own index is built anew.
ALTER TABLE webhook_idempotency_keys ALTER COLUMN key TYPE text COLLATE "C";
