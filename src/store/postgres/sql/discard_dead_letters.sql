-- discard_dead_letters
DELETE FROM hooklatch.dead_letters WHERE id = ANY ($1)
