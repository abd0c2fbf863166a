// Reads {setup, recipes: [{name, code}]} as JSON from standard input, runs all of
// it in the working directory, and prints a table for each recipe:
// {columns, rows}, every value as text.
const { DuckDBInstance } = require("@duckdb/node-api");
const { readFileSync } = require("node:fs");

async function main() {
  const { setup, recipes } = JSON.parse(readFileSync(0, "utf8"));
  const instance = await DuckDBInstance.create(":memory:");
  const connection = await instance.connect();
  await connection.run(setup);
  const tables = [];
  for (const { name, code } of recipes) {
    const reader = await connection.runAndReadAll(code).catch((err) => {
      throw new Error(`${name}: ${err.message}\n${code}`);
    });
    tables.push({
      columns: reader.columnNames(),
      rows: reader.getRows().map((row) => row.map((v) => (v === null ? "NULL" : String(v)))),
    });
  }
  process.stdout.write(JSON.stringify(tables));
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
