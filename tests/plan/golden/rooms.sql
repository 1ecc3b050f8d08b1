-- what most apps are: a file, an average, arrivals, a shared window
CREATE STREAM readings (room STRING, temp DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts
  FROM csv (path = 'data/readings.csv') LATENESS 2 SECONDS ON ERROR SKIP;
CREATE STREAM cars (id BIGINT, speed DOUBLE)
  SHED ABOVE 800 PER SECOND BY speed FROM synthetic (rate = 500, arrivals = 'poisson', seed = 7, duration = '60 s') BUFFER 1000;
CREATE QUERY hot DEADLINE 2 SECONDS FIRM AS
  SELECT room, AVG(temp) AS mean FROM readings [RANGE 10 SECONDS] GROUP BY room;
CREATE QUERY hottest DEADLINE 500 MILLISECONDS AS SELECT MAX(mean) AS top FROM hot;
CREATE QUERY arrivals AS ISTREAM(SELECT * FROM readings [ROWS 100] WHERE temp > 30) INTO parquet (path = 'out/hot');
CREATE QUERY last5 COST 20 MICROSECONDS AS SELECT COUNT(*) AS n FROM arrivals [ROWS 5];
CREATE QUERY fast AS RSTREAM[5 SECONDS](SELECT id, MAX(speed) AS top FROM cars [PARTITION BY id ROWS 3] GROUP BY id HAVING MAX(speed) > 90) INTO console;
