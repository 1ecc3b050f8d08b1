CREATE STREAM a (k BIGINT, x DOUBLE) FROM synthetic (rate = 1);
CREATE STREAM b (k BIGINT, y DOUBLE) FROM synthetic (rate = 1);
-- keys only: pairs, keys without a partner, NULL keys
CREATE QUERY lefts AS SELECT a.k, x, y FROM a [ROWS 10] LEFT JOIN b [ROWS 10] ON a.k = b.k;
CREATE QUERY fulls AS SELECT * FROM a [ROWS 10] FULL JOIN b [ROWS 10] USING (k);
-- more than keys: rows that do not occur among the pairs; conditions on one side go below
CREATE QUERY antis AS SELECT k FROM a [ROWS 10] ANTI JOIN b [ROWS 10] ON a.k = b.k AND x < y AND y > 3;
CREATE QUERY semis AS SELECT k FROM a [ROWS 10] SEMI JOIN b [ROWS 10] ON a.k = b.k WHERE x > 1;
-- an inner join after an outer one, and an outer one of two inner ones
CREATE QUERY mixed AS SELECT c.x FROM a [ROWS 10] LEFT JOIN b [ROWS 10] ON a.k = b.k JOIN a [NOW] AS c ON c.k = b.k;
-- a table has no window
CREATE TABLE rooms (k BIGINT, floor BIGINT) FROM csv (path = 'rooms.csv') KEY (k) REFRESH EVERY 60 SECONDS;
CREATE QUERY placed AS SELECT floor, COUNT(*) AS n FROM a [ROWS 10] JOIN rooms USING (k) GROUP BY floor;
-- the nearest partner of each different row, then all rows
CREATE QUERY nearest AS SELECT a.k, y FROM a [NOW] ASOF LEFT JOIN b [ROWS 10] ON a.k = b.k AND x >= y;
