CREATE STREAM bids (auction BIGINT, bidder BIGINT, price BIGINT, note STRING, at TIMESTAMP) FROM synthetic (rate = 100);
CREATE STREAM auctions (id BIGINT, seller BIGINT, opens TIMESTAMP, closes TIMESTAMP) FROM synthetic (rate = 5);
CREATE STREAM groups (key BIGINT, name STRING) FROM synthetic (rate = 1);
-- a key that is an expression, above the filter of its input
CREATE QUERY named AS SELECT b.*, name FROM bids [NOW] AS b JOIN groups [PARTITION BY key ROWS 1] AS g ON b.auction % 10 = g.key WHERE price > 5;
-- a key that might raise, behind its guard
CREATE QUERY noted AS SELECT name FROM bids [NOW], groups [ROWS 10] WHERE CAST(note AS BIGINT) = key AND note <> '' AND name LIKE 'a%';
-- a band beside a key, and one of expressions without a key
CREATE QUERY timely AS SELECT id, price FROM auctions [RANGE 1 HOUR] JOIN bids [RANGE 1 HOUR] ON id = auction AND at BETWEEN opens AND closes;
CREATE QUERY around AS SELECT p.price, q.price FROM bids [ROWS 50] AS p, bids [NOW] AS q WHERE q.at BETWEEN p.at AND p.at + INTERVAL 5 SECOND;
-- the small window first, and no cross product
CREATE QUERY three AS SELECT * FROM groups [RANGE 1 HOUR], auctions [RANGE 1 HOUR], bids [NOW] WHERE auction = id AND bidder = key;
-- conditions inside sub-queries: below GROUP BY, DISTINCT and a set operation
CREATE QUERY one AS SELECT * FROM (SELECT auction, MAX(price) AS top FROM bids [RANGE 1 MINUTE] GROUP BY auction) WHERE auction = 3 AND top > 9;
CREATE QUERY others AS SELECT * FROM (SELECT DISTINCT bidder AS who FROM bids [RANGE 2 MINUTES] EXCEPT SELECT seller FROM auctions [UNBOUNDED]) WHERE who > 100;
-- a query that others read is left whole
CREATE QUERY tops AS SELECT bidder, MAX(price) AS top FROM bids [RANGE 3 MINUTES] GROUP BY bidder;
CREATE QUERY mine AS SELECT * FROM tops WHERE bidder = 7;
