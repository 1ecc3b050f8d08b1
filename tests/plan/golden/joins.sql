CREATE STREAM a (x BIGINT, p DOUBLE) FROM synthetic (rate = 1);
CREATE STREAM b (y BIGINT, q STRING) FROM synthetic (rate = 1);
CREATE STREAM c (x BIGINT, y BIGINT, r STRING) FROM synthetic (rate = 1);
-- the order a, c, b needs no cross product
CREATE QUERY reordered AS SELECT * FROM a [ROWS 10], b [ROWS 10], c [ROWS 10] WHERE a.x = c.x AND c.y = b.y;
-- filters go below the join, what may fail stays above, the rest is the join's own condition
CREATE QUERY placed AS SELECT a.x FROM a [PARTITION BY x ROWS 10], c [PARTITION BY x ROWS 10]
  WHERE a.x = c.x AND a.p > 1 AND c.r LIKE 'k%' AND a.p < c.y AND CAST(c.r AS BIGINT) > 3;
-- keys of two types meet as DOUBLE, expressions become columns
CREATE QUERY keyed AS SELECT a.x FROM a [NOW] JOIN c [NOW] ON a.p = c.y AND a.x + 1 = c.x * 2;
CREATE QUERY merged AS SELECT * FROM a [NOW] JOIN c [NOW] USING (x);
CREATE QUERY crossed AS SELECT a.x, q FROM a [NOW] CROSS JOIN b [NOW];
CREATE QUERY self AS SELECT one.x, two.x FROM a [ROWS 10] AS one, a [ROWS 10] AS two WHERE one.x < two.x;
CREATE QUERY parts AS SELECT a.x, part FROM a [ROWS 10], UNNEST([a.x, a.x + 1]) AS u(part), b [NOW] WHERE a.p > 1 AND part = b.y;
