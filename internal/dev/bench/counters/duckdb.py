"""Prints how many readers of which kind each page and the site (*) had, by an access log."""

import sys

import duckdb

form = r'^([0-9.]+) - - [^"]*"([A-Z]+) ([^ ?]+)[^ ]* [^"]*" ([0-9]+) [0-9]+ "[^"]*" "([^"]*)"$'
db = duckdb.connect()
db.execute("SET enable_progress_bar = false")
db.execute(
    rf"""
    CREATE TABLE views AS
    SELECT m.ip, m.ua, regexp_replace(m.path, '([.](html|md)|/)$', '') AS page,
           CASE WHEN m.ua LIKE '%-User%' OR m.path LIKE '%.md' THEN 'ai'
                WHEN m.ua LIKE 'curl%' OR m.ua LIKE 'python%' THEN ''
                ELSE 'human' END AS kind
    FROM (SELECT regexp_extract(line, '{form}', ['ip', 'method', 'path', 'status', 'ua']) AS m
          FROM read_csv('{sys.argv[1]}', columns = {{'line': 'VARCHAR'}}, delim = '\x01', quote = '', escape = '',
                        header = false, auto_detect = false))
    WHERE m.method = 'GET' AND m.status IN ('200', '304') AND m.path NOT LIKE '%.js' AND m.path NOT LIKE '%.png'
      AND m.ua NOT LIKE '%bot/%' AND m.ua NOT LIKE '%Bot/%' AND kind <> ''
    """
)
readers = """count(DISTINCT (ip, ua)) FILTER (WHERE kind = 'human'), count(DISTINCT (ip, ua)) FILTER (WHERE kind = 'ai'),
             count(DISTINCT (ip, ua))"""
question = f"SELECT page, {readers} FROM views GROUP BY page UNION ALL SELECT '*', {readers} FROM views"
for row in db.execute(question).fetchall():
    print(*row)
