// The middleware for requests with an Idempotency-Key beyond the conformance scripts: a gate that is away, processes that end, kill -9, and real servers.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { createServer, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Idempotency, type IdempotencyOptions, idempotent, node, storeSuccess } from '../src/idempotency.js'
import { InvalidSettingError } from '../src/index.js'
import { Runs } from '../src/once.js'
import { Gate } from './gate.js'
import { bounded, leasehold, start, withoutGo } from './player.js'
import { FakeClock, settle } from './world.js'

interface Process { handle(body?: string, init?: RequestInit): Promise<Response>; once: Idempotency; warnings: unknown[] }

function world() {
  const clock = new FakeClock()
  const gate = new Gate(clock)
  const made = { payments: 0 }
  const process = (o: Partial<IdempotencyOptions<Request>> = {}, takes = 5000): Process => {
    const runs = new Runs({ url: 'https://locks.test', tenant: 'acme', fetch: gate.fetch, clock })
    const warnings: unknown[] = []
    const once = new Idempotency(runs, { name: 'payments', scope: () => 'ann', onWarning: (e) => warnings.push(e), ...o })
    const pay = once.wrap(async (request) => {
      const n = ++made.payments
      await new Promise<void>((resolve) => clock.after(takes, resolve))
      return new Response(`payment ${n} of ${await request.text()}`, { status: 201, headers: { 'content-type': 'text/plain', 'set-cookie': 'secret' } })
    })
    const handle = (body = 'ten', init: RequestInit = {}) => pay(new Request('http://pay.test/payments', { method: 'POST', headers: { 'idempotency-key': 'k1' }, body, ...init }))
    return { handle, once, warnings }
  }
  return { clock, gate, made, process }
}

test('a response is stored whole if its record has 256 KiB at most, else its status', async () => {
  const line = '{"v":1,"status":201,"header":"Content-Type=text%2Fplain","body":"text","bytes":262000}\n'.length
  for (const [bytes, whole] of [[(256 << 10) - line, true], [(256 << 10) - line + 1, false], [10 * (256 << 10), false]] as const) {
    const { clock, gate } = world()
    const runs = new Runs({ url: 'https://locks.test', tenant: 'acme', fetch: gate.fetch, clock })
    const once = new Idempotency(runs, { name: 'payments', scope: () => 'ann', onWarning: () => {} })
    let ran = 0
    const pay = once.wrap(() => {
      ran++
      return new Response('x'.repeat(bytes), { status: 201, headers: { 'content-type': 'text/plain' } })
    })
    const ask = async () => {
      const got = await clock.until(pay(new Request('http://pay.test/payments', { method: 'POST', headers: { 'idempotency-key': 'k1' }, body: 'ten' })))
      return [got.status, (await got.text()).length] as const
    }
    assert.deepEqual(await ask(), [201, bytes])
    const [status, length] = await ask()
    assert.deepEqual([status, ran], [whole ? 201 : 409, 1])
    assert.ok(whole ? length === bytes : length < 1000)
  }
})

describe('a gate that is away', () => {
  test('for ever: the process that ends says what it could not store', async () => {
    const { clock, gate, process } = world()
    const here = process()
    clock.after(1000, () => (gate.away = true))
    const response = await clock.until(here.handle())
    assert.deepEqual([response.status, response.headers.get('set-cookie')], [201, 'secret'])
    assert.equal((await clock.until(here.handle('tens'))).status, 422)
    const began = clock.mono
    const [id] = [...gate.runs.keys()]
    assert.deepEqual(await clock.until(here.once.close(20_000)), [id])
    assert.ok(clock.mono - began >= 20_000 && clock.mono - began < 21_000)
    const { length } = gate.sent
    await clock.pass(60_000)
    assert.equal(gate.sent.length, length)
    assert.deepEqual(await here.once.close(), [])
  })

  test('another process that reaches it first, when the lock has expired, carries the request out again; then the first one says the same', async () => {
    const { clock, gate, made, process } = world()
    const [here, other] = [process(), process()]
    clock.after(1000, () => (gate.away = true))
    assert.equal((await clock.until(here.handle())).status, 201)
    gate.away = false
    assert.equal(await (await clock.until(other.handle())).text(), 'payment 2 of ten')
    await clock.pass(6000)
    assert.equal(await (await clock.until(here.handle())).text(), 'payment 2 of ten')
    assert.equal(made.payments, 2)
    assert.ok(here.warnings.length > 0)
  })
})

test('a storm of retries at four processes: one payment, and each its response', async () => {
  const { clock, made, process } = world()
  const all = Array.from({ length: 4 }, () => process())
  const asked = Array.from({ length: 64 }, (_, i) => (all[i % 4] as Process).handle())
  await settle()
  const got = await clock.until(Promise.all(asked))
  assert.deepEqual(new Set(await Promise.all(got.map((r) => r.text()))), new Set(['payment 1 of ten']))
  assert.deepEqual([got.filter((r) => r.headers.get('idempotency-replayed') === null).length, made.payments], [1, 1])
})

test('what is compared: chosen header fields, a chosen part of the body, and the host or not', async () => {
  for (const [o, changed, same] of [
    [{ headers: ['x-currency'] }, { headers: { 'idempotency-key': 'k1', 'x-currency': 'EUR' } }, false],
    [{}, { headers: { 'idempotency-key': 'k1', 'x-currency': 'EUR' } }, true],
    [{ payload: (body: Uint8Array) => body.subarray(0, 2) }, { body: 'tens' }, true],
    [{}, { body: 'tens' }, false],
  ] as const) {
    const { clock, process } = world()
    const here = process(o)
    assert.equal((await clock.until(here.handle())).status, 201)
    assert.equal((await clock.until(here.handle('ten', changed))).status, same ? 201 : 422)
    const next = world()
    const both = next.process(o)
    const got = await next.clock.until(Promise.all([both.handle(), both.handle('ten', changed)])) // the second waits for the first
    assert.deepEqual(got.map((r) => r.status), [201, same ? 201 : 422])
  }
})

test('a rule of what is stored that fails disturbs no request: the handler ran, and its response is stored', async () => {
  const { clock, made, process } = world()
  const here = process({ store: () => { throw new RangeError('no rule') } })
  for (const replayed of [null, 'true']) {
    const response = await clock.until(here.handle())
    assert.deepEqual([response.status, response.headers.get('idempotency-replayed'), made.payments], [201, replayed, 1])
  }
  assert.match(String(here.warnings), /no rule/)
})

test('a middleware behind one of its name lets requests pass; settings that cannot work are refused', async () => {
  const { clock, gate } = world()
  const warnings: unknown[] = []
  const runs = new Runs({ url: 'https://locks.test', tenant: 'acme', fetch: gate.fetch, clock })
  const once = new Idempotency(runs, { name: 'payments', scope: () => 'ann', onWarning: (e) => warnings.push(e), store: storeSuccess })
  const handler = once.wrap(once.wrap(async (request) => new Response(String(idempotent(request)?.token), { status: 200 })))
  const response = await handler(new Request('http://pay.test/', { method: 'POST', headers: { 'idempotency-key': 'k1' } }))
  assert.deepEqual([await response.text(), warnings.length], ['1', 1])
  assert.throws(() => new Idempotency(runs, { name: 'x', scope: () => 'y', replay: ['not a name'] }), TypeError)
  for (const [field, o] of Object.entries({ name: { name: '' }, scope: { scope: 5 }, ttl: { ttl: 1500 }, wait: { wait: -1 } })) {
    assert.throws(() => new Idempotency(runs, { name: 'x', scope: () => 'y', ...o } as never), (e: unknown) => e instanceof InvalidSettingError && e.field === field)
  }
})

describe('in Node', () => {
  interface Got { status: number; headers: Record<string, string | string[] | undefined>; body: string }
  const post = (port: number, body: string, headers: Record<string, string> = {}): Promise<Got> => new Promise((resolve, reject) => {
    const r = send({ port, method: 'POST', path: '/payments', headers: { 'idempotency-key': 'k1', 'content-type': 'text/plain', ...headers } }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (c: Buffer) => chunks.push(c)).on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks).toString() }))
    })
    r.on('error', reject)
    r.end(body)
  })

  async function serve(handler: (req: import('node:http').IncomingMessage, res: import('node:http').ServerResponse) => void, o: object = {}, before?: (req: import('node:http').IncomingMessage) => Promise<void>) {
    const gate = new Gate(new FakeClock())
    const once = new Idempotency<import('node:http').IncomingMessage>(new Runs({ url: 'https://locks.test', tenant: 'acme', fetch: gate.fetch }), {
      name: 'payments', scope: () => 'ann', onWarning: () => undefined, ...o,
    })
    gate.clock.time = Date.now()
    const middleware = node(once)
    const server = createServer((req, res) => void (before?.(req) ?? Promise.resolve()).then(() => middleware(req, res, (e) => (e === undefined ? handler(req, res) : res.writeHead(500).end(String(e))))))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    after(() => server.close().closeAllConnections())
    return { port: (server.address() as AddressInfo).port, gate }
  }

  test('a handler reads the body, writes in pieces, and its response is replayed', async () => {
    let ran = 0
    const { port } = await serve((req, res) => {
      ran++
      const chunks: Buffer[] = []
      req.on('data', (c: Buffer) => chunks.push(c)).on('end', () => {
        res.writeHead(201, { 'content-type': 'text/plain', 'set-cookie': ['a', 'b'] })
        res.flushHeaders()
        res.write(`read ${Buffer.concat(chunks).length}`)
        res.end(' bytes')
      })
    })
    const large = 'x'.repeat(300_000)
    const first = await post(port, large)
    const again = await post(port, large)
    assert.deepEqual([first.status, first.body, first.headers['set-cookie'], first.headers['idempotency-replayed']], [201, 'read 300000 bytes', ['a', 'b'], undefined])
    assert.deepEqual([again.status, again.body, again.headers['set-cookie'], again.headers['idempotency-replayed'], ran], [201, 'read 300000 bytes', undefined, 'true', 1])
    assert.equal((await post(port, 'other')).status, 422)
  })

  test('a body in chunks is read; without a key nothing changes; one that is too large is refused', async () => {
    const { port, gate } = await serve((req, res) => {
      let n = 0
      req.on('data', (c: Buffer) => (n += c.length)).on('end', () => res.end(String(n)))
    }, { maxBody: 1000 })
    assert.equal((await post(port, 'x'.repeat(500), { 'transfer-encoding': 'chunked' })).body, '500')
    assert.equal((await post(port, 'x'.repeat(500), { 'idempotency-key': '"k2"' })).body, '500')
    assert.equal((await post(port, 'x'.repeat(5000), { 'idempotency-key': 'k3' })).status, 413)
    assert.equal(gate.runs.size, 2)
  })

  test('a body that was read before: what a parser has kept of it is compared, and without that the request is refused', async () => {
    const { port } = await serve((req, res) => void res.end(String((req as { rawBody?: Buffer }).rawBody)), {}, async (req) => {
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk as Buffer)
      if (req.headers['content-type'] === 'text/plain') Object.assign(req, { rawBody: Buffer.concat(chunks) })
    })
    assert.equal((await post(port, 'ten')).body, 'ten')
    assert.equal((await post(port, 'ten')).headers['idempotency-replayed'], 'true')
    assert.equal((await post(port, 'tens')).status, 422)
    const refused = await post(port, 'ten', { 'content-type': 'application/json' })
    assert.deepEqual([refused.status, (JSON.parse(refused.body) as { code: string }).code], [500, 'IDEMPOTENCY_BODY_CONSUMED'])
  })

  test('a handler that ends with 204, and one without a body', async () => {
    const { port } = await serve((_, res) => void res.writeHead(204).end())
    assert.equal((await post(port, '')).status, 204)
    const again = await post(port, '')
    assert.deepEqual([again.status, again.headers['idempotency-replayed']], [204, 'true'])
  })
})

describe('against leasehold serve', { skip: withoutGo, timeout: 120_000 }, () => {
  /** A payment server in a process of its own, which writes "paying" when a payment begins, and waits for ever if it is told to. */
  const payments = fileURLToPath(new URL('payments.js', import.meta.url))
  async function shop(url: string, how: string): Promise<{ url: string; process: ChildProcess; paying: Promise<unknown> }> {
    const child = bounded(spawn(process.execPath, [payments, url, how], { stdio: ['pipe', 'pipe', 'inherit'] }))
    let text = ''
    const said = (what: RegExp) => new Promise<string>((resolve) => child.stdout.on('data', () => { const found = what.exec(text); if (found) resolve(found[0]) }))
    child.stdout.on('data', (more: Buffer) => (text += more.toString()))
    const paying = said(/paying/)
    return { url: await said(/http:\/\/[\d.:]+/), process: child, paying }
  }

  test('a payment server that is killed in the middle of a payment: a retry at the next one pays, once its lock has expired, and a storm of them once', async () => {
    const { mkdtempSync } = await import('node:fs')
    const { tmpdir } = await import('node:os')
    const server = await start(leasehold, ['serve', '--listen', '127.0.0.1:0', '--data', mkdtempSync(`${tmpdir()}/leasehold-pay-`)])
    const victim = await shop(server.url, 'hangs')
    const pay = (url: string) => fetch(`${url}/payments`, { method: 'POST', headers: { 'idempotency-key': 'k1', host: 'pay.test' }, body: 'ten' })
    const died = assert.rejects(pay(victim.url))
    await victim.paying
    victim.process.kill('SIGKILL')
    await died
    const next = await shop(server.url, 'pays')
    const got = await Promise.all(Array.from({ length: 32 }, () => pay(next.url)))
    assert.deepEqual(new Set(await Promise.all(got.map(async (r) => `${r.status} ${await r.text()}`))), new Set(['201 payment 1']))
    assert.equal(got.filter((r) => r.headers.get('idempotency-replayed') === null).length, 1)
    const third = await shop(server.url, 'pays')
    const replayed = await pay(third.url)
    assert.deepEqual([await replayed.text(), replayed.headers.get('idempotency-replayed')], ['payment 1', 'true'])
    for (const p of [next, third]) p.process.stdin?.end()
    server.process.stdin?.end()
  })
})
