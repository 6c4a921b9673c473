"""The webhook receiver of the usual guide, written well: FastAPI, uvicorn, psycopg 3.

One transaction a request: the event id goes into `processed_events` with ON CONFLICT DO NOTHING,
the order and the stored answer go into the same transaction, a repeated event gets the stored
answer back. Reads BENCH_DATABASE_URL, BENCH_SECRET and BENCH_POOL; knows nothing of the harness.
"""

import base64
import hashlib
import hmac
import os
import time
from contextlib import asynccontextmanager
from datetime import datetime

import orjson
from fastapi import FastAPI, Request, Response
from psycopg import errors
from psycopg_pool import AsyncConnectionPool

TOLERANCE_SECONDS = 300
JSON = "application/json"

secret = base64.b64decode(os.environ["BENCH_SECRET"].removeprefix("whsec_"))
pool = AsyncConnectionPool(
    os.environ["BENCH_DATABASE_URL"],
    min_size=int(os.environ["BENCH_POOL"]),
    max_size=int(os.environ["BENCH_POOL"]),
    # Prepared at first use, as the Rust peer does.
    kwargs={"prepare_threshold": 0},
    open=False,
)


@asynccontextmanager
async def lifespan(_: FastAPI):
    await pool.open(wait=True)
    yield
    await pool.close()


app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)


@app.get("/readyz")
async def ready() -> Response:
    return Response(status_code=200)


@app.post("/hooks/shop")
async def receive(request: Request) -> Response:
    body = await request.body()
    if not verified(request.headers, body):
        return Response(status_code=401)
    try:
        event = orjson.loads(body)
    except orjson.JSONDecodeError:
        return Response(status_code=400)
    try:
        return await handle_event(event)
    except errors.IntegrityError:
        return Response(status_code=422)
    except (errors.OperationalError, TimeoutError):
        return Response(status_code=503, headers={"retry-after": "1"})


def verified(headers, body: bytes) -> bool:
    """standard-webhooks: HMAC-SHA256 over `id.timestamp.body`, with a time window."""
    message_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    signed = f"{message_id}.{timestamp}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(expected.encode(), one.encode()) for one in given)


async def handle_event(event: dict) -> Response:
    async with pool.connection() as connection, connection.transaction():
        cursor = await connection.execute(
            "INSERT INTO processed_events (consumer, event_id, source, event_type, occurred_at, state, status)"
            " VALUES ('shop', %s, 'shop', %s, %s, 'applied', 200) ON CONFLICT DO NOTHING",
            (event["id"], event["type"], datetime.fromisoformat(event["timestamp"])),
        )
        if cursor.rowcount == 0:
            cursor = await connection.execute(
                "SELECT status, reply_body FROM processed_events WHERE consumer = 'shop' AND event_id = %s",
                (event["id"],),
            )
            status, stored = await cursor.fetchone()
            return Response(stored, status, {"idempotent-replayed": "true"}, JSON)
        order = event["data"]
        await connection.execute(
            "INSERT INTO orders (id, customer_id, status, amount_cents) VALUES (%s, %s, 'created', %s)",
            (order["order_id"], order["customer_id"], order["amount_cents"]),
        )
        answer = orjson.dumps({"status": "applied", "event_id": event["id"]})
        await connection.execute(
            "UPDATE processed_events SET reply_headers = %s, reply_body = %s"
            " WHERE consumer = 'shop' AND event_id = %s",
            ('{"content-type":"application/json"}', answer, event["id"]),
        )
    return Response(answer, 200, media_type=JSON)
