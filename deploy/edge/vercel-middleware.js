// middleware.js of a project at Vercel: it sends a line for each request of a page to docgauge site serve, beside the
// answer. What fails here changes no page. Settings: INGEST_URL, https://…/v1/ingest/NAME, and INGEST_KEY.
export const config = { matcher: "/((?!_next/|_vercel/|api/|.*[.](?:css|js|json|png|jpg|svg|webp|ico|woff2)$).*)" };

const pending = [];

export default function middleware(request, context) {
  try {
    pending.push(lineOf(request));
    if (pending.length === 1) context.waitUntil(send());
  } catch {} // the page goes before
}

function lineOf(request) {
  const url = new URL(request.url);
  const query = new URLSearchParams([...url.searchParams].filter(([key]) => key === "utm_source" || key === "_rsc"));
  const header = (name) => request.headers.get(name) ?? undefined;
  return JSON.stringify({
    time: new Date().toISOString(), request_id: crypto.randomUUID(), host: url.host, method: request.method,
    path: url.pathname + (query.size > 0 ? `?${query}` : ""), status: 200, // middleware does not know it
    client_ip: header("x-real-ip"), user_agent: header("user-agent"), accept: header("accept"),
    referer: header("referer"), sec_fetch_mode: header("sec-fetch-mode"),
  });
}

const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function send() {
  await wait(1000); // the lines of other requests go with it
  const body = pending.splice(0).join("\n");
  const headers = { authorization: `Bearer ${process.env.INGEST_KEY}`, "content-type": "application/x-ndjson" };
  for (let pause = 1000; pause <= 8000; pause *= 2) {
    try {
      if ((await fetch(process.env.INGEST_URL, { method: "POST", headers, body })).ok) return;
    } catch {} // it is sent again, and counts once
    await wait(pause);
  }
}
