// Runs a snippet of deploy/edge in its runtime: edge.mjs SNIPPET INGEST_URL [MINIFLARE]. It asks for the pages of
// requests, prints the answers, and ends when all that the snippet does beside them is done.
import { readFileSync } from "node:fs";
import { get } from "node:http";
import { createRequire } from "node:module";

const [snippet, ingest, miniflare] = process.argv.slice(2);
const page = () => new Response("the page", { headers: { "content-length": "8" } });
const requests = [1, 2, 3].map((n) => new Request(`https://docs.example.com/guide/${n}?utm_source=mail&secret=1`, {
  headers: { "user-agent": "Mozilla/5.0 Firefox/140.0", accept: "text/html", referer: "https://chatgpt.com/",
    cookie: "c=1", "sec-fetch-mode": "navigate", "cf-connecting-ip": `192.0.2.${n}`, "x-real-ip": `192.0.2.${n}` },
}));
const beside = [];
let answer;
if (miniflare) {
  const { Miniflare, Response: Answer } = createRequire(import.meta.url)(miniflare);
  let taken;
  beside.push(new Promise((done) => (taken = done)));
  const worker = new Miniflare({
    modules: true, script: readFileSync(snippet, "utf8"), compatibilityDate: "2026-01-01",
    bindings: { INGEST_URL: "https://ingest.example.com/", INGEST_KEY: "dgs_edge" },
    outboundService: async (request) => {
      if (!request.url.startsWith("https://ingest.example.com/")) {
        return new Answer("the page", { headers: { "content-length": "8" } });
      }
      const { method, headers } = request;
      const sent = await fetch(ingest, { method, headers: [...headers], body: await request.text() });
      if (sent.ok) taken();
      return new Answer(await sent.text(), { status: sent.status });
    },
  });
  const address = await worker.ready; // fetch would set headers of its own
  answer = (request) => new Promise((done, fail) => {
    const { pathname, search } = new URL(request.url);
    get(new URL(pathname + search, address), { headers: { ...Object.fromEntries(request.headers), host: "docs.example.com" } },
      (r) => done({ text: () => r.toArray().then(String) })).on("error", fail);
  });
} else {
  process.env.INGEST_URL = ingest;
  process.env.INGEST_KEY = "dgs_edge";
  globalThis.Netlify = { env: { get: (name) => process.env[name] } };
  const { default: run } = await import(snippet);
  answer = async (request) => (await run(request, {
    ip: request.headers.get("x-real-ip"), next: async () => page(), waitUntil: (promise) => beside.push(promise),
  })) ?? page();
}
const began = Date.now();
for (const request of requests) console.log(await (await answer(request)).text());
if (!miniflare && Date.now() - began > 900) throw new Error("the pages waited");
await Promise.all(beside);
process.exit(0);
