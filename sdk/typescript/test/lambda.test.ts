// Functions of AWS Lambda, with a clock that the tests move.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { batch, lambda, type SQSRecord } from '../src/lambda.js'
import { PermanentError, RunNotStoredError, Runs } from '../src/once.js'
import { FakeClock, FakeServer, type Sent, json, problem } from './world.js'

function world() {
  const clock = new FakeClock()
  const server = new FakeServer(clock)
  const runs = new Runs({ url: 'https://locks.test', tenant: 'acme', owner: 'w1', fetch: server.fetch, clock })
  const held = new Map<string, string>()
  /** Grants each run once, and remembers its result. */
  const answer = (r: Sent) => {
    const [id = '', what] = r.path.split('/').slice(-2).map(decodeURIComponent)
    const result = held.get(id)
    if (what === 'begin' && r.body['give_up']) return new Response(null, { status: 204 })
    if (what === 'begin' && result !== undefined) return json({ run_id: id, acquired: false, reason: 'already_finished', status: 'READY', result })
    if (what === 'begin') return json({ run_id: id, acquired: true, owner_id: 'w1', fencing_token: 7, runs: 1, failures: 0, remaining_ms: Number(r.body['ttl_seconds']) * 1000 })
    if (what === 'finish') held.set(id, String(r.body['result'] ?? ''))
    return json({ run_id: id, fencing_token: 7, remaining_ms: 60_000, ...(r.body['status'] !== undefined && { status: r.body['status'] }) })
  }
  server.answers.push(...Array<typeof answer>(200).fill(answer))
  const end = clock.mono + 30_000
  return { clock, server, runs, context: { getRemainingTimeInMillis: () => end - clock.mono } }
}

const record = (messageId: string, body: unknown, group?: string): SQSRecord => ({ messageId, body: typeof body === 'string' ? body : JSON.stringify(body), ...(group !== undefined && { attributes: { MessageGroupId: group } }) })

test('a handler runs once for an ID; its lock ends with the function', async () => {
  const { server, runs, context } = world()
  let ran = 0
  const handler = lambda(runs, (event: { order: string }) => event.order, async (event, run) => ({ order: event.order, token: run.token, ran: ++ran }))
  assert.deepEqual(await handler({ order: 'o1' }, context), { order: 'o1', token: 7, ran: 1 })
  assert.deepEqual(await handler({ order: 'o1' }, context), { order: 'o1', token: 7, ran: 1 })
  assert.deepEqual([server.did, server.sent[0]?.body['ttl_seconds']], [['begin', 'finish', 'begin'], 30])
})

test('work is told to stop before the function is cut off; the attempt counts, and its lock is free', async () => {
  const { clock, server, runs, context } = world()
  const handler = lambda(runs, () => 'o1', (_, run) => new Promise((_, reject) => run.signal.addEventListener('abort', () => reject(run.signal.reason))))
  await assert.rejects(clock.until(handler({}, context)), /no time left/)
  assert.ok(context.getRemainingTimeInMillis() > 2000, String(context.getRemainingTimeInMillis()))
  assert.deepEqual([server.did.at(-1), server.sent.at(-1)?.body['failure_reason']], ['release', 'the function has no time left'])
})

test('without time left nothing begins', async () => {
  const { server, runs } = world()
  const handler = lambda(runs, () => 'o1', () => assert.fail('it ran'))
  await assert.rejects(handler({}, { getRemainingTimeInMillis: () => 2000 }), /no time left/)
  assert.equal(server.sent.length, 0)
})

test('of a batch, those that failed come again, and what was done before is not done again', async () => {
  const { runs, context } = world()
  const did: unknown[] = []
  const failures: unknown[] = []
  const handler = batch(runs, (body: { n: number }) => {
    if (body.n === 2) throw new Error('no ink')
    did.push(body.n)
  }, { onFailure: (e) => failures.push(e) })
  const event = { Records: [record('a', { n: 1 }), record('b', { n: 2 }), record('c', { n: 3 })] }
  assert.deepEqual(await handler(event, context), { batchItemFailures: [{ itemIdentifier: 'b' }] })
  assert.deepEqual(await handler(event, context), { batchItemFailures: [{ itemIdentifier: 'b' }] })
  assert.deepEqual([did.sort(), failures.map(String)], [[1, 3], ['Error: no ink', 'Error: no ink']])
})

test('a body that is not JSON is put aside at once, and asks the gate nothing; where no one takes it, it comes again', async () => {
  const { server, runs, context } = world()
  const aside: string[] = []
  const event = { Records: [record('a', '{"n": 1'), record('b', '')] }
  assert.deepEqual(await batch(runs, () => assert.fail('it ran'), { malformed: (r) => void aside.push(r.messageId) })(event, context), { batchItemFailures: [] })
  assert.deepEqual(await batch(runs, () => assert.fail('it ran'))(event, context), { batchItemFailures: [{ itemIdentifier: 'a' }, { itemIdentifier: 'b' }] })
  assert.deepEqual(await batch(runs, () => assert.fail('it ran'), { malformed: () => Promise.reject(new Error('no room')) })(event, context), { batchItemFailures: [{ itemIdentifier: 'a' }, { itemIdentifier: 'b' }] })
  assert.deepEqual([aside, server.sent.length], [['a', 'b'], 0])
})

test('the messages of a group are in their order, and none is done after one that failed', async () => {
  const { runs, context } = world()
  const did: string[] = []
  const handler = batch(runs, async (body: string) => {
    await Promise.resolve()
    did.push(body)
    if (body === 'x2') throw new Error('no ink')
  })
  const event = { Records: ['x1', 'y1', 'x2', 'x3', 'y2'].map((m) => record(m, JSON.stringify(m), m[0])) }
  assert.deepEqual(await handler(event, context), { batchItemFailures: [{ itemIdentifier: 'x2' }, { itemIdentifier: 'x3' }] })
  assert.deepEqual([did.filter((m) => m.startsWith('x')), did.filter((m) => m.startsWith('y'))], [['x1', 'x2'], ['y1', 'y2']])
})

test('a message whose work is done does not come again, also if that could not be stored', async () => {
  const { clock, server, runs, context } = world()
  const [answer] = server.answers
  server.answers.length = 0
  server.answers.push(answer ?? assert.fail(), ...Array<() => Response>(100).fill(() => problem('UNAVAILABLE', 503)))
  let done = 0
  assert.deepEqual(await clock.until(batch(runs, () => void done++)({ Records: [record('a', {})] }, context)), { batchItemFailures: [] })
  assert.deepEqual([done, context.getRemainingTimeInMillis() > 1000], [1, true])
  assert.deepEqual((await clock.until(runs.close(0))).length, 1)
})

test('a message whose work failed for good comes again if that could not be stored: no one else knows it', async () => {
  const { clock, server, runs, context } = world()
  const [answer] = server.answers
  server.answers.length = 0
  server.answers.push(answer ?? assert.fail(), ...Array<() => Response>(100).fill(() => problem('UNAVAILABLE', 503)))
  const failures: unknown[] = []
  const handler = batch(runs, () => { throw new PermanentError('no ink') }, { onFailure: (e) => failures.push(e) })
  assert.deepEqual(await clock.until(handler({ Records: [record('a', {})] }, context)), { batchItemFailures: [{ itemIdentifier: 'a' }] })
  assert.ok(failures[0] instanceof RunNotStoredError)
  await clock.until(runs.close(0))
})
