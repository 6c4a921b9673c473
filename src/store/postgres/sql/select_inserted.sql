SELECT count(*) AS inserted,
       CASE WHEN count(*) < cardinality($1) THEN array_agg(consumer) END AS consumers,
       CASE WHEN count(*) < cardinality($1) THEN array_agg(event_id) END AS event_ids
FROM hooklatch_inserted
