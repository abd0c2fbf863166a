CREATE TABLE views ENGINE = Memory AS
SELECT c1 AS ip, c10 AS ua, splitByChar('?', splitByChar(' ', c6)[2])[1] AS path,
       replaceRegexpOne(path, '([.](html|md)|/)$', '') AS page,
       multiIf(ua LIKE '%-User%' OR path LIKE '%.md', 'ai', ua LIKE 'curl%' OR ua LIKE 'python%', '', 'human') AS kind
FROM file('PATH', 'CustomSeparated', 'c1 String, c2 String, c3 String, c4 String, c5 String, c6 String, c7 UInt16,
          c8 String, c9 String, c10 String')
WHERE c6 LIKE 'GET %' AND c7 IN (200, 304) AND path NOT LIKE '%.js' AND path NOT LIKE '%.png'
  AND ua NOT LIKE '%bot/%' AND ua NOT LIKE '%Bot/%' AND kind <> ''
SETTINGS format_custom_escaping_rule = 'CSV', format_custom_field_delimiter = ' ';

SELECT page, uniqExactIf((ip, ua), kind = 'human'), uniqExactIf((ip, ua), kind = 'ai'), uniqExact((ip, ua))
FROM views GROUP BY page
UNION ALL
SELECT '*', uniqExactIf((ip, ua), kind = 'human'), uniqExactIf((ip, ua), kind = 'ai'), uniqExact((ip, ua)) FROM views
