// Runs the SQL queries of the JSON array in argv[2], prints an array of results:
// {columns, types, rows}, every value as text, null for NULL.
process.env.TZ = "UTC"; // times with a zone are written in that of the process
const { DuckDBInstance } = require("@duckdb/node-api");

async function main() {
  const instance = await DuckDBInstance.create(":memory:");
  const connection = await instance.connect();
  await connection.run("SET TimeZone = 'UTC'");
  const results = [];
  for (const sql of JSON.parse(process.argv[2])) {
    const reader = await connection.runAndReadAll(sql);
    results.push({
      columns: reader.columnNames(),
      types: reader.columnTypes().map(String),
      rows: reader.getRows().map((row) => row.map((v) => (v === null ? null : String(v)))),
    });
  }
  process.stdout.write(JSON.stringify(results));
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
