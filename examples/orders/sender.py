"""A shop's own application: an order and the message about it are one transaction.

    python3 -m venv venv && venv/bin/pip install -r requirements.txt
    export SENDER_DATABASE_URL=postgres://localhost/shop
    hooklatch migrate --config relay.toml
    venv/bin/python sender.py --customer cus_42 --amount-cents 4990
    hooklatch relay --config relay.toml

There is no network call in here: the relay delivers what is committed, at least once and under one id.
"""

import argparse
import json
import os
import sys
import uuid

import psycopg

TABLE = """
CREATE TABLE IF NOT EXISTS placed_orders (
    id           text   PRIMARY KEY,
    customer_id  text   NOT NULL,
    amount_cents bigint NOT NULL
)
"""

# Found when the relay polls. Set what you need; destination and payload are enough.
INSERT = """
INSERT INTO hooklatch.outbox (id, destination, payload, event_type, aggregate_id)
VALUES (%(id)s, 'erp', %(payload)s, 'order_created', %(order_id)s)
"""

# The same, and the relays are woken at the commit.
ENQUEUE = """
SELECT hooklatch.enqueue('erp', %(payload)s, 'order_created', aggregate_id => %(order_id)s, id => %(id)s)
"""


class Refused(Exception):
    """Something in the application went wrong after the order was written."""


def place_order(conn, customer_id, amount_cents, write_message=INSERT, fail=None):
    """Writes the order and its message; both are there when this returns, and neither if it raises."""
    order_id, message_id = str(uuid.uuid4()), uuid.uuid4()
    # The receiver finds the event's id in the body; it is the message's, so that no delivery differs.
    event = {
        "id": str(message_id),
        "type": "order_created",
        "data": {
            "order_id": order_id,
            "invoice_id": f"inv_{order_id}",
            "customer_id": customer_id,
            "amount_cents": amount_cents,
        },
    }
    with conn.transaction():
        conn.execute(
            "INSERT INTO placed_orders (id, customer_id, amount_cents) VALUES (%s, %s, %s)",
            (order_id, customer_id, amount_cents),
        )
        if fail == "between":
            raise Refused("between the order and its message")
        conn.execute(
            write_message,
            {"id": message_id, "payload": json.dumps(event).encode(), "order_id": order_id},
        )
        if fail == "after":
            raise Refused("after the order and its message")
    return order_id


def main():
    parser = argparse.ArgumentParser(description="Place an order, and tell the ERP through the outbox")
    parser.add_argument("--customer", default="cus_42")
    parser.add_argument("--amount-cents", type=int, default=4990)
    parser.add_argument("--with", dest="how", choices=["insert", "enqueue"], default="insert")
    parser.add_argument("--fail", choices=["between", "after"], help="roll back, to see that nothing stays")
    wanted = parser.parse_args()
    write_message = ENQUEUE if wanted.how == "enqueue" else INSERT
    with psycopg.connect(os.environ["SENDER_DATABASE_URL"], autocommit=True) as conn:
        conn.execute(TABLE)
        try:
            print(place_order(conn, wanted.customer, wanted.amount_cents, write_message, wanted.fail))
        except Refused as refused:
            sys.exit(f"rolled back: {refused}")


if __name__ == "__main__":
    main()
