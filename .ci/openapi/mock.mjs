// Asks a mock server for every example of a document and compares what it sends: node mock.mjs document.json http://127.0.0.1:4010
import { readFileSync } from "node:fs";

const [, , file, base] = process.argv;
const document = JSON.parse(readFileSync(file, "utf8"));

const resolve = (part) => (part?.$ref ? resolve(part.$ref.slice(2).split("/").reduce((at, name) => at[name], document)) : part);
const sorted = (v) =>
  Array.isArray(v) ? v.map(sorted) : v && typeof v === "object" ? Object.fromEntries(Object.keys(v).sort().map((k) => [k, sorted(v[k])])) : v;
const same = (a, b) => JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));

let checked = 0;
const wrong = [];
for (const [path, item] of Object.entries(document.paths)) {
  for (const [method, operation] of Object.entries(item)) {
    if (method === "parameters") continue;
    const required = (operation.parameters ?? []).map(resolve).filter((p) => p.in === "query" && p.required);
    const query = new URLSearchParams(required.map((p) => [p.name, p.schema.enum?.[0] ?? "x"]));
    const url = base + path.replace(/\{id\}/g, "1").replace(/\{\w+\}/g, "x") + (required.length ? `?${query}` : "");
    const json = operation.requestBody?.content["application/json"];
    const bodies = json?.examples ? Object.values(json.examples).map((e) => resolve(e).value) : [json?.example];
    let next = 0; // every body is sent, if there are as many responses
    for (const [status, response] of Object.entries(operation.responses)) {
      for (const [type, content] of Object.entries(resolve(response).content ?? {})) {
        if (status === "default" || !type.endsWith("json")) continue;
        const examples = content.examples
          ? Object.entries(content.examples).map(([name, example]) => [`, example=${name}`, resolve(example).value])
          : [["", content.example]];
        for (const [prefer, want] of examples) {
          const body = bodies[next++ % bodies.length];
          const answer = await fetch(url, {
            method,
            headers: { prefer: `code=${status}${prefer}`, ...(body && { "content-type": "application/json" }) },
            body: body && JSON.stringify(body),
          });
          const got = await answer.text();
          checked++;
          if (String(answer.status) !== status || !answer.headers.get("content-type").startsWith(type) || !same(JSON.parse(got), want)) {
            wrong.push(`${method} ${path} ${status}${prefer}: ${answer.status} ${answer.headers.get("content-type")} ${got}`);
          }
        }
      }
    }
  }
}
if (wrong.length > 0 || checked < 100) {
  console.error(wrong.join("\n"), `\n${wrong.length} of ${checked} responses are not the documented ones`);
  process.exit(1);
}
console.log(`the mock server sends all ${checked} documented examples`);
