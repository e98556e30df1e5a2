// Handles that no one has any more, with the garbage collector called by the test.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type Lock, Locks, LockLostError, type LockEvent } from '../src/index.js'
import { FakeClock, FakeServer, settle } from './world.js'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

/** Lets the collector find what no one has. */
async function collect(): Promise<void> {
  for (let i = 0; i < 10; i++) {
    gc()
    await settle()
  }
}

function world() {
  const clock = new FakeClock()
  const server = new FakeServer(clock)
  const events: LockEvent[] = []
  const locks = new Locks({ url: 'https://locks.test', tenant: 'acme', clock, fetch: server.fetch, observe: (e) => events.push(e) })
  const types = () => events.map((e) => e.type).filter((t) => t !== 'renewed')
  const renewals = () => server.did.filter((d) => d === 'renew').length
  return { clock, server, events, locks, types, renewals }
}

test('a lock that no one has any more is not renewed, and its lease is left to expire', async () => {
  const { clock, server, events, locks, types, renewals } = world()
  await (async () => void (await locks.acquire('deploy')))()
  await clock.pass(10_000)
  assert.equal(renewals(), 1)
  await collect()
  assert.deepEqual(events.at(-1), { type: 'forgotten', key: 'deploy', token: 101 })
  await clock.pass(60_000)
  assert.equal(renewals(), 1)
  assert.ok(!server.did.includes('release')) // what it protected may still run
  assert.deepEqual(types(), ['acquired', 'forgotten', 'lost'])
  await locks.close()
  assert.equal(clock.timers, 0)
})

/** What the work may keep of a lock. */
const kept: Record<string, (lock: Lock) => unknown> = {
  'the lock': (lock) => lock,
  'its signal': (lock) => lock.signal,
  'a function of it': (lock) => () => lock.check(),
  'a listener of its signal': (lock) => lock.signal.addEventListener('abort', () => undefined),
}
for (const [name, keep] of Object.entries(kept)) {
  test(`who keeps ${name} has the lock`, async () => {
    const { clock, locks, types, renewals } = world()
    const has: unknown[] = [await (async () => keep((await locks.acquire('deploy')) as Lock))()]
    for (let i = 0; i < 4; i++) {
      await clock.pass(10_000)
      await collect()
    }
    assert.deepEqual([types(), renewals()], [['acquired'], 4])
    assert.equal(has.length, 1)
    await locks.close()
  })
}

test('the work of request has the lock until it has ended, whatever it keeps', async () => {
  const { clock, locks, types, renewals } = world()
  let done: (() => void) | undefined
  const work = locks.request('deploy', () => new Promise<void>((resolve) => (done = resolve)))
  for (let i = 0; i < 4; i++) {
    await clock.pass(10_000)
    await collect()
  }
  assert.deepEqual([types(), renewals()], [['acquired'], 4])
  done?.()
  await work
  assert.deepEqual(types(), ['acquired', 'released'])
})

test('a signal that follows that of a lock is aborted in time, also when it is all that is kept', async () => {
  const { clock, locks } = world()
  const followed = await (async () => AbortSignal.any([((await locks.acquire('deploy')) as Lock).signal, new AbortController().signal]))()
  await collect()
  await clock.pass(26_000)
  assert.equal(followed.aborted, false)
  await clock.pass(1500)
  assert.ok(followed.reason instanceof LockLostError)
})

test('a release that is under way goes on without the lock', async () => {
  const { clock, server, locks, types } = world()
  server.answers.push(() => undefined, () => new Error('the connection broke off'))
  await (async () => void ((await locks.acquire('deploy')) as Lock).release())()
  await collect()
  await clock.pass(5000)
  assert.deepEqual(types(), ['acquired', 'released'])
})
