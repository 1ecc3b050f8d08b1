CREATE STREAM orders (id BIGINT, customer STRING, amount DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'orders.csv');
CREATE STREAM payments (id BIGINT, paid DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'payments.csv');
-- one join for all four: they project, filter and aggregate differently above it
CREATE QUERY dashboard AS SELECT * FROM orders [RANGE 5 SECONDS] o JOIN payments [RANGE 5 SECONDS] p ON o.id = p.id;
CREATE QUERY alarm DEADLINE 1 SECOND AS SELECT o.id, paid FROM orders [RANGE 10 SECONDS] o, payments [RANGE 10 SECONDS] p
  WHERE o.id = p.id AND p.paid < 10 AND o.amount > paid;
CREATE QUERY report AS SELECT customer, SUM(paid) AS total FROM orders [RANGE 1 MINUTE] o JOIN payments [RANGE 1 MINUTE] p ON o.id = p.id
  GROUP BY customer;
CREATE QUERY slow AS SELECT COUNT(*) AS n FROM orders [RANGE 90 SECONDS] o JOIN payments [RANGE 10 SECONDS] p ON o.id = p.id;
-- rows and a condition that both have: it is tested inside the join
CREATE QUERY few AS ISTREAM(SELECT o.id FROM orders [ROWS 10] o JOIN payments [ROWS 10] p ON o.id = p.id AND o.amount > p.paid WHERE customer = 'c1');
CREATE QUERY many AS ISTREAM(SELECT p.id, customer FROM orders [ROWS 200] x JOIN payments [ROWS 100] p ON x.id = p.id AND x.amount > p.paid WHERE customer = 'c1');
-- another key: another join
CREATE QUERY apart AS SELECT o.id FROM orders [RANGE 5 SECONDS] o JOIN payments [RANGE 5 SECONDS] p ON o.amount = p.paid;
