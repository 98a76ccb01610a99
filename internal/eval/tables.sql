-- What a user of the kind "cleaned" has: rows that were generated for jobs, and here a note of each removal.
CREATE TABLE draft (operation_key text NOT NULL);
CREATE TABLE removed (operation_key text NOT NULL);
