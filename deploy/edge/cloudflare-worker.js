// A Worker on the routes of your site that sends a line for each request to docgauge site serve, after the answer.
// What fails here changes no page. Settings: INGEST_URL, https://…/v1/ingest/NAME, and the secret INGEST_KEY.
const pending = [];

export default {
  async fetch(request, env, context) {
    const response = await fetch(request);
    try {
      pending.push(lineOf(request, response));
      if (pending.length === 1) context.waitUntil(send(env));
    } catch {} // the page goes before
    return response;
  },
};

function lineOf(request, response) {
  const url = new URL(request.url);
  const query = new URLSearchParams([...url.searchParams].filter(([key]) => key === "utm_source" || key === "_rsc"));
  const header = (name) => request.headers.get(name) ?? undefined;
  return JSON.stringify({
    time: new Date().toISOString(), request_id: crypto.randomUUID(), host: url.host, method: request.method,
    path: url.pathname + (query.size > 0 ? `?${query}` : ""), status: response.status,
    client_ip: header("cf-connecting-ip"), user_agent: header("user-agent"), accept: header("accept"),
    referer: header("referer"), sec_fetch_mode: header("sec-fetch-mode"),
    bytes: Number(response.headers.get("content-length") ?? NaN) || undefined,
  });
}

async function send(env) {
  await scheduler.wait(1000); // the lines of other requests go with it
  const body = pending.splice(0).join("\n");
  const headers = { authorization: `Bearer ${env.INGEST_KEY}`, "content-type": "application/x-ndjson" };
  for (let wait = 1000; wait <= 8000; wait *= 2) {
    try {
      if ((await fetch(env.INGEST_URL, { method: "POST", headers, body })).ok) return;
    } catch {} // it is sent again, and counts once
    await scheduler.wait(wait);
  }
}
