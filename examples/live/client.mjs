// A client of `sooner serve` for Node 18 and browsers, without packages: node client.mjs [http://127.0.0.1:8000]
const service = process.argv[2] ?? "http://127.0.0.1:8000";
const headers = process.env.SOONER_TOKEN ? { authorization: `Bearer ${process.env.SOONER_TOKEN}` } : {};

// Sends observations; what a full service refuses is sent again after the seconds that it names.
async function send(records) {
  const body = records.map((record) => JSON.stringify(record)).join("\n");
  for (;;) {
    const answer = await fetch(`${service}/v1/observations`, { method: "POST", headers, body });
    const content = await answer.json();
    if (answer.ok) return content;
    if (![429, 503, 507].includes(answer.status)) throw new Error(content.detail);
    await new Promise((resolve) => setTimeout(resolve, 1000 * Number(answer.headers.get("retry-after") ?? 1)));
  }
}

// Decisions from the event stream after an ID. EventSource cannot send a token, fetch can.
async function* decisions(last = 0) {
  for (;;) {
    try {
      const wanted = { ...headers, accept: "text/event-stream", "last-event-id": String(last) };
      const answer = await fetch(`${service}/v1/decisions`, { headers: wanted });
      let text = "";
      for await (const bytes of answer.body.pipeThrough(new TextDecoderStream())) {
        text += bytes;
        const events = text.split("\n\n");
        text = events.pop();
        for (const event of events) {
          const data = event.split("\n").find((line) => line.startsWith("data: "));
          const record = data && JSON.parse(data.slice(6));
          if (record?.id > last) {
            last = record.id;
            yield record;
          }
        }
      }
    } catch (error) {
      console.error(`${error.message}; trying again`);
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

console.log(await send([{ series: "pump-9", x: [5.1, 6.3] }, { series: "pump-9", x: [5.0, 6.1], end: true }]));
for await (const record of decisions()) {
  console.log(record);
  if (record.series === "pump-9") break;
}
process.exit(0);
