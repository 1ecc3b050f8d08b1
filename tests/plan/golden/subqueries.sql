CREATE STREAM a (k BIGINT, x DOUBLE) FROM synthetic (rate = 1);
CREATE STREAM b (k BIGINT, y DOUBLE) FROM synthetic (rate = 1);
-- a condition by itself is a semi or anti join
CREATE QUERY known AS SELECT k FROM a [ROWS 10] WHERE x > 1 AND EXISTS (SELECT 1 FROM b [ROWS 10] WHERE b.k = a.k AND y > 2);
CREATE QUERY unknown AS SELECT k FROM a [ROWS 10] WHERE k NOT IN (SELECT k FROM b [ROWS 10]);
-- elsewhere it is a column
CREATE QUERY either AS SELECT k FROM a [ROWS 10] WHERE x > 1 OR EXISTS (SELECT 1 FROM b [ROWS 10] WHERE b.k = a.k);
-- a value is one row beside all others, with SQL's value while there is no row
CREATE QUERY above AS SELECT k FROM a [ROWS 10] WHERE x > (SELECT COUNT(*) FROM b [ROWS 10]);
CREATE QUERY last AS SELECT k, (SELECT y FROM b [ROWS 5]) AS y FROM a [ROWS 10];
-- views and tables of WITH leave no trace
CREATE VIEW sums AS SELECT k, SUM(x) AS total FROM a [ROWS 10] GROUP BY k;
CREATE QUERY shares AS WITH whole AS (SELECT SUM(total) AS total FROM sums) SELECT k, sums.total / whole.total AS share FROM sums, whole;
