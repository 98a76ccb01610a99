-- What `duly demo digest` says to the customer's side of the database. These tables are not Duly's: they stand for those of
-- whoever sends the digest, and for the log of a mail server.

-- name: tables
-- customer: who there is, and where. digest: whom one was written for, with the address that the customer had then.
-- digest_row: what was written, line by line. mail_log: what the mail server says of each message; accepted is null where
-- it does not know.
CREATE TABLE customer (id text PRIMARY KEY, name text NOT NULL, mail text, zone text NOT NULL);
CREATE TABLE digest (operation_key text NOT NULL, customer text NOT NULL, name text NOT NULL, mail text, zone text NOT NULL);
CREATE TABLE digest_row (operation_key text NOT NULL, n integer NOT NULL, line text NOT NULL, PRIMARY KEY (operation_key, n));
CREATE TABLE mail_log (message_id text PRIMARY KEY, queue_id text, accepted boolean, at timestamptz NOT NULL DEFAULT now());

-- name: customers
-- $1 ids, $2 names, $3 mails, $4 zones.
INSERT INTO customer SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])

-- name: written
-- $1 period. A digest is written for every customer.
INSERT INTO digest SELECT 'digest:' || $1::text || ':' || c.id, c.id, c.name, c.mail, c.zone FROM customer c

-- name: lines
-- $1 how many lines each digest has.
INSERT INTO digest_row SELECT d.operation_key, n, 'what happened on day ' || n FROM digest d CROSS JOIN generate_series(1, $1::integer) n

-- name: twice
-- $1 ids. By mistake, a digest was written twice for some.
INSERT INTO digest SELECT d.* FROM digest d WHERE d.customer = ANY ($1::text[])

-- name: moved
-- $1 ids, $2 mails. After the digest was written, customers change their addresses; null is a customer who has none any more.
UPDATE customer c SET mail = t.mail FROM unnest($1::text[], $2::text[]) AS t (id, mail) WHERE c.id = t.id

-- name: left
-- $1 ids. Customers who left altogether.
DELETE FROM customer WHERE id = ANY ($1::text[])

-- name: logged
-- $1 message, $2 queue id, $3 whether the server accepted it; null: its log does not say.
INSERT INTO mail_log (message_id, queue_id, accepted) VALUES ($1, $2, $3)
ON CONFLICT (message_id) DO UPDATE SET queue_id = excluded.queue_id, accepted = excluded.accepted, at = excluded.at

-- name: rows
-- Which digests have rows left, and how many.
SELECT operation_key, count(*) FROM digest_row GROUP BY operation_key
