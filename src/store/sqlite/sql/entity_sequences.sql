-- name: read entity sequences
SELECT sent.key AS ordinal, v.sequence
FROM json_each(?1) AS sent
JOIN entity_versions AS v ON v.consumer = sent.value ->> 0 AND v.entity = sent.value ->> 1
