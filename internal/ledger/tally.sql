-- name: tally
-- How many jobs stand in each state, by their current generation. Reads every job row:
-- for demonstrations, benchmarks and checks, never for a loop. No locks.
SELECT state, count(*) FROM duly.job WHERE successor IS NULL GROUP BY state
