// What the official client library sees of the gate's proxy. Ends with 0 when all is as it should be.
//   openai_client.mjs PACKAGES PROGRAM WORK GATE KEY
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [packages, program, work, gate, key] = process.argv.slice(2);
const OpenAI = createRequire(`${packages}/`)('openai');
assert.match(OpenAI.VERSION ?? '4', /^4/);
const token = readFileSync(`${work}/token`, 'utf8').trim();

let requests = 0;
const counting = (...words) => {
  ++requests;
  return fetch(...words);
};
const client = (url, headers = {}) =>
  new OpenAI({ apiKey: key, baseURL: `${url}/v1`, fetch: counting, defaultHeaders: headers });
const question = (text, more = {}) => ({ model: 'm', messages: [{ role: 'user', content: text }], ...more });
const within = (promise, what) =>
  Promise.race([promise, new Promise((_, no) => setTimeout(() => no(new Error(`never: ${what}`)), 20000))]);

// Three windows' worth at once: the gate spreads them, none is refused.
const ours = client(gate, { 'X-Sluice-Token': token, 'X-Sluice-Job': 'node' });
const answers = await Promise.all(
  Array.from({ length: 12 }, (_, i) => ours.chat.completions.create(question(`document ${i}`))));
for (const [i, a] of answers.entries()) assert.match(a.choices[0].message.content, new RegExp(`document ${i}`));
assert.equal(requests, 12);

// No turn in time: an error of the library's own kind, and it does not try again.
requests = 0;
const late = await Promise.all(Array.from({ length: 8 }, () =>
  ours.chat.completions.create(question('late'), { headers: { 'X-Sluice-Max-Wait-Ms': '1' } }).catch((e) => e)));
const refused = late.filter((e) => e instanceof OpenAI.APIError);
assert.ok(refused.length >= 2, `${refused.length} of 8 refused`);
for (const e of refused) {
  assert.equal(e.status, 503);
  assert.equal(e.code, 'admission_timeout');
  assert.equal(e.type, 'sluice_gate');
}
assert.equal(requests, 8);

// An endpoint that streams, one piece each time it is told to.
let goOn;
let hungUp;
let seen;
const upstream = http.createServer(async (request, response) => {
  seen = request.headers;
  for await (const piece of request) void piece;
  hungUp = once(response, 'close');
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (let i = 1; ; ++i) {
    const delta = { id: 'x', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: `${i}` } }] };
    response.write(`data: ${JSON.stringify(delta)}\n\n`);
    const more = await new Promise((resolve) => (goOn = resolve));
    if (!more) break;
  }
  response.end('data: [DONE]\n\n');
});
upstream.listen(0, '127.0.0.1');
await once(upstream, 'listening');
const second = spawn(program, ['gate', '--listen', '127.0.0.1:0', '--limit', 'none', '--state', `${work}/second.state`,
  '--upstream', `http://127.0.0.1:${upstream.address().port}/v1`], { stdio: ['ignore', 'pipe', 'inherit'] });
try {
  const [line] = await within(once(createInterface({ input: second.stdout }), 'line'), 'the second gate');
  const streaming = client(line.replace('listening on ', ''));

  // Each piece is here before the next is written.
  const pieces = [];
  const stream = await within(streaming.chat.completions.create(question('s', { stream: true })), 'a stream');
  for await (const chunk of stream) {
    pieces.push(chunk.choices[0].delta.content);
    goOn(pieces.length < 3);
  }
  assert.deepEqual(pieces, ['1', '2', '3']);
  assert.equal(seen.authorization, `Bearer ${key}`);
  assert.equal(seen['x-sluice-token'], undefined);

  // A client that goes in the middle ends the call at the endpoint.
  const cut = await within(streaming.chat.completions.create(question('s', { stream: true })), 'a stream');
  for await (const chunk of cut) {
    assert.equal(chunk.choices[0].delta.content, '1');
    break;
  }
  cut.controller.abort();
  await within(hungUp, 'the end of the call');
} finally {
  second.kill('SIGTERM');
}
const [code] = await within(once(second, 'exit'), 'the end of the second gate');
assert.equal(code, 0);
upstream.closeAllConnections();
upstream.close();
