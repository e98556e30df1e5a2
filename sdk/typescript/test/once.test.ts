// Work that runs once, with a clock that the tests move, and a server in this process that answers what a test says.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { RunDiffersError } from '../src/errors.js'
import { ApiError, InvalidSettingError, LockLostError } from '../src/index.js'
import { type Run, RunNotStoredError, PermanentError, RunFailedError, RunLockedError, Runs, UncountedError, fingerprint, type RunsOptions } from '../src/once.js'
import { Gate } from './gate.js'
import { FakeClock, FakeServer, type Sent, json, late, problem, settle } from './world.js'

function world(o: Partial<RunsOptions> = {}) {
  const clock = new FakeClock()
  const server = new FakeServer(clock)
  const warnings: unknown[] = []
  const runs = new Runs({ url: 'https://locks.test', tenant: 'acme', owner: 'w1', fetch: server.fetch, clock, onWarning: (e) => warnings.push(e), ...o })
  const name = o.analyses ? 'analysis_id' : 'run_id'
  const granted = (more: object = {}) => () =>
    json({ [name]: 'pay', acquired: true, owner_id: 'w1', fencing_token: 7, runs: 1, failures: 0, remaining_ms: 300_000, ...more })
  const skipped = (more: object) => () => json({ [name]: 'pay', acquired: false, ...more })
  const done = (r: Sent) => json({ [name]: 'pay', fencing_token: 7, remaining_ms: 300_000, ...(r.body['status'] !== undefined && { status: r.body['status'] }) })
  return { clock, server, runs, warnings, granted, skipped, done }
}

describe('once(id, fn)', () => {
  test('begins, works, and stores the result as JSON', async () => {
    const { server, runs, granted, done } = world()
    server.answers.push(granted(), done)
    assert.deepEqual(await runs.once('pay', null, async (run) => ({ total: 12, token: run.token, runs: run.runs })), { total: 12, token: 7, runs: 1 })
    assert.equal('fingerprint' in (server.sent[0]?.body ?? {}), false)
    assert.deepEqual(server.sent.map((s) => `${s.method} ${s.path}`), ['POST /v1/tenants/acme/runs/pay/begin', 'POST /v1/tenants/acme/runs/pay/finish'])
    const { status, result, fencing_token, owner_id } = server.sent[1]?.body ?? {}
    assert.deepEqual({ status, result, fencing_token, owner_id }, { status: 'READY', result: '{"total":12,"token":7,"runs":1}', fencing_token: 7, owner_id: 'w1' })
  })

  test('what was done before is not done again', async () => {
    const { server, runs, skipped } = world()
    server.answers.push(skipped({ reason: 'already_finished', status: 'READY', result: '{"total":12}' }))
    assert.deepEqual(await runs.once('pay', null, () => assert.fail('it ran')), { total: 12 })
    server.answers.push(skipped({ reason: 'already_finished', status: 'READY' }))
    assert.equal(await runs.once('pay', null, () => assert.fail('it ran')), undefined)
    server.answers.push(skipped({ reason: 'already_finished', status: 'READY', result: 'plain text' }))
    await assert.rejects(runs.once('pay', null, () => assert.fail('it ran')), /not JSON: use run\(\)/)
    server.answers.push(skipped({ reason: 'already_finished', status: 'FAILED', failure_reason: 'no money' }))
    await assert.rejects(runs.once('pay', null, () => assert.fail('it ran')), (e: unknown) => e instanceof RunFailedError && e.message.includes('no money'))
    assert.equal(server.sent.length, 4)
  })

  test('another worker runs it: an error that says when to ask again', async () => {
    const { server, runs, skipped } = world()
    server.answers.push(skipped({ reason: 'locked', retry_after_ms: 4200 }))
    await assert.rejects(runs.once('pay', null, () => assert.fail('it ran')), (e: unknown) => e instanceof RunLockedError && e.retryAfter === 4200)
  })

  test('work that fails may be retried; its error is the result, and the server has the reason', async () => {
    const { server, runs, granted, done } = world()
    const wrong = new RangeError('no money')
    server.answers.push(granted(), done)
    await assert.rejects(runs.once('pay', null, () => Promise.reject(wrong)), (e) => e === wrong)
    assert.deepEqual(server.did, ['begin', 'release'])
    assert.equal(server.sent[1]?.body['failure_reason'], 'no money')
  })

  test('a reason is cut to 1024 bytes between two characters', async () => {
    const { server, runs, granted, done } = world()
    server.answers.push(granted(), done)
    await assert.rejects(runs.once('pay', null, () => Promise.reject(new Error('é'.repeat(2000)))))
    const said = String(server.sent[1]?.body['failure_reason'])
    assert.ok(new TextEncoder().encode(said).length <= 1024)
    assert.match(said, /^é+…$/)
  })

  for (const [why, error, failures] of [['a PermanentError', new PermanentError('gone'), 0], ['the last failure that maxFailures allows', new Error('gone'), 2]] as const) {
    test(`FAILED for good: ${why}`, async () => {
      const { server, runs, granted, done } = world()
      server.answers.push(granted({ failures }), done)
      await assert.rejects(runs.once('pay', null, () => Promise.reject(error), { maxFailures: 3 }), (e) => e === error)
      assert.deepEqual(server.did, ['begin', 'finish'])
      assert.deepEqual([server.sent[1]?.body['status'], server.sent[1]?.body['failure_reason']], ['FAILED', 'gone'])
    })
  }

  test('a text that is no result ends it for good', async () => {
    for (const result of ['\ud800', 5, null, 'x'.repeat(262_145), 'é'.repeat(131_073), 'x'.repeat(2_621_440)]) {
      const { server, runs, granted, done } = world()
      server.answers.push(granted(), done)
      assert.equal((await runs.run('pay', () => result as never)).status, 'failed')
      assert.equal(server.sent[1]?.body['status'], 'FAILED')
    }
  })

  test('a text of 256 KiB is a result', async () => {
    for (const result of ['x'.repeat(262_144), 'é'.repeat(131_072)]) {
      const { server, runs, granted, done } = world()
      server.answers.push(granted(), done)
      assert.equal((await runs.run('pay', () => result)).status, 'ready')
      assert.equal(server.sent[1]?.body['result'], result)
    }
  })

  const circle: { a?: unknown } = {}
  circle.a = circle
  for (const [what, [result, said]] of Object.entries<[unknown, RegExp]>({
    'a circle': [circle, /JSON cannot say its result: .*circular/],
    'a BigInt': [{ a: 5n }, /JSON cannot say its result: .*BigInt/],
    'a toJSON that fails': [{ toJSON() { throw new RangeError('no ink') } }, /JSON cannot say its result: no ink/],
    'a toJSON that throws nothing at all': [{ toJSON() { throw undefined } }, /JSON cannot say its result: undefined/],
    'a toJSON that throws what cannot be said': [{ toJSON() { throw { toString: null } } }, /JSON cannot say its result: unknown/],
    NaN: [{ mean: [NaN] }, /JSON cannot say its result: it has NaN/],
    infinity: [-Infinity, /JSON cannot say its result: it has -Infinity/],
    'a function': [() => 5, /JSON cannot say its result: it is a function/],
    'too deep': [Array(100_000).fill(0).reduce((inner) => [inner], 0), /JSON cannot say its result: .*stack/],
    'too large': ['x'.repeat(262_143), /more than 262144 bytes/],
  })) {
    test(`the work is done, and not done again for a result that cannot be kept: ${what}`, async () => {
      const { server, runs, granted, done } = world()
      server.answers.push(granted(), done)
      await assert.rejects(runs.once('pay', null, () => result), (e: unknown) => e instanceof PermanentError && said.test(e.message))
      assert.deepEqual([server.did, server.sent[1]?.body['status']], [['begin', 'finish'], 'FAILED'])
      assert.match(String(server.sent[1]?.body['failure_reason']), said)
    })
  }

  test('nor if its caller has left, or its lock has expired here', async () => {
    const { server, runs, granted, done } = world()
    const stop = new AbortController()
    server.answers.push(granted(), done)
    await assert.rejects(runs.once('pay', null, () => (stop.abort(), 5n), { signal: stop.signal }), PermanentError)
    assert.deepEqual([server.did, server.sent[1]?.body['status']], [['begin', 'finish'], 'FAILED'])

    const late = world()
    late.server.answers.push(late.granted(), late.done)
    await assert.rejects(late.runs.once('pay', null, () => (late.clock.skip(301_000), 5n)), PermanentError)
    assert.deepEqual([late.server.did, late.server.sent[1]?.body['status']], [['begin', 'finish'], 'FAILED'])
  })

  test('every caller gets what comes out of the JSON, the first as well', async () => {
    for (const [made, out] of [
      [{ at: new Date(0), none: undefined, list: [undefined], tags: new Set(['a']) }, { at: '1970-01-01T00:00:00.000Z', list: [null], tags: {} }],
      [undefined, undefined], [null, null], [-0, 0], ['\ud800', '\ud800'],
    ]) {
      const { server, runs, granted, done, skipped } = world()
      server.answers.push(granted(), done)
      assert.deepEqual(await runs.once('pay', null, () => made as unknown), out)
      server.answers.push(skipped({ reason: 'already_finished', status: 'READY', ...(server.sent[1]?.body['result'] !== undefined && { result: server.sent[1].body['result'] }) }))
      assert.deepEqual(await runs.once('pay', null, () => assert.fail('it ran')), out)
    }
  })

  test('the input is compared, and the error of another one says what to do', async () => {
    const { server, runs, granted, done } = world()
    server.answers.push(granted(), done, () => problem('RUN_DIFFERS', 422, { detail: 'used before' }))
    assert.equal(await runs.once('pay', { b: 1, a: [] }, () => 5), 5)
    assert.equal(server.sent[0]?.body['fingerprint'], await fingerprint({ a: [], b: 1 }))
    await assert.rejects(runs.once('pay', { b: 2 }, () => assert.fail('it ran')), (e: unknown) =>
      e instanceof RunDiffersError && e.cause instanceof RunDiffersError && e.field === undefined && /used before.*part of the name/.test(e.message))
    assert.equal(server.sent[2]?.body['fingerprint'], await fingerprint({ b: 2 }))
  })

  test('a bound on takeovers is sent, above all 0; and a time to keep of ten years', async () => {
    for (const maxTakeovers of [undefined, 0, 2]) {
      const { server, runs, granted, done } = world({ keep: 316_224_000_000 })
      server.answers.push(granted(), done)
      await runs.once('pay', null, () => 5, maxTakeovers === undefined ? {} : { maxTakeovers })
      assert.equal(server.sent[0]?.body['max_takeovers'], maxTakeovers)
      assert.equal(server.sent[0]?.body['keep_seconds'], 316_224_000)
    }
  })

  for (const [what, error, said] of [
    ['an object without a prototype', Object.create(null), 'unknown'], ['nothing', undefined, 'undefined'], ['a lone surrogate', new Error('a\ud800'), 'a\ufffd'],
    ['a message that is no text', Object.assign(new Error('x'), { message: { a: 1 } }), '[object Object]'], ['no message', new Error(''), 'the work failed'],
  ] as const) {
    test(`whatever the work throws, the lock is released with a reason: ${what}`, async () => {
      const { server, runs, granted, done } = world()
      server.answers.push(granted(), done)
      await assert.rejects(runs.once('pay', null, () => { throw error }), (e) => e === error)
      assert.deepEqual([server.did, server.sent[1]?.body['failure_reason']], [['begin', 'release'], said])
    })
  }

  test('the lock is refreshed while the work runs, and is lost before it ends at the server', async () => {
    const { clock, server, runs, granted, done, warnings } = world()
    server.answers.push(granted(), done)
    let signal: AbortSignal | undefined
    const work = runs.once('pay', null, (run) => {
      signal = run.signal
      return new Promise((_, reject) => run.signal.addEventListener('abort', () => reject(run.signal.reason)))
    })
    const end = assert.rejects(work, LockLostError)
    await clock.pass(61_000) // a fifth of 300 s
    assert.deepEqual(server.did, ['begin', 'refresh'])
    for (let i = 0; i < 1000; i++) server.answers.push(() => new TypeError('fetch failed'))
    const refreshed = server.sent[1]?.at ?? 0
    await clock.pass(300_000 - 61_000 + 59_990)
    assert.equal(signal?.aborted, false)
    await clock.pass(20)
    assert.equal(signal?.aborted, true)
    assert.ok(clock.mono <= refreshed + 300_010)
    await end
    assert.ok(warnings.length > 3)
    assert.ok(!server.did.includes('finish'))
  })

  test('a lock that was taken over is lost at once', async () => {
    const { clock, server, runs, granted } = world()
    server.answers.push(granted(), () => problem('LEASE_LOST', 409))
    const work = runs.once('pay', null, (run) => new Promise((resolve) => run.signal.addEventListener('abort', () => resolve('late'))))
    const end = assert.rejects(work, (e: unknown) => e instanceof LockLostError && e.code === 'LEASE_LOST')
    await clock.pass(61_000)
    await end
    assert.deepEqual(server.did, ['begin', 'refresh']) // the late result is not stored
  })

  test('the caller stops it: the lock is released, without a failure', async () => {
    const { server, runs, granted, done } = world()
    server.answers.push(granted(), done)
    const stop = new AbortController()
    const work = runs.once('pay', null, (run) => new Promise((_, reject) => run.signal.addEventListener('abort', () => reject(run.signal.reason))), { signal: stop.signal })
    const end = assert.rejects(work, (e) => e === stop.signal.reason)
    await settle()
    stop.abort(new Error('shutdown'))
    await end
    assert.deepEqual(server.did, ['begin', 'release'])
    assert.equal(server.sent[1]?.body['failure_reason'], undefined)
    await assert.rejects(runs.once('pay', null, () => assert.fail('it ran'), { signal: stop.signal }), (e) => e === stop.signal.reason)
    assert.equal(server.sent.length, 2)
  })
})

describe('a begin', () => {
  const never = () => new Promise<never>(() => undefined)
  const lost = () => new TypeError('fetch failed')
  const ends = ({ sent, clock }: FakeServer) =>
    sent.map((s) => s.body['not_after'] && Math.ceil(Date.parse(String(s.body['not_after'])) - (clock.time - clock.mono) - s.at))
  const ids = (server: FakeServer) => server.sent.map((s) => s.body['request_id'])
  const gone = () => new Response(null, { status: 204 })

  test('ends when no answer is waited for any more, and two seconds for the way', async () => {
    for (const ttl of [300_000, 5000]) {
      const { clock, server, runs, granted, done } = world()
      server.answers.push(lost, granted({ remaining_ms: ttl }), done)
      assert.equal((await clock.until(runs.run('pay', () => 'ok', { ttl }))).status, 'ready')
      assert.deepEqual(ends(server), [4000, 6000, undefined])
    }
  })

  test('that comes too late is sent once more, with an end in the time of the store', async () => {
    const { server, clock, runs, granted, done } = world()
    server.answers.push(() => late(clock.time + 90_000), granted(), done)
    assert.equal((await runs.run('pay', () => 'ok')).status, 'ready')
    assert.deepEqual(ends(server), [4000, 94_000, undefined])
    assert.equal(ids(server)[0], ids(server)[1])
    server.answers.push(() => late(clock.time), () => late(clock.time))
    await assert.rejects(runs.run('pay', () => assert.fail('it ran')), (e: unknown) => e instanceof ApiError && e.code === 'TOO_LATE')
    await clock.pass(60_000)
    assert.equal(server.sent.length, 5)
  })

  test('whose caller gives up returns at once, and is given up in the background', async () => {
    for (const analyses of [false, true]) {
      const { clock, server, runs, warnings } = world({ analyses })
      const stop = new AbortController()
      server.answers.push(never, () => problem('UNAVAILABLE', 503), lost, gone)
      const work = runs.run('pay', () => assert.fail('it ran'), { signal: stop.signal, fingerprint: 'f' })
      await settle()
      stop.abort(new RangeError('enough'))
      assert.deepEqual(await work, { status: 'stopped', error: stop.signal.reason })
      await clock.pass(60_000)
      assert.deepEqual(server.did, Array(4).fill(analyses ? 'lock' : 'begin'))
      const { not_after: _, ...body } = server.sent[0]?.body ?? {}
      for (const s of server.sent.slice(1)) assert.deepEqual(s.body, { ...body, give_up: true })
      assert.deepEqual([warnings, clock.timers], [[], 0])
    }
  })

  test('that cannot be given up is a warning', async () => {
    const { clock, server, runs, warnings } = world()
    const stop = new AbortController()
    server.answers.push(never, () => problem('PERMISSION_DENIED', 403))
    const work = runs.run('pay', () => assert.fail('it ran'), { signal: stop.signal })
    await settle()
    stop.abort()
    await work
    await clock.pass(60_000)
    assert.deepEqual(warnings.map((e) => (e as ApiError).code), ['PERMISSION_DENIED'])
  })

  test('without an answer is given up, and one that was refused is not', async () => {
    for (const [name, answers, given] of [
      ['no answer', Array(30).fill(lost), true],
      ['no answer, then no token', [lost, () => problem('UNAUTHENTICATED', 401)], true],
      ['no answer, then no right', [lost, () => problem('PERMISSION_DENIED', 403)], false],
      ['no right', [() => problem('PERMISSION_DENIED', 403)], false],
      ['no answer, then locked', [lost, () => json({ run_id: 'pay', acquired: false, reason: 'locked' })], true],
      ['locked', [() => json({ run_id: 'pay', acquired: false, reason: 'locked' })], false],
      ['no answer, then finished', [lost, () => json({ run_id: 'pay', acquired: false, reason: 'already_finished', status: 'READY' })], false],
      ['no answer, then another request', [lost, () => problem('REQUEST_ID_REUSED', 422), () => problem('PERMISSION_DENIED', 403)], false],
    ] as const) {
      const { clock, server, runs, done } = world()
      server.answers.push(...answers)
      const work = clock.until(runs.run('pay', () => assert.fail('it ran')).catch(() => undefined))
      await work
      server.answers.length = 0
      server.answers.push(gone, done)
      await clock.pass(60_000)
      assert.equal(server.sent.some((s) => s.body['give_up']), given, name)
      if (given) assert.equal(new Set(ids(server)).size, 1, name)
    }
  })
})

describe('an end that is not stored', () => {
  const away = () => new TypeError('fetch failed')

  for (const [what, work, status, end] of [
    ['a result', () => 'paid', 'ready', { status: 'READY', result: 'paid' }],
    ['a failure for good', () => { throw new PermanentError('no ink') }, 'failed', { status: 'FAILED', failure_reason: 'no ink' }],
  ] as const) {
    for (const outage of [15_000, 40_000, 90_000, 600_000]) {
      test(`${what} is sent until the gate is back, after ${outage / 1000} s`, async () => {
        const { clock, server, runs, granted, done } = world()
        server.answers.push(granted({ remaining_ms: 30_000 }), ...Array<() => Error>(500).fill(away))
        clock.after(outage, () => (server.answers.length = 0, server.answers.push(done)))
        const got = await clock.until(runs.run('pay', work, { ttl: 30_000 }))
        if (outage < 31_000) assert.equal(got.status, status)
        else {
          assert.deepEqual([got.status, got.result, got.error instanceof RunNotStoredError, clock.mono >= 31_000, clock.mono < 33_500], ['not_stored', status === 'ready' ? 'paid' : undefined, true, true, true])
          assert.equal((await clock.until(got.storing?.done ?? assert.fail())).status, status)
        }
        assert.deepEqual(server.did.filter((d) => d !== 'finish'), ['begin'])
        const { status: said, result, failure_reason } = server.sent.at(-1)?.body ?? {}
        assert.deepEqual({ status: said, ...(result !== undefined && { result }), ...(failure_reason !== undefined && { failure_reason }) }, end)
        const { length } = server.sent
        await clock.pass(60_000)
        assert.deepEqual([server.sent.length, clock.timers, await runs.close()], [length, 0, []])
      })
    }
  }

  for (const [what, work, rejected] of [['a result', () => 'paid', ['first', 'second']], ['a failure for good', () => { throw new PermanentError('no ink') }, ['first']]] as const) {
    test(`${what} that the gate rejects releases the run, with the first reason, and says that it is not stored`, async () => {
      const { server, runs, granted, done } = world()
      const next = () => server.answers.push(granted(), ...rejected.map((detail) => () => problem('INVALID_ARGUMENT', 400, { detail })), done)
      next()
      const got = await runs.run('pay', work)
      const { cause } = got.error as RunNotStoredError
      assert.deepEqual([got.status, got.result, got.storing, got.error instanceof RunNotStoredError], ['not_stored', rejected.length > 1 ? 'paid' : undefined, undefined, true])
      assert.match(String(cause), rejected.length > 1 ? /first/ : /no ink/)
      assert.deepEqual([server.did, /first/.test(String(server.sent.at(-1)?.body['failure_reason']))], [['begin', ...rejected.map(() => 'finish'), 'release'], true])
      next()
      await assert.rejects(runs.once('pay', null, work), (e: unknown) => e instanceof RunNotStoredError && e.value === (rejected.length > 1 ? 'paid' : undefined) && e.storing === undefined)
    })
  }

  test('ends when another worker took over, and is a warning then', async () => {
    const { clock, server, runs, granted, warnings } = world()
    server.answers.push(granted({ remaining_ms: 30_000 }), ...Array<() => Error>(500).fill(away))
    const got = await clock.until(runs.run('pay', () => 'paid', { ttl: 30_000 }))
    server.answers.length = 0
    server.answers.push(() => problem('LEASE_LOST', 409))
    assert.equal((await clock.until(got.storing?.done ?? assert.fail())).status, 'lock_lost')
    assert.ok(warnings.at(-1) instanceof LockLostError)
  })

  test('is what once() fails with; a process that ends waits for it, then gives it up, and says which run it was', async () => {
    const { clock, server, runs, granted } = world()
    server.answers.push(granted({ remaining_ms: 30_000 }), ...Array<() => Error>(500).fill(away))
    await assert.rejects(clock.until(runs.once('pay', null, () => 'paid', { ttl: 30_000 })), (e: unknown) => e instanceof RunNotStoredError && e.value === 'paid' && e.storing?.id === 'pay')
    const began = clock.mono
    assert.deepEqual(await clock.until(runs.close(3000)), ['pay'])
    assert.ok(clock.mono - began < 3200)
    const { length } = server.sent
    await clock.pass(60_000)
    assert.deepEqual([server.sent.length, clock.timers, await runs.close()], [length, 0, []])
  })

  test('is sent as seldom as the gate asks for while the lock lasts, and no longer pause comes after it', async () => {
    const { clock, server, runs, granted } = world()
    server.answers.push(granted({ remaining_ms: 30_000 }), ...Array<() => Response>(500).fill(() => problem('UNAVAILABLE', 503, { retry_after_ms: 600_000 })))
    await clock.until(runs.run('pay', () => 'paid', { ttl: 30_000 }))
    await clock.pass(100_000)
    const at = server.sent.slice(1).map((s) => s.at)
    const pauses = at.slice(1).map((t, i) => t - (at[i] ?? 0))
    assert.ok((pauses[0] ?? 0) > 9900 && Math.max(...pauses.slice(3)) <= 5100 && at.length > 15, String(pauses))
    await clock.until(runs.close(0))
  })
})

describe('calls that are shared', () => {
  function world(takes = 5000) {
    const clock = new FakeClock()
    const gate = new Gate(clock)
    const runs = new Runs({ url: 'https://locks.test', tenant: 'acme', fetch: gate.fetch, clock })
    const made = { runs: 0 }
    const work = async () => {
      const n = ++made.runs
      await new Promise<void>((resolve) => clock.after(takes, resolve))
      return [n]
    }
    const sent = (what: string) => gate.sent.filter((s) => s.path.endsWith(what)).length
    return { clock, gate, runs, made, work, sent }
  }

  test('a storm of them is one run and one request for it; each has a result of its own', async () => {
    const { clock, runs, made, work, sent } = world()
    const got = await clock.until(Promise.all(Array.from({ length: 64 }, () => runs.once('r', { a: 1 }, work, { shared: true, wait: 10_000 }))))
    assert.deepEqual([new Set(got.map(String)), new Set(got).size, made.runs, sent('/begin'), sent('/finish')], [new Set(['1']), 64, 1, 1, 1])
  })

  test('share a failure, and what the work returned; the next call asks again', async () => {
    const { clock, runs, made } = world()
    const failing = () => runs.once('r', null, async () => {
      made.runs++
      await new Promise<void>((resolve) => clock.after(1000, resolve))
      throw new RangeError('no paper')
    }, { shared: true, wait: 10_000 }).catch((e: unknown) => e)
    const [one, two] = await clock.until(Promise.all([failing(), failing()]))
    assert.ok(one instanceof RangeError && one === two && made.runs === 1)
    const value = { pages: 3 }
    const call = () => runs.run('r', async () => value, { text: (v) => String(v.pages), shared: true, wait: 10_000 })
    const all = await clock.until(Promise.all([call(), call()]))
    assert.deepEqual(all.map((o) => [o.status, o.result, o.value === value]), [['ready', '3', true], ['ready', '3', true]])
    assert.deepEqual(await clock.until(call()), { status: 'already_finished', result: '3' })
  })

  test('share nothing of one that did not run, or whose failure says nothing: another one asks', async () => {
    const { clock, runs, made, work } = world()
    const left = new AbortController()
    const until = ({ signal }: Run) => new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
    const first = runs.once('r', null, until, { shared: true, signal: left.signal }).catch((e: unknown) => e)
    const second = runs.once('r', null, work, { shared: true, wait: 10_000 })
    clock.after(1000, () => left.abort('left'))
    assert.deepEqual(await clock.until(Promise.all([first, second])), ['left', [1]])
    const uncounted = runs.once('s', null, () => { throw new UncountedError('no credential') }, { shared: true }).catch((e: unknown) => e)
    const other = runs.once('s', null, work, { shared: true, wait: 10_000 })
    assert.ok((await clock.until(uncounted)) instanceof UncountedError)
    assert.deepEqual([await clock.until(other), made.runs], [[2], 2])
  })

  test('wait no longer than they are told to, and until their caller leaves', async () => {
    const { clock, runs, work } = world(20_000)
    const first = runs.run('r', async () => String(await work()), { shared: true })
    const left = new AbortController()
    const stopped = runs.run('r', async () => '', { shared: true, wait: 10_000, signal: left.signal })
    clock.after(500, () => left.abort('left'))
    assert.deepEqual(await clock.until(stopped), { status: 'stopped', error: 'left' })
    assert.deepEqual(await clock.until(runs.run('r', async () => '', { shared: true, wait: 3000 })), { status: 'locked', retryAfter: 1000 })
    assert.ok(clock.mono < 6000)
    assert.equal((await clock.until(first)).result, '1')
  })

  test('of another input are refused, also while the end is not stored', async () => {
    const { clock, gate, runs, work } = world(1000)
    const ask = (input: number) => runs.once('r', input, work, { shared: true, wait: 3000, ttl: 3000 }).catch((e: unknown) => e)
    const first = ask(1)
    await clock.pass(10)
    assert.ok((await clock.until(ask(2))) instanceof RunDiffersError)
    gate.away = true
    assert.ok((await clock.until(first)) instanceof RunNotStoredError)
    const { length } = gate.sent
    assert.ok((await clock.until(ask(2))) instanceof RunDiffersError)
    assert.deepEqual(((await clock.until(ask(1))) as RunNotStoredError).value, [1])
    assert.equal(gate.sent.length, length)
    assert.deepEqual((await clock.until(runs.close(0))), ['r'])
  })
})

describe('an attempt', () => {
  test('that is uncounted has no reason; one whose time is over has one, and may be the last', async () => {
    for (const [error, reason, status] of [[new UncountedError('no credential'), undefined, 'release'], [new DOMException('over', 'TimeoutError'), 'over', 'finish'], [new Error('shutdown'), undefined, 'release']] as const) {
      const { server, runs, granted, done } = world()
      const stop = new AbortController()
      server.answers.push(granted({ failures: 2 }), done)
      const got = await runs.run('pay', () => {
        if (!(error instanceof UncountedError)) stop.abort(error)
        throw error
      }, { signal: stop.signal, maxFailures: 3 })
      assert.deepEqual([server.did, server.sent[1]?.body['failure_reason']], [['begin', status], reason])
      assert.equal(got.error, error)
    }
  })

  test('at a gate that is silent, or refuses, ends soon with retryFor, whatever its wait', async () => {
    for (const [answer, most] of [[() => new Promise<never>(() => undefined), 2000], [() => problem('UNAVAILABLE', 503), 1500]] as const) {
      const { clock, server, runs } = world()
      server.answers.push(...Array<() => Response | Promise<never>>(100).fill(answer))
      const began = clock.mono
      await assert.rejects(clock.until(runs.run('pay', () => assert.fail('it ran'), { wait: 60_000, retryFor: 1500 })))
      assert.ok(clock.mono - began >= most - 100 && clock.mono - began <= most + 100, String(clock.mono - began))
    }
  })

  test('counts the time of a silent gate anew when it has responded', async () => {
    const { clock, server, runs, skipped, granted, done } = world()
    const next = [() => new TypeError('fetch failed'), ...Array<ReturnType<typeof skipped>>(8).fill(skipped({ reason: 'locked', retry_after_ms: 5000 })), () => new TypeError('fetch failed'), granted(), done]
    // What is given up on the way, in the background, takes no answer of another request away.
    const answer: (typeof server.answers)[number] = (sent) => (sent.body['give_up'] ? new Response(null, { status: 204 }) : next.shift()?.(sent))
    server.answers.push(...Array<typeof answer>(100).fill(answer))
    assert.equal((await clock.until(runs.run('pay', () => 'paid', { wait: 60_000, retryFor: 1500 }))).status, 'ready')
  })
})

test('analyses have their own paths and names, and none of keep', async () => {
  const { server, runs, granted, done } = world({ analyses: true })
  server.answers.push(granted(), done)
  assert.equal((await runs.run('pay', () => 'ok')).status, 'ready')
  assert.deepEqual(server.sent.map((s) => s.path), ['/v1/analyses/pay/lock', '/v1/analyses/pay/finish'])
  server.answers.push(() => problem('NOT_FOUND', 404, { field: 'analysis_id' }))
  assert.equal((await runs.run('pay', () => 'ok')).status, 'unknown')
})

test('arguments that cannot work are errors that name the field, before anything is sent', async () => {
  const { server, runs } = world()
  const refused = (field: string, work: () => unknown) =>
    assert.rejects(async () => work(), (e: unknown) => e instanceof InvalidSettingError && e.field === field && e.message.length > 15)
  const base = { url: 'https://locks.test', tenant: 'acme' }
  const work = () => 'x'
  await refused('keep', () => new Runs({ ...base, keep: 1000 }))
  await refused('keep', () => new Runs({ ...base, keep: 'day' as never }))
  await refused('id', () => runs.once('', null, work))
  await refused('id', () => runs.once('a/b', null, work))
  await refused('id', () => runs.once('x'.repeat(257), null, work))
  await refused('id', () => runs.once(undefined as never, null, work))
  await refused('id', () => runs.once(42 as never, null, work))
  await refused('work', () => runs.run('a', undefined as never))
  await refused('work', () => runs.once('a', null, undefined as never))
  await refused('ttl', () => runs.once('a', null, work, { ttl: 1500 }))
  for (const ttl of ['1m', '300000']) await refused('ttl', () => runs.once('a', null, work, { ttl: ttl as never }))
  await refused('keep', () => new Runs({ ...base, keep: '60000' as never }))
  await refused('onWarning', () => new Runs({ ...base, onWarning: 5 as never }))
  await refused('options', () => runs.run('a', work, null as never))
  await refused('options', () => new Runs(undefined as never))
  await refused('heartbeat', () => runs.once('a', null, work, { heartbeat: 300_000 }))
  await refused('heartbeat', () => runs.once('a', null, work, { heartbeat: NaN }))
  await refused('wait', () => runs.once('a', null, work, { wait: -1 }))
  await refused('retryFor', () => runs.once('a', null, work, { retryFor: -1 }))
  await refused('most', () => runs.close(-1))
  await refused('maxFailures', () => runs.once('a', null, work, { maxFailures: 1.5 }))
  await refused('fingerprint', () => runs.run('a', work, { fingerprint: 'x'.repeat(129) }))
  await refused('fingerprint', () => runs.once('a', null, work, { fingerprint: 'x' } as never))
  await refused('input', () => runs.once('a', undefined, work))
  await refused('input', () => runs.once('a', new Map(), work))
  for (const maxTakeovers of [-1, 1.5, NaN, '0', null]) await refused('maxTakeovers', () => runs.once('a', null, work, { maxTakeovers: maxTakeovers as never }))
  await refused('maxTakeovers', () => new Runs({ ...base, analyses: true }).once('a', null, work, { maxTakeovers: 0 }))
  await refused('keep', () => new Runs({ ...base, keep: 316_224_001_000 }))
  await refused('signal', () => runs.once('a', null, work, { signal: {} as never }))
  assert.equal(server.sent.length, 0)
})
