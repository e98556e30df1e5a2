// Many locks, one after the other and side by side: what is left of them is nothing, and Node warns of no leak.
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { IdGenerator } from '../src/ids.js'
import { Locks } from '../src/index.js'
import { onAbort, pause } from '../src/time.js'
import { FakeClock, json } from './world.js'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

async function settledHeap(): Promise<number> {
  for (let i = 0; i < 5; i++) {
    gc()
    await new Promise((resolve) => setImmediate(resolve))
  }
  gc()
  return process.memoryUsage().heapUsed
}

let token = 0
const server = (async (url: string, init: RequestInit) => {
  const body = JSON.parse(String(init.body)) as Record<string, unknown>
  const [lock_key, what] = new URL(url).pathname.split('/').slice(-2)
  const state = what === 'release' ? 'RELEASED' : 'ACTIVE'
  const fencing_token = what === 'release' ? body['fencing_token'] : ++token
  return json({
    tenant_id: 'acme', lock_key, owner_id: body['owner_id'], fencing_token, state, lease_id: `L${fencing_token}`, expires_at: new Date().toISOString(), remaining_ms: 30_000,
  })
}) as unknown as typeof fetch

test('5000 locks leave no listener and no memory behind, and a signal has one listener at a time', async () => {
  const warnings: Error[] = []
  const warned = (w: Error) => warnings.push(w)
  process.on('warning', warned)
  const { addEventListener } = EventTarget.prototype
  let most = 0
  EventTarget.prototype.addEventListener = function (this: EventTarget, ...a: Parameters<typeof addEventListener>) {
    addEventListener.apply(this, a)
    if (this instanceof AbortSignal) most = Math.max(most, getEventListeners(this, 'abort').length)
  }
  try {
    const stop = new AbortController()
    const locks = new Locks({ url: 'https://locks.test', tenant: 'acme', fetch: server })
    const round = async (from: number, n: number) => {
      for (let i = from; i < from + n; i += 50) {
        const held = await Promise.all(Array.from({ length: 25 }, (_, k) => locks.acquire(`a${i + k}`, { signal: stop.signal })))
        await Promise.all(Array.from({ length: 25 }, (_, k) => locks.request(`b${i + k}`, { signal: stop.signal }, (lock) => lock.check())))
        await Promise.all(held.map((l) => l.release()))
      }
    }
    await round(0, 1000)
    const before = await settledHeap()
    await round(1000, 4000)
    const grown = (await settledHeap()) - before
    assert.equal(token, 5000)
    assert.ok(grown < 2_000_000, `${grown} bytes more after 4000 locks`)
    assert.equal(getEventListeners(stop.signal, 'abort').length, 0)
    assert.ok(most <= 2, `${most} listeners of one signal`) // its own of a lock, beside the one for all who wait
    await locks.close()
    assert.deepEqual(warnings, [])
  } finally {
    EventTarget.prototype.addEventListener = addEventListener
    process.off('warning', warned)
  }
})

test('calls for IDs that wait side by side need one listener', async () => {
  const clock = new FakeClock()
  const stop = new AbortController()
  const ids = new IdGenerator({ clock, maxThroughputPerMs: 1 })
  const waiting = Promise.all(Array.from({ length: 50 }, () => ids.next(stop.signal)))
  assert.ok(getEventListeners(stop.signal, 'abort').length <= 1)
  assert.equal(new Set(await clock.until(waiting, 1)).size, 50)
  assert.equal(getEventListeners(stop.signal, 'abort').length, 0)
  await ids.close()
})

test('a pause that is over leaves no listener', async () => {
  const clock = new FakeClock()
  const stop = new AbortController()
  const pauses = [pause(clock, 5, stop.signal), pause(clock, 10, stop.signal)]
  assert.equal(getEventListeners(stop.signal, 'abort').length, 1)
  await clock.pass(10)
  assert.deepEqual(await Promise.all(pauses), [true, true])
  assert.equal(getEventListeners(stop.signal, 'abort').length, 0)
})

test('all who wait for a signal are called, but those that have left', () => {
  const stop = new AbortController()
  const called: number[] = []
  const off = [0, 1, 2].map((n) => onAbort(stop.signal, () => called.push(n)))
  off[1]?.()
  off[1]?.()
  onAbort(stop.signal, () => off[2]?.())
  assert.equal(getEventListeners(stop.signal, 'abort').length, 1)
  stop.abort()
  assert.deepEqual(called, [0, 2])
  off.forEach((o) => o())
})
