-- inbox_rows
SELECT greatest(0, coalesce(nullif(pg_stat_get_live_tuples(oid), 0), reltuples::bigint))
FROM pg_catalog.pg_class
WHERE oid = 'hooklatch.processed_events'::regclass
