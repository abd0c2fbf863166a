CREATE TABLE views ENGINE = Memory AS
SELECT m[1] AS ip, m[5] AS ua, replaceRegexpOne(m[3], '([.](html|md)|/)$', '') AS page,
       multiIf(ua LIKE '%-User%' OR m[3] LIKE '%.md', 'ai', ua LIKE 'curl%' OR ua LIKE 'python%', '', 'human') AS kind
FROM (SELECT extractGroups(line,
             '^([0-9.]+) - - [^"]*"([A-Z]+) ([^ ?]+)[^ ]* [^"]*" ([0-9]+) [0-9]+ "[^"]*" "([^"]*)"$') AS m
      FROM file('PATH', 'LineAsString', 'line String'))
WHERE m[2] = 'GET' AND m[4] IN ('200', '304') AND m[3] NOT LIKE '%.js' AND m[3] NOT LIKE '%.png'
  AND ua NOT LIKE '%bot/%' AND ua NOT LIKE '%Bot/%' AND kind <> '';

SELECT page, uniqExactIf((ip, ua), kind = 'human'), uniqExactIf((ip, ua), kind = 'ai'), uniqExact((ip, ua))
FROM views GROUP BY page
UNION ALL
SELECT '*', uniqExactIf((ip, ua), kind = 'human'), uniqExactIf((ip, ua), kind = 'ai'), uniqExact((ip, ua)) FROM views
