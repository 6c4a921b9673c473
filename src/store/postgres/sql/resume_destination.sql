-- resume_destination
UPDATE hooklatch.destinations
SET paused_at = NULL, pause_reason = NULL, open_until = NULL, open_reason = NULL
WHERE name = $1 AND (paused_at IS NOT NULL OR open_until IS NOT NULL)
