// Elections beside what the conformance scripts say: outages, waits, and what is wrong.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Election, type ElectionOptions, type Observation } from '../src/election.js'
import { ClosedError, InvalidSettingError, LockHeldError, LockLostError, Locks, type LocksOptions } from '../src/index.js'
import { FakeClock, FakeServer, json, problem, settle } from './world.js'

function world(o: ElectionOptions = {}, more: Partial<LocksOptions> = {}) {
  const clock = new FakeClock()
  const server = new FakeServer(clock)
  const locks = new Locks({ url: 'https://locks.test', tenant: 'acme', owner: 'ann', clock, fetch: server.fetch, ...more })
  return { clock, server, locks, election: new Election(locks, 'deploy', o) }
}

test('a campaign goes on while the server does not respond, and its pauses begin anew once it has led', async () => {
  const { clock, server, election } = world({}, { retryFor: 0 })
  let down = true
  const times: number[] = []
  const answer = server.answer.bind(server)
  server.answer = (sent) => {
    if (sent.path.endsWith('/acquire') && !sent.body['give_up']) times.push(clock.mono)
    return down ? problem('UNAVAILABLE', 503) : answer(sent)
  }
  const led = election.lead(async (leader) => {
    down = true
    await new Promise((resolve) => leader.signal.addEventListener('abort', resolve))
    assert.ok(leader.signal.reason instanceof LockLostError && !leader.leads)
    return 'lost'
  })
  led.catch(() => undefined)
  await clock.pass(300_000)
  assert.ok(times.length > 25 && times.length < 120, String(times.length)) // each 5 s on average
  const bound = (i: number) => Math.min(10_000, 1000 * 2 ** i) + 1
  const pauses = (of: number[]) => of.slice(1).forEach((t, i) => assert.ok(t - (of[i] ?? 0) >= 100 && t - (of[i] ?? 0) <= bound(i), `${i}: ${t - (of[i] ?? 0)}`))
  pauses(times)
  down = false
  await clock.pass(12_000)
  const before = times.length
  await clock.pass(100_000)
  pauses(times.slice(before))
  assert.ok(times.length > before + 5)
})

test('a leader that is held for as long as maxHold allows steps down, and another may be elected', async () => {
  const { clock, server, election } = world({ maxHold: 5000 })
  const terms: number[] = []
  const led = election.lead(async (leader) => {
    terms.push(leader.token)
    if (terms.length < 3) await new Promise((resolve) => leader.signal.addEventListener('abort', resolve))
    return 'done'
  })
  assert.equal(await clock.until(led), 'done')
  assert.deepEqual(terms, [101, 102, 103])
  assert.equal(server.did.filter((d) => d === 'release').length, 3)
})

test('a lock that is held ends the campaign after its wait', async () => {
  const { clock, server, election } = world({ wait: 3000 })
  server.holder = { owner: 'bob', request: 'r', token: 100, until: clock.time + 3_600_000, ttl: 30_000 }
  const began = clock.mono
  await assert.rejects(clock.until(election.lead(() => assert.fail('it leads'))), LockHeldError)
  await assert.rejects(clock.until(election.campaign()), LockHeldError)
  assert.ok(clock.mono - began < 8000)
})

test('the loss of another lock is the work’s own error', async () => {
  const { clock, election } = world()
  const lost = new LockLostError('another')
  await assert.rejects(clock.until(election.lead(() => Promise.reject(lost))), (e) => e === lost)
})

test('a signal and close end a campaign, a leader and who observes', async () => {
  for (const [end, kind] of [['signal', RangeError], ['close', ClosedError]] as const) {
    for (const what of ['campaign', 'lead', 'pause', 'observe'] as const) {
      const { clock, server, locks, election } = world({}, { retryFor: 0 })
      const stop = new AbortController()
      const { signal } = stop
      if (what === 'pause') server.answers.push(...Array.from({ length: 9 }, () => () => problem('UNAVAILABLE', 503)))
      if (what === 'campaign') server.holder = { owner: 'bob', request: 'r', token: 100, until: clock.time + 3_600_000, ttl: 30_000 }
      const observe = async () => {
        for await (const _ of election.observe({ signal })); // eslint-disable-line @typescript-eslint/no-unused-vars
      }
      const work = what === 'observe' ? observe() : election.lead((leader) => new Promise((_, reject) => leader.signal.addEventListener('abort', () => reject(leader.signal.reason as Error))), { signal })
      work.catch(() => undefined)
      await clock.pass(what === 'pause' ? 50 : 3000)
      if (end === 'signal') stop.abort(new RangeError('enough'))
      else void locks.close()
      await assert.rejects(clock.until(work), kind, `${what} ${end}`)
      const sent = server.sent.length
      await clock.pass(60_000)
      assert.ok(server.sent.slice(sent).every((s) => s.body['give_up'] || s.path.endsWith('/release')), `${what} ${end}`)
      assert.equal(clock.timers, 0, `${what} ${end}`)
    }
  }
})

test('who observes and leaves asks no more', async () => {
  const { clock, server, election } = world()
  const record = { lock_key: 'deploy', lease_id: 'L1', owner_id: 'bob', state: 'ACTIVE', acquired_at: '2026-01-01T00:00:00.000Z', ttl_seconds: 30, metadata: { host: 'b1' } }
  server.answers.push(() => json(record))
  const seen: Observation[] = []
  for await (const o of election.observe()) {
    seen.push(o)
    break
  }
  assert.deepEqual(seen, [{ leader: { owner: 'bob', leaseId: 'L1', since: new Date('2026-01-01T00:00:00.000Z'), metadata: { host: 'b1' } } }])
  await clock.pass(60_000)
  assert.deepEqual([server.sent.length, clock.timers], [1, 0])
})

test('what cannot work is an error where it is said', async () => {
  const { locks, election, server } = world()
  const refused = (field: string, work: () => unknown) => assert.rejects(async () => work(), (e: unknown) => e instanceof InvalidSettingError && e.field === field, field)
  await refused('locks', () => new Election({} as never, 'deploy'))
  await refused('locks', () => new Election(undefined as never, 'deploy'))
  await refused('key', () => new Election(locks, ''))
  await refused('ttl', () => new Election(locks, 'deploy', { ttl: 5 }))
  for (const o of ['mode', 'permits', 'ifAvailable', 'signal']) await refused(o, () => new Election(locks, 'deploy', { [o]: 1 } as never))
  await refused('work', () => election.lead(undefined as never))
  await refused('signal', () => election.observe({ signal: 5 as never }).next())
  await settle()
  assert.equal(server.sent.length, 0)
})
