-- The shop's database: what it sells, and what the steps of the order workflow leave behind.
-- Applied by the administrator as often as one likes; the steps themselves log in as the role "shop", which may
-- write what they write and nothing else.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
BEGIN;

-- The newest fence seen under each idempotency key. A writer with a smaller one is too late.
CREATE TABLE IF NOT EXISTS fences (
    idempotency_key uuid PRIMARY KEY,
    fence           bigint NOT NULL
);

-- Every attempt that reached the database, with how it ended here. An attempt's row is committed together with its
-- effect, so "done" stands here if and only if the effect is there.
CREATE TABLE IF NOT EXISTS attempts (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    idempotency_key uuid NOT NULL,
    run             text NOT NULL,
    step            text NOT NULL,
    attempt         integer NOT NULL CHECK (attempt > 0),
    fence           bigint NOT NULL,
    pod             text NOT NULL,
    outcome         text NOT NULL CHECK (outcome IN ('done', 'found done', 'bad input', 'out of stock', 'fenced', 'failed')),
    at              timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS attempts_by_run ON attempts (run, step);

-- order_number is deliberately not unique: what keeps an order from being charged twice is the key alone.
CREATE SEQUENCE IF NOT EXISTS receipt_numbers;
CREATE TABLE IF NOT EXISTS charges (
    idempotency_key uuid PRIMARY KEY,
    receipt         text NOT NULL UNIQUE DEFAULT 'R-' || nextval('receipt_numbers'),
    order_number    text NOT NULL,
    cents           bigint NOT NULL CHECK (cents > 0),
    at              timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS charges_by_order ON charges (order_number);

CREATE TABLE IF NOT EXISTS stock (
    sku             text PRIMARY KEY,
    available       bigint NOT NULL CHECK (available >= 0)
);
CREATE TABLE IF NOT EXISTS reservations (
    idempotency_key uuid NOT NULL,
    order_number    text NOT NULL,
    sku             text NOT NULL REFERENCES stock,
    quantity        bigint NOT NULL CHECK (quantity > 0),
    at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (idempotency_key, sku)
);

-- What a mailer would send, and then mark as sent.
CREATE TABLE IF NOT EXISTS outbox (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    idempotency_key uuid NOT NULL UNIQUE,
    order_number    text NOT NULL,
    receipt         text NOT NULL REFERENCES charges (receipt),
    body            text NOT NULL,
    at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    sent_at         timestamptz
);

-- Each demo takes a new order. Lower numbers are left to people who try examples by hand.
CREATE SEQUENCE IF NOT EXISTS order_numbers START 2001;

-- Plenty, so that the demo can be run again and again.
INSERT INTO stock (sku, available) VALUES ('A-7', 100000), ('B-2', 100000), ('C-1', 0)
ON CONFLICT (sku) DO NOTHING;

GRANT SELECT, INSERT, UPDATE ON fences TO shop;
GRANT SELECT, INSERT ON charges, attempts, reservations, outbox TO shop;
GRANT SELECT ON stock TO shop;
GRANT UPDATE (available) ON stock TO shop;
GRANT USAGE ON SEQUENCE receipt_numbers TO shop;

COMMIT;
