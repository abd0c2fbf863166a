"""Prints how many readers of which kind each page and the site (*) had, by an access log, which DuckDB reads as CSV."""

import sys

import duckdb

columns = {name: "VARCHAR" for name in "ip c1 c2 c3 c4 request status c7 c8 ua".split()}
db = duckdb.connect()
db.execute("SET enable_progress_bar = false")
db.execute(
    f"""
    CREATE TABLE views AS
    SELECT ip, ua, regexp_replace(path, '([.](html|md)|/)$', '') AS page,
           CASE WHEN ua LIKE '%-User%' OR path LIKE '%.md' THEN 'ai'
                WHEN ua LIKE 'curl%' OR ua LIKE 'python%' THEN ''
                ELSE 'human' END AS kind
    FROM (SELECT ip, ua, request, status, split_part(split_part(request, ' ', 2), '?', 1) AS path
          FROM read_csv('{sys.argv[1]}', delim = ' ', quote = '"', escape = '"', header = false, auto_detect = false,
                        strict_mode = false, columns = {columns}))
    WHERE request LIKE 'GET %' AND status IN ('200', '304') AND path NOT LIKE '%.js' AND path NOT LIKE '%.png'
      AND ua NOT LIKE '%bot/%' AND ua NOT LIKE '%Bot/%' AND kind <> ''
    """
)
readers = """count(DISTINCT (ip, ua)) FILTER (WHERE kind = 'human'), count(DISTINCT (ip, ua)) FILTER (WHERE kind = 'ai'),
             count(DISTINCT (ip, ua))"""
question = f"SELECT page, {readers} FROM views GROUP BY page UNION ALL SELECT '*', {readers} FROM views"
for row in db.execute(question).fetchall():
    print(*row)
