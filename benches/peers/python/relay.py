"""The relay of the usual guide, one transaction an event: psycopg 3 and httpx.

Each transaction locks one row, posts it, marks it and commits; then comes the next. Reads
BENCH_DATABASE_URL and BENCH_SINK_URL; knows nothing of the harness.
"""

import os
import time

import httpx
import psycopg

IDLE_SECONDS = 0.1
TIMEOUT_SECONDS = 10


def relay_one(connection: psycopg.Connection, http: httpx.Client, url: str) -> bool:
    with connection.transaction():
        row = connection.execute(
            "SELECT id, event_type, payload FROM outbox WHERE sent_at IS NULL"
            " ORDER BY created_at LIMIT 1 FOR UPDATE SKIP LOCKED"
        ).fetchone()
        if row is None:
            return False
        event_id, event_type, payload = row
        response = http.post(
            url,
            json={"id": str(event_id), "type": event_type, "data": payload},
            headers={"Idempotency-Key": str(event_id)},
            timeout=TIMEOUT_SECONDS,
        )
        response.raise_for_status()
        connection.execute("UPDATE outbox SET sent_at = now() WHERE id = %s", (event_id,))
    return True


def main() -> None:
    url = os.environ["BENCH_SINK_URL"]
    with psycopg.connect(os.environ["BENCH_DATABASE_URL"], autocommit=True) as connection, httpx.Client() as http:
        while True:
            if not relay_one(connection, http, url):
                time.sleep(IDLE_SECONDS)


if __name__ == "__main__":
    main()
