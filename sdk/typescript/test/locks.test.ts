import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { describe, test } from 'node:test'
import {
  ApiError, ClosedError, NoResponseError, InvalidSettingError, InvalidResponseError, LockHeldError, LockLostError, LockModeDiffersError, Locks, MaxHoldError,
  NotReleasedError, PermissionDeniedError, type LockEvent, type LocksOptions,
} from '../src/index.js'
import { InvalidArgumentError, LeaseLostError } from '../src/errors.js'
import { acquireAll, requestAll } from '../src/sets.js'
import { parseJSON } from '../src/http.js'
import { systemClock } from '../src/time.js'
import { FakeClock, FakeServer, json, late, problem, settle } from './world.js'

function world(o: Partial<LocksOptions> = {}) {
  const clock = new FakeClock()
  const server = new FakeServer(clock)
  const events: LockEvent[] = []
  const locks = new Locks({ url: 'https://locks.test', tenant: 'acme', owner: 'ann', fetch: server.fetch, clock, observe: (e) => events.push(e), ...o })
  return { clock, server, locks, events, types: () => events.map((e) => e.type) }
}

const never = () => new Promise<never>(() => undefined)
const lostAnswer = () => new TypeError('fetch failed')

describe('request', () => {
  test('holds the lock while the work runs, and renews it every third of its ttl', async () => {
    const { clock, server, locks, types } = world()
    let during: boolean | undefined
    const work = locks.request('deploy', async (lock) => {
      await clock.pass(25_000)
      during = lock.owned
      assert.equal(lock.token, 101)
      return 'done'
    })
    assert.equal(await work, 'done')
    assert.equal(during, true)
    assert.deepEqual(server.did, ['acquire', 'renew', 'renew', 'release'])
    assert.deepEqual(server.sent.slice(1, 3).map((s) => s.at - 1000), [10_000, 20_000])
    assert.deepEqual(types(), ['acquired', 'renewed', 'renewed', 'released'])
    assert.equal(clock.timers, 0)
  })

  test('fails with the error of the work, and releases the lock', async () => {
    const { server, locks } = world()
    await assert.rejects(locks.request('deploy', () => Promise.reject(new RangeError('own'))), RangeError)
    assert.deepEqual(server.did, ['acquire', 'release'])
  })

  test('with ifAvailable gives null to the work, without a wait', async () => {
    const { clock, server, locks } = world()
    server.holder = { owner: 'bob', request: 'x', token: 7, until: clock.time + 9000, ttl: 30_000 }
    assert.equal(await locks.request('deploy', { ifAvailable: true }, (lock) => lock === null), true)
    assert.equal(await locks.acquire('deploy', { ifAvailable: true }), null)
    assert.deepEqual(server.did, ['acquire', 'acquire'])
  })

  test('says that the lock was lost, though the work succeeded', async () => {
    const { clock, server, locks } = world()
    const work = locks.request('deploy', async () => {
      if (server.holder) server.holder.token = 999 // replaced
      await clock.pass(12_000)
      return 'done'
    })
    await assert.rejects(work, (e: unknown) => e instanceof LockLostError && e.cause instanceof LeaseLostError)
    assert.deepEqual(server.did, ['acquire', 'renew']) // nothing to release
  })

  test('says so also if the process was stopped at the end of the work, and no timer has fired', async () => {
    for (const passed of [26_900, 27_000, 3_600_000]) {
      const { clock, server, locks } = world()
      const work = locks.request('deploy', () => {
        clock.skip(passed)
        return 'done'
      })
      if (passed < 27_000) assert.equal(await work, 'done')
      else await assert.rejects(work, LockLostError)
      assert.deepEqual(server.did, passed > 30_000 ? ['acquire'] : ['acquire', 'release'])
    }
  })

  test('has the error of the work beside the loss', async () => {
    const { clock, server, locks } = world()
    const own = new Error('own')
    const work = locks.request('deploy', async () => {
      server.holder = undefined
      await clock.pass(12_000)
      throw own
    })
    await assert.rejects(work, (e: unknown) => e instanceof LockLostError && e.workError === own)
  })
})

describe('listeners', () => {
  test('of the caller\'s signal, of the client and of the page are gone when the lock is', async (t) => {
    const { clock, server, locks } = world()
    const caller = new AbortController()
    const page = new EventTarget()
    const targets = new Set<EventTarget>() // all that were listened to
    const listen = EventTarget.prototype.addEventListener
    t.mock.method(EventTarget.prototype, 'addEventListener', function (this: EventTarget, ...args: Parameters<typeof listen>) {
      targets.add(this)
      return listen.apply(this, args)
    })
    Object.assign(globalThis, { document: page })
    t.after(() => Reflect.deleteProperty(globalThis, 'document'))
    const o = { signal: caller.signal }
    const taken = () => (server.holder = { owner: 'bob', request: 'x', token: 7, until: clock.time + 60_000, ttl: 60_000 })
    const uses: Record<string, () => Promise<unknown>> = {
      'work': () => locks.request('deploy', o, () => clock.pass(12_000)),
      'work that fails': () => assert.rejects(locks.request('deploy', o, () => Promise.reject(new RangeError('own'))), RangeError),
      'a lock that is released': async () => (await locks.acquire('deploy', o)).release(),
      'a lock that is lost': async () => {
        await locks.acquire('deploy', o)
        taken()
        await clock.pass(12_000)
      },
      'a lock that expires': async () => {
        await locks.acquire('deploy', o)
        for (let i = 0; i < 100; i++) server.answers.push(() => lostAnswer())
        await clock.pass(40_000)
        server.answers.length = 0
      },
      'a wait that ends': async () => {
        taken()
        await assert.rejects(clock.until(locks.acquire('deploy', { ...o, wait: 5000 })), LockHeldError)
      },
      'no wait': async () => {
        taken()
        assert.equal(await locks.acquire('deploy', { ...o, ifAvailable: true }), null)
      },
      'a rejection': async () => {
        server.answers.push(() => problem('PERMISSION_DENIED', 403))
        await assert.rejects(locks.acquire('deploy', o), PermissionDeniedError)
      },
      'a lost answer': async () => {
        server.answers.push((r) => (server.answer(r), lostAnswer()))
        await (await clock.until(locks.acquire('deploy', o))).release()
      },
      'a read': () => locks.get('deploy').catch(() => undefined),
    }
    for (const [name, use] of Object.entries(uses)) {
      for (let i = 0; i < 20; i++) {
        server.holder = undefined
        await use()
        await clock.pass(5000) // what goes on in the background
      }
      assert.equal(getEventListeners(caller.signal, 'abort').length, 0, name)
      assert.deepEqual(['visibilitychange', 'resume', 'pageshow'].map((e) => getEventListeners(page, e).length), [0, 0, 0], name)
      // Also those that no caller can see: that of the client lasts as long as the client.
      const most = Math.max(...Array.from(targets, (s) => getEventListeners(s, 'abort').length))
      assert.ok(most < 10, `${name}: one signal has ${most} listeners`)
    }
    assert.equal(clock.timers, 0)
  })

  test('of a signal that is aborted are gone when the lock has ended', async () => {
    const { clock, locks } = world()
    const caller = new AbortController()
    const lock = await locks.acquire('deploy', { signal: caller.signal })
    assert.equal(getEventListeners(caller.signal, 'abort').length, 1)
    caller.abort(new RangeError('enough'))
    assert.throws(() => lock.check(), RangeError)
    await clock.pass(60_000)
    assert.equal(getEventListeners(caller.signal, 'abort').length, 0)
    assert.equal(clock.timers, 0)
  })
})

describe('a wall clock that is wrong', () => {
  /** What is sent, told and known, and when by the monotonic clock, while the wall clock differs from that of the server by off(). */
  const story = async (off: (clock: FakeClock) => number) => {
    const { clock, server, locks, events } = world()
    clock.wall = () => clock.time + off(clock)
    const http = (ms: number) => new Date(Math.floor((clock.time + ms) / 1000) * 1000).toUTCString()
    const busy = () => json({ code: 'UNAVAILABLE', title: 'x', retryable: true }, 503, { date: http(0), 'retry-after': http(7000) })
    const taken = (ms: number) => (server.holder = { owner: 'bob', request: 'x', token: 7, until: clock.time + ms, ttl: 60_000 })
    const known: unknown[] = []
    taken(9000)
    server.answers.push(busy)
    const lock = await clock.until(locks.acquire('deploy', { wait: 60_000 }))
    for (let i = 0; i < 5; i++) {
      await clock.pass(7000)
      known.push(lock.remaining)
    }
    server.answers.push(busy) // of a renewal
    await clock.pass(20_000)
    await lock.release()
    for (const maxHold of [12_000, 3_600_000]) { // then one whose renewals fail
      const other = await locks.acquire('deploy', { maxHold })
      other.signal.addEventListener('abort', () => known.push(clock.mono, (other.signal.reason as Error).name))
      if (maxHold > 12_000) for (let i = 0; i < 200; i++) server.answers.push(() => lostAnswer())
      await clock.pass(60_000)
      server.answers.length = 0
    }
    taken(60_000)
    await assert.rejects(clock.until(locks.acquire('deploy', { wait: 4000 })), LockHeldError)
    const round = (n: number | undefined) => n && Math.round(n) // numbers of 1970 have more digits behind the point
    return {
      // What is sent again because its end was wrong shows nothing else.
      sent: server.sent.filter((s) => !server.late.includes(s)).map((s) => [s.path.split('/').at(-1), round(s.at)]), events: events.map((e) => [e.type, round(e.after)]),
      known: known.map((k) => (typeof k === 'number' ? round(k) : k)),
    }
  }
  const hour = 3_600_000
  for (const [name, off] of Object.entries<(clock: FakeClock) => number>({
    'an hour behind': () => -hour, 'an hour ahead': () => hour, 'of 1970': () => -Date.UTC(2026, 0, 1), 'of the next century': () => 100 * 8766 * hour,
    'set back by an hour now and then': (clock) => -hour * Math.floor(clock.mono / 17_000),
  })) {
    test(`decides nothing: ${name}`, async (t) => {
      t.mock.method(Math, 'random', () => 0.5)
      const right = await story(() => 0)
      assert.deepEqual(await story(off), right)
      assert.ok(right.sent.length > 20 && right.known.includes('MaxHoldError') && right.known.includes('LockLostError'))
    })
  }
})

describe('the signal', () => {
  test('is aborted before the lease expires at the server if renewals fail', async () => {
    const { clock, server, locks, events } = world()
    const lock = await locks.acquire('deploy')
    const end = server.holder?.until ?? 0
    for (let i = 0; i < 200; i++) server.answers.push(() => lostAnswer())
    let at = 0
    lock.signal.addEventListener('abort', () => (at = clock.time))
    await clock.pass(40_000)
    assert.ok(at > 0 && at <= end - 3000, `aborted ${end - at} ms before the end`)
    assert.ok(lock.signal.reason instanceof LockLostError)
    assert.equal(lock.owned, false)
    assert.equal(lock.remaining, 0)
    assert.throws(() => lock.check(), LockLostError)
    assert.equal(events.filter((e) => e.type === 'lost').length, 1)
    await assert.rejects(lock.release(), LockLostError)
    assert.equal(clock.timers, 0)
  })

  for (const [name, mono, wall] of [['both clocks', 40_000, 40_000], ['the wall clock only, as when the machine slept', 0, 40_000], ['performance.now() only', 40_000, 0]] as const) {
    test(`knows at its next use that the process was stopped: ${name}`, async () => {
      const { clock, locks } = world()
      const lock = await locks.acquire('deploy')
      await clock.pass(1000)
      clock.mono += mono
      clock.time += wall
      assert.equal(lock.signal.aborted, true) // no timer has fired
      assert.throws(() => lock.signal.throwIfAborted(), LockLostError)
    })
  }

  test('stays as it is if the wall clock is set back', async () => {
    const { clock, locks } = world()
    const lock = await locks.acquire('deploy')
    clock.time -= 3_600_000
    assert.equal(lock.owned, true)
    await clock.pass(1000)
    assert.equal(lock.owned, true)
    await lock.release()
  })

  test('is aborted when a page is shown again that was frozen', async () => {
    const { clock, locks } = world()
    const lock = await locks.acquire('deploy')
    // In Node the global object is no EventTarget: put one there.
    const page = new EventTarget()
    Object.assign(globalThis, { document: page })
    try {
      const other = await world().locks.acquire('deploy') // has not begun to listen before
      const { clock: clock2, locks: locks2 } = world()
      const watched = await locks2.acquire('deploy')
      let aborted = 0
      watched.signal.addEventListener('abort', () => aborted++)
      clock2.skip(40_000)
      assert.equal(aborted, 0)
      page.dispatchEvent(new Event('visibilitychange'))
      assert.equal(aborted, 1)
      void other
    } finally {
      Reflect.deleteProperty(globalThis, 'document')
    }
    await lock.release()
    assert.equal(clock.timers, 0)
  })

  test('is aborted after maxHold, and the lease is released', async () => {
    const { clock, server, locks } = world()
    const work = locks.request('deploy', { maxHold: 45_000 }, (lock) => new Promise((_, reject) => lock.signal.addEventListener('abort', () => reject(lock.signal.reason))))
    work.catch(() => undefined)
    await clock.pass(46_000)
    await assert.rejects(work, MaxHoldError)
    assert.equal(server.holder, undefined)
  })
})

describe('retries', () => {
  test('have one request_id, so that a lost answer takes no second lease', async () => {
    const { clock, server, locks } = world()
    server.answers.push((r) => (server.answer(r), lostAnswer())) // carried out, and the answer is lost
    const lock = await clock.until(locks.acquire('deploy'))
    assert.equal(server.sent.length, 2)
    assert.equal(server.sent[0]?.body['request_id'], server.sent[1]?.body['request_id'])
    assert.equal(lock.token, 101)
    await lock.release()
  })

  test('obey Retry-After', async () => {
    const { clock, server, locks } = world()
    server.answers.push(() => json({ code: 'UNAVAILABLE', title: 'x', retryable: true }, 503, { 'retry-after': '7' }))
    const lock = await clock.until(locks.acquire('deploy'))
    assert.ok((server.sent[1]?.at ?? 0) - (server.sent[0]?.at ?? 0) >= 7000)
    await lock.release()
  })

  test('end after retryFor, and what the tries may have obtained is given up', async () => {
    const { clock, server, locks, types } = world({ retryFor: 3000 })
    server.answers.push((r) => (server.answer(r), lostAnswer()))
    for (let i = 0; i < 60; i++) server.answers.push(() => (clock.mono < 1000 + 8000 ? lostAnswer() : undefined))
    await assert.rejects(clock.until(locks.acquire('deploy')))
    await clock.pass(60_000)
    assert.equal(server.holder, undefined)
    assert.equal(types().at(-1), 'abandoned')
    assert.equal(clock.timers, 0)
  })

  test('a rejection for good is not repeated', async () => {
    const { server, locks } = world()
    server.answers.push(() => problem('PERMISSION_DENIED', 403, { detail: 'another tenant' }))
    await assert.rejects(locks.acquire('deploy'), (e: unknown) => e instanceof PermissionDeniedError && e.code === 'PERMISSION_DENIED' && e.name === 'PermissionDeniedError')
    assert.equal(server.sent.length, 1)
  })

  test('an error of the server is repeated, though it does not say that it may be', async () => {
    const { clock, server, locks } = world()
    server.answers.push(() => problem('INTERNAL', 500, { retryable: false }))
    await (await clock.until(locks.acquire('deploy'))).release()
    assert.deepEqual(server.did, ['acquire', 'acquire', 'release'])
  })

  for (const [code, status] of [['DOCUMENT_DAMAGED', 500], ['NOT_CONFIGURED', 501]] as const) {
    test(`${code} is not repeated, and has obtained nothing`, async () => {
      const { clock, server, locks } = world()
      for (let i = 0; i < 9; i++) server.answers.push(() => problem(code, status, { retryable: false }))
      await assert.rejects(clock.until(locks.acquire('deploy')), (e: unknown) => e instanceof ApiError && e.code === code)
      await clock.pass(60_000)
      assert.deepEqual(server.did, ['acquire'])
    })
  }

  test('that were not carried out have obtained nothing: OVERLOADED', async () => {
    const { clock, server, locks, types } = world({ retryFor: 3000 })
    for (let i = 0; i < 60; i++) server.answers.push(() => problem('OVERLOADED', 503, { retryable: true }))
    await assert.rejects(clock.until(locks.acquire('deploy')), (e: unknown) => e instanceof ApiError && e.code === 'OVERLOADED')
    const { length } = server.sent
    assert.ok(length > 2)
    server.answers.length = 0
    await clock.pass(60_000)
    assert.equal(server.sent.length, length)
    assert.ok(!types().includes('abandoned'))
  })

  // What a lost answer may have obtained ends when the acquire is given up, unless a later answer says what became of it.
  for (const [code, status, open] of [['UNAUTHENTICATED', 401, true], ['RATE_LIMITED', 429, true], ['PERMISSION_DENIED', 403, false]] as const) {
    test(`a try that may have been carried out stays open: ${code}`, async () => {
      const { clock, server, locks } = world({ retryFor: 3000 })
      server.answers.push((r) => (server.answer(r), lostAnswer()))
      for (let i = 0; i < (status === 429 ? 60 : 1); i++) server.answers.push(() => problem(code, status, { retryable: status === 429 }))
      await assert.rejects(clock.until(locks.acquire('deploy')), (e: unknown) => e instanceof ApiError && e.code === code)
      server.answers.length = 0
      await clock.pass(20_000)
      assert.equal(server.holder === undefined, open)
      assert.deepEqual(server.gone, open ? [server.sent[0]?.body['request_id']] : [])
    })
  }

  test('a rejection that looked at no lock says nothing of a place in line: it is given up', async () => {
    for (const [code, status] of [['RATE_LIMITED', 429], ['UNAVAILABLE', 503]] as const) {
      const { clock, server, locks } = world()
      server.holder = { owner: 'bob', request: 'x', token: 7, until: clock.time + 90_000, ttl: 30_000 }
      const held = () => problem('LOCK_HELD', 409, { owner_id: 'bob', position: 1, retry_after_ms: 30_000 })
      const busy = () => problem(code, status, { retryable: true, retry_after_ms: 3000 })
      server.answers.push(held, held, busy)
      const stop = new AbortController()
      const waiting = locks.acquire('deploy', { fair: true, signal: stop.signal })
      while (server.sent.length < 3) await clock.pass(100)
      await settle()
      stop.abort(new RangeError('enough'))
      await assert.rejects(waiting, RangeError)
      await clock.pass(1000)
      assert.deepEqual(server.gone, [server.sent[0]?.body['request_id']], code)
    }
  })

  test('an acquire that is given up replaces no one, unless it has replaced one already', async () => {
    for (const reused of [false, true]) {
      const { clock, server, locks, types } = world()
      server.answers.push(() => lostAnswer(), () => problem('UNAUTHENTICATED', 401))
      if (reused) server.answers.push(() => problem('REQUEST_ID_REUSED', 422))
      await assert.rejects(clock.until(locks.acquire('deploy', { replace: true })), ApiError)
      await clock.pass(60_000)
      assert.deepEqual(server.sent.map((s) => [s.body['replace'], s.body['give_up']]), [[true, undefined], [true, undefined], [true, true]])
      const { not_after: _, ...body } = server.sent[0]?.body ?? {}
      assert.deepEqual(server.sent[2]?.body, { ...body, give_up: true })
      assert.deepEqual(types(), ['waiting', 'abandoned'])
    }
  })

  test('that the lock is held does not say that a try without an answer comes no more', async () => {
    for (const options of [{ ifAvailable: true }, { wait: 3000 }]) {
      const { clock, server, locks } = world()
      server.holder = { owner: 'bob', request: 'x', token: 7, until: clock.time + 90_000, ttl: 30_000 }
      server.answers.push(lostAnswer)
      assert.ok(!(await clock.until(locks.acquire('deploy', options)).catch((e: unknown) => assert.ok(e instanceof LockHeldError, String(e)))))
      await clock.pass(60_000)
      assert.deepEqual(server.gone, [server.sent[0]?.body['request_id']])
    }
  })

  test('that are refused have nothing to give up', async () => {
    for (const options of [{ wait: 0 }, { ifAvailable: true }]) {
      const { clock, server, locks } = world()
      server.holder = { owner: 'bob', request: 'x', token: 7, until: clock.time + 90_000, ttl: 30_000 }
      await locks.acquire('deploy', options).catch(() => undefined)
      await clock.pass(60_000)
      assert.deepEqual(server.did, ['acquire'])
    }
  })

  test('a give-up is sent for half a minute, until it succeeds or would be rejected again', async () => {
    const answers = {
      'after others': [[() => problem('LOCK_HELD', 409), () => problem('UNAVAILABLE', 503), lostAnswer, () => json({}), never], 6, undefined],
      used: [[() => problem('REQUEST_ID_REUSED', 422)], 1, undefined],
      denied: [[() => problem('PERMISSION_DENIED', 403)], 1, 'PermissionDeniedError'],
      never: [Array(99).fill(lostAnswer), 0, 'NoResponseError'],
      hangs: [Array(99).fill(never), -4, 'NoResponseError'],
    } as const satisfies Record<string, readonly [readonly (() => unknown)[], number, unknown]>
    for (const [name, [given, sent, error]] of Object.entries(answers)) {
      const { clock, server, locks, events } = world()
      const stop = new AbortController()
      server.answers.push(never, ...(given as never[]))
      const waiting = locks.acquire('deploy', { signal: stop.signal })
      await settle()
      stop.abort(new RangeError('enough'))
      await assert.rejects(waiting, RangeError)
      await clock.pass(80_000)
      if (sent > 0) assert.equal(server.sent.length - 1, sent, name)
      else if (sent < 0) assert.ok(server.sent.length > -sent, name)
      else assert.ok(server.sent.length > 5 && (server.sent.at(-1)?.at ?? 0) > 20_000 && (server.sent.at(-1)?.at ?? 0) <= 31_000, name)
      for (const s of server.sent.slice(1)) assert.deepEqual([s.body['give_up'], s.body['request_id']], [true, server.sent[0]?.body['request_id']])
      assert.deepEqual(events.map((e) => [e.type, (e.error as Error | undefined)?.name]), [['abandoned', error]], name)
      assert.equal(clock.timers, 0)
    }
  })

  test('what a request obtained and what has ended is not asked for again by that request', async () => {
    for (const [code, status] of [['REQUEST_ID_REUSED', 422], ['LEASE_EXPIRED', 409]] as const) {
      const { clock, server, locks } = world()
      server.answers.push(() => problem(code, status))
      await (await clock.until(locks.acquire('deploy'))).release()
      assert.deepEqual(server.did, ['acquire', 'acquire', 'release'])
      assert.notEqual(server.sent[0]?.body['request_id'], server.sent[1]?.body['request_id'])
    }
  })

  test('that what a request obtained has ended is no error of one who had no answer until then', async () => {
    const { clock, server, locks } = world()
    const begin = clock.time
    server.answers.push(...Array(99).fill(() => (clock.time - begin < 10_000 ? lostAnswer() : problem('REQUEST_ID_REUSED', 422))))
    await assert.rejects(clock.until(locks.acquire('deploy')), NoResponseError)
    assert.equal(Math.round(clock.time - begin), 10_000)
  })

  test('an answer that comes when its lease is about to end is released, and another is asked for', async () => {
    const { clock, server, locks } = world({ ttl: 15_000, retryFor: 60_000 })
    server.answers.push((r) => {
      const answer = server.answer(r)
      clock.skip(13_500)
      return answer
    })
    const lock = await clock.until(locks.acquire('deploy'))
    assert.equal(lock.owned, true)
    assert.deepEqual(server.did, ['acquire', 'release', 'acquire'])
    assert.ok(lock.remaining > 13_000)
    await lock.release()
  })

  test('are not waited for if the server asks for more time than there is', async () => {
    const { clock, server, locks } = world()
    server.answers.push(() => json({ code: 'RATE_LIMITED', title: 'x', retryable: true }, 429, { 'retry-after': '11' }))
    await assert.rejects(locks.acquire('deploy'), (e: unknown) => e instanceof ApiError && e.code === 'RATE_LIMITED') // no time passes
    await clock.pass(20_000)
    assert.deepEqual(server.did, ['acquire'])
  })

  test('a lease counts from before its request, but for what the server waited, and for no more than it took', async () => {
    for (const [said, counted] of [[undefined, 5000], [2000, 3000], [3_600_000, 0]] as const) {
      const { clock, server, locks } = world()
      server.answers.push(
        () => problem('LOCK_HELD', 409, { owner_id: 'bob' }),
        (r) => {
          clock.skip(5000)
          return server.answer(r), json(server.lease({ waited_ms: said }))
        },
      )
      const lock = await clock.until(locks.acquire('deploy'))
      assert.equal(server.sent[1]?.body['wait_seconds'], 20)
      assert.equal(lock.remaining, 30_000 - 1 - 3000 - counted, `waited_ms ${said}`)
      await lock.release()
    }
  })

  test('follow no redirect', async () => {
    const redirects: unknown[] = []
    const { server, locks } = world({ fetch: (input, init) => (redirects.push(init?.redirect), server.fetch(input, init)) })
    await locks.request('deploy', () => 1)
    assert.deepEqual(redirects, ['manual', 'manual'])
  })

  test('a try that hangs is given up', async () => {
    const { clock, server, locks } = world({ retryFor: 20_000 })
    server.answers.push(never)
    const lock = await clock.until(locks.acquire('deploy'))
    assert.equal(server.sent.length, 2)
    assert.ok((server.sent[1]?.at ?? 0) >= 3000 && (server.sent[1]?.at ?? 0) <= 3300) // the clock begins at 1000
    await lock.release()
  })

  test('a renewal whose answer was lost is asked for with the time that the server knows', async () => {
    const { clock, server, locks, types } = world()
    const lock = await locks.acquire('deploy')
    server.answers.push((r) => (server.answer(r), lostAnswer()))
    await clock.pass(12_000)
    assert.equal(lock.owned, true)
    assert.deepEqual(types(), ['acquired', 'renewal-failed', 'renewed'])
    assert.deepEqual(server.did, ['acquire', 'renew', 'renew'])
    assert.equal(server.sent[1]?.body['request_id'], server.sent[2]?.body['request_id'])
    server.answers.push(() => {
      if (server.holder) server.holder.until += 1 // it is carried out, and the server does not know it any more
      return lostAnswer()
    })
    await clock.pass(10_000)
    assert.equal(lock.owned, true)
    assert.deepEqual(types(), ['acquired', 'renewal-failed', 'renewed', 'renewal-failed', 'renewed'])
    assert.deepEqual(server.did.slice(3), ['renew', 'renew', 'renew'])
    await lock.release()
  })

  test('a renewal without an answer is settled by the next one that succeeds', async () => {
    const { clock, server, locks } = world()
    const lock = await locks.acquire('deploy')
    server.answers.push(lostAnswer)
    await clock.pass(12_000)
    assert.equal(lock.owned, true)
    if (server.holder) server.holder.until += 1
    await clock.pass(12_000)
    assert.equal((lock.signal.reason as LockLostError).code, 'LEASE_CHANGED')
  })

  // A process that was restored from a snapshot renews the lease of the one that the snapshot is of.
  for (const [name, before] of Object.entries({
    'the first one': [], 'after one that was refused for now': [() => problem('RATE_LIMITED', 429, { retryable: true })],
    'after one that was carried out late, and one that was not': [lostAnswer, () => problem('LEASE_CHANGED', 409, { expires_at: '2026-01-01T00:00:31.000Z' })],
  })) {
    test(`a lease that another process has renewed is lost: ${name}`, async () => {
      const { clock, server, locks, types } = world()
      const lock = await locks.acquire('deploy')
      if (server.holder) server.holder.until += 1
      server.answers.push(...before)
      await clock.pass(14_000)
      assert.equal(lock.owned, false)
      assert.equal((lock.signal.reason as LockLostError).code, 'LEASE_CHANGED')
      assert.equal(types().at(-1), 'lost')
      const { length } = server.sent
      assert.equal(length, 2 + before.length)
      await assert.rejects(lock.release(), LockLostError)
      await clock.pass(60_000)
      assert.equal(server.sent.length, length, 'the lease of the other one is released')
    })
  }
})

describe('ends', () => {
  const ends = (server: FakeServer, clock: FakeClock) =>
    server.sent.map((s) => s.body['not_after'] && Math.ceil(Date.parse(String(s.body['not_after'])) - (clock.time - clock.mono) - s.at))

  test('an acquire ends when no answer is waited for any more, and two seconds for the way', async () => {
    const { clock, server, locks } = world()
    server.holder = { owner: 'bob', request: 'x', token: 7, until: clock.time + 19_000, ttl: 30_000 }
    server.answers.push(() => undefined, never)
    await clock.until(locks.acquire('deploy')) // the second is asked to wait for 20 s, and hangs
    assert.deepEqual(ends(server, clock), [4000, 24_000, 6000])
    await (await locks.acquire('deploy', { ttl: 5000, ifAvailable: true }))?.release()
    assert.equal(ends(server, clock)[3], 4000)
  })

  test('without time for more, and without a wait, it has one try', async () => {
    const { clock, server, locks } = world({ retryFor: 0 })
    server.holder = { owner: 'bob', request: 'x', token: 7, until: clock.time + 90_000, ttl: 30_000 }
    await assert.rejects(clock.until(locks.acquire('deploy', { wait: 0 })), LockHeldError)
    assert.equal(await clock.until(locks.acquire('deploy', { ifAvailable: true })), null)
  })

  test('it ends two seconds after its caller does at the latest', async () => {
    const { clock, server, locks } = world()
    server.holder = { owner: 'bob', request: 'x', token: 7, until: clock.time + 90_000, ttl: 30_000 }
    server.answers.push(() => undefined, never)
    await assert.rejects(clock.until(locks.acquire('deploy', { wait: 4000 })), LockHeldError)
    assert.deepEqual(ends(server, clock).slice(0, 2), [4000, 6000])
  })

  test('what grants has one: an acquire, a set, a grant of a rate; what ends or extends has none', async () => {
    const { clock, server, locks } = world()
    const lock = await locks.acquire('deploy')
    await clock.pass(10_000)
    await lock.release()
    server.answers.push(() => json({ tenant_id: 'acme', owner_id: 'ann', state: 'ACTIVE', expires_at: 'x', remaining_ms: 30_000, leases: [{ lock_key: 'a', fencing_token: 1 }] }))
    await acquireAll(locks, ['a'])
    server.answers.push(() => json({ ...server.lease(), lock_key: 'mail', mode: 'rate' }))
    server.holder = { owner: 'ann', request: 'x', token: 7, until: clock.time + 9000, ttl: 30_000 }
    await locks.take('mail', { limit: 1, window: 1000 })
    assert.deepEqual(ends(server, clock), [4000, undefined, undefined, 4000, 4000])
  })

  test('a clock that is wrong costs one request: the end is in the time of the store from then on', async () => {
    for (const ahead of [90_000, -7_200_000]) {
      const { clock, server, locks, types } = world()
      server.ahead = ahead
      if (ahead < 0) server.answers.push(() => late(clock.time + ahead, 'INVALID_ARGUMENT'))
      await (await locks.acquire('deploy')).release()
      await (await locks.acquire('deploy')).release()
      assert.deepEqual(server.did, ['acquire', 'acquire', 'release', 'acquire', 'release'])
      assert.equal(server.sent[0]?.body['request_id'], server.sent[1]?.body['request_id'])
      assert.deepEqual(ends(server, clock), [4000, 4000 + ahead, undefined, 4000 + ahead, undefined])
      assert.deepEqual(types(), ['acquired', 'released', 'acquired', 'released'])
    }
  })

  test('a second time is an error, and leaves nothing to give up', async () => {
    const { clock, server, locks } = world()
    server.answers.push(() => late(clock.time + 90_000), () => late(clock.time + 180_000))
    await assert.rejects(locks.acquire('deploy'), (e: unknown) => e instanceof ApiError && e.code === 'TOO_LATE' && e.field === 'not_after')
    await clock.pass(60_000)
    assert.deepEqual(server.did, ['acquire', 'acquire'])
    await (await locks.acquire('deploy')).release()
    assert.equal(ends(server, clock)[2], 4000 + 180_000)
  })

  test('a rejection for another reason is not answered with another end', async () => {
    const { server, locks } = world()
    server.answers.push(() => problem('INVALID_ARGUMENT', 400, { field: 'ttl_seconds' }))
    await assert.rejects(locks.acquire('deploy'), InvalidArgumentError)
    assert.equal(server.sent.length, 1)
  })

  test('the date of the server counts if it is more than two seconds away, unless the store has said its time', async () => {
    const { clock, server, locks } = world()
    const said = async (ahead: number, more: Record<string, string> = {}) => {
      const date = new Date(clock.time + ahead).toUTCString()
      server.answers.push(() => json({ code: 'LOCK_HELD', title: 'held', retryable: true, ...more }, 409, { date }))
      await assert.rejects(locks.acquire('deploy', { wait: 0 }), LockHeldError)
      return ends(server, clock).at(-1)
    }
    assert.equal(await said(2000), 4000)
    assert.equal(await said(-2000), 4000)
    assert.equal(await said(60_000), 4000)
    assert.equal(await said(61_000), 64_000)
    assert.equal(await said(-3000), 64_000)
    assert.equal(await said(0), 1000)
    assert.equal(await said(0), 4000)
    server.answers.push(() => late(clock.time + 90_000))
    assert.equal(await said(5000), 4000 + 90_000)
    assert.equal(await said(5000), 4000 + 90_000)
    // The page of a proxy has a date of its own.
    const other = world()
    other.server.answers.push(() => new Response('<p>', { status: 503, headers: { date: new Date(clock.time + 60_000).toUTCString() } }))
    await other.clock.until(other.locks.acquire('deploy'))
    assert.deepEqual(ends(other.server, other.clock), [4000, 6000])
  })
})

describe('responses that are not the lease', () => {
  for (const [name, spoil] of Object.entries<Record<string, unknown>>({
    'another tenant': { tenant_id: 'other' }, 'another key': { lock_key: 'other' }, 'another owner': { owner_id: 'bob' }, 'no token': { fencing_token: 0 },
    'an owner that ends alike': { owner_id: 'joann' }, 'an owner that ends alike after a subject': { owner_id: 'svc#joann' }, 'an owner that begins alike': { owner_id: 'ann#svc' },
    'a token with a fraction': { fencing_token: 1.5 }, 'a token as text': { fencing_token: '5' }, 'no end': { expires_at: '' }, 'nothing remains': { remaining_ms: 0 },
    'another mode': { mode: 'shared' }, 'a permit': { permit: 1 }, 'released': { state: 'RELEASED' }, 'no lease ID': { lease_id: '' },
  })) {
    test(name, async () => {
      const { clock, server, locks } = world({ retryFor: 0 })
      server.answers.push((r) => (server.answer(r), json(server.lease(spoil))))
      await assert.rejects(clock.until(locks.acquire('deploy')), InvalidResponseError)
      await clock.pass(60_000)
      assert.equal(server.holder, undefined) // what was obtained is released
    })
  }

  for (const [name, answer] of Object.entries<() => Response>({
    'not JSON': () => new Response('{', { headers: { 'content-type': 'application/json' } }),
    'a list': () => json([]),
    'HTML': () => new Response('<html>', { headers: { 'content-type': 'text/html' } }),
    'HTML of a proxy': () => new Response('<html>', { status: 502, headers: { 'content-type': 'text/html' } }),
    'a redirect': () => new Response('', { status: 307, headers: { location: 'https://elsewhere.test/' } }),
    'a problem without a code': () => json({ status: 409 }, 409),
    'a number that would be rounded': () => new Response('{"fencing_token": 9007199254740993}', { headers: { 'content-type': 'application/json' } }),
  })) {
    test(name, async () => {
      const { clock, server, locks } = world({ retryFor: 0 })
      server.answers.push(answer)
      await assert.rejects(clock.until(locks.acquire('deploy')), InvalidResponseError)
    })
  }

  test('a lease whose token would be rounded', async () => {
    const { clock, server, locks } = world({ retryFor: 0 })
    server.answers.push((r) => {
      server.answer(r)
      const text = JSON.stringify(server.lease()).replace('"fencing_token":101', '"fencing_token":9007199254740993')
      return new Response(text, { headers: { 'content-type': 'application/json' } })
    })
    await assert.rejects(clock.until(locks.acquire('deploy')), InvalidResponseError)
    for (const [text, ok] of [['9007199254740992', true], ['9007199254740993', false], ['1e300', true], ['"9007199254740993"', true]] as const) {
      if (ok) assert.doesNotThrow(() => parseJSON(`{"a":[${text}]}`), text)
      else assert.throws(() => parseJSON(`{"a":[${text}]}`), text)
    }
  })

  for (const [name, spoil] of Object.entries<Record<string, unknown>>({
    'another token': { fencing_token: 99 }, 'another key': { lock_key: 'other' }, 'another owner': { owner_id: 'bob' }, 'released': { state: 'RELEASED' }, 'a permit': { permit: 1 },
  })) {
    test(`a renewal: ${name}`, async () => {
      const { clock, server, locks } = world()
      const lock = await locks.acquire('deploy')
      for (let i = 0; i < 100; i++) server.answers.push(() => json(server.lease(spoil)))
      await clock.pass(26_900)
      assert.equal(lock.owned, true)
      await clock.pass(200)
      assert.equal(lock.owned, false)
      assert.ok((lock.signal.reason as Error).cause instanceof InvalidResponseError)
    })
  }

  test('a token of 2^53 keeps its digits', async () => {
    const { server, locks } = world()
    server.token = 2 ** 53 - 1
    const lock = await locks.acquire('deploy')
    assert.equal(lock.token, 9007199254740992)
    await lock.release()
    assert.equal(server.sent[1]?.body['fencing_token'], 9007199254740992)
  })

  test('an owner after the subject of the token is the one that was asked for', async () => {
    const { server, locks } = world()
    server.answers.push((r) => (server.answer(r), json(server.lease({ owner_id: 'svc#ann' }))))
    const lock = await locks.acquire('deploy')
    assert.equal(lock.token, 101)
  })
})

describe('the token', () => {
  test('of a function is asked for before each request', async () => {
    let n = 0
    const sent: unknown[] = []
    const { locks, server } = world({ token: () => `t${++n}`, fetch: (input, init) => (sent.push(new Headers(init?.headers).get('authorization')), server.fetch(input, init)) })
    await locks.request('deploy', () => 1)
    assert.deepEqual(sent, ['Bearer t1', 'Bearer t2'])
  })

  test('that cannot be one is an error without it, at once', async () => {
    for (const token of ['SECRET\nx', '', undefined, 5]) {
      const { locks, server } = world({ token: (() => token) as never })
      await assert.rejects(locks.acquire('deploy'), (e: unknown) => e instanceof InvalidSettingError && e.field === 'token' && !e.message.includes('SECRET'))
      assert.equal(server.sent.length, 0)
    }
  })

  test('that cannot be had is a NoResponseError, and is tried again', async () => {
    let n = 0
    const { clock, locks } = world({ token: () => (n++ === 0 ? Promise.reject(new RangeError('offline')) : 'x') })
    await (await clock.until(locks.acquire('deploy'))).release()
    const failing = world({ retryFor: 0, token: () => { throw new RangeError('offline') } })
    await assert.rejects(failing.locks.acquire('deploy'), (e: unknown) => e instanceof NoResponseError && e.cause instanceof RangeError && e.message.includes('offline'))
  })

  test('that comes when the request was given up is not sent', async () => {
    let give: (token: string) => void = () => undefined
    const { locks, server } = world({ token: () => new Promise((resolve) => (give = resolve)) })
    const query = assert.rejects(locks.get('deploy'), ClosedError)
    await settle()
    await locks.close()
    await query
    give('x')
    await settle()
    await assert.rejects(locks.get('deploy'), ClosedError)
    assert.equal(server.sent.length, 0)
  })
})

test('a password in the URL is refused, and no error has it', () => {
  for (const url of ['https://ann:hunter2@locks.test', 'https://hunter2@locks.test', 'https://ann:hunter2@locks.test:99999', 'ftp://ann:hunter2@locks.test', 'https://locks.test/?key=hunter2']) {
    assert.throws(() => new Locks({ url, tenant: 'acme' }), (e: unknown) => e instanceof InvalidSettingError && e.field === 'url' && !e.message.includes('hunter2'))
  }
})

test('a time that is longer than a timer of the runtime can be is waited for all the same', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const ended: string[] = []
  systemClock.after(2 ** 32, () => ended.push('long'))
  systemClock.after(Infinity, () => ended.push('endless'))
  const cancel = systemClock.after(2 ** 32, () => ended.push('cancelled'))
  const most = 2 ** 31 - 1
  t.mock.timers.tick(most)
  t.mock.timers.tick(most)
  cancel()
  assert.deepEqual(ended, [])
  t.mock.timers.tick(2)
  assert.deepEqual(ended, ['long'])
})

describe('waiting', () => {
  test('asks the server to wait, and has the lock when it is free', async () => {
    const { clock, server, locks } = world()
    server.holder = { owner: 'bob', request: 'x', token: 7, until: clock.time + 9000, ttl: 30_000 }
    const lock = await clock.until(locks.acquire('deploy', { fair: true, maxWaiting: 3 }))
    assert.equal(server.sent[0]?.body['wait_seconds'], undefined)
    assert.equal(server.sent[1]?.body['wait_seconds'], 20)
    assert.equal(server.sent[1]?.body['fair'], true)
    assert.equal(server.sent[1]?.body['max_waiting'], 3)
    assert.equal(new Set(server.sent.map((s) => s.body['request_id'])).size, 1)
    await lock.release()
  })

  test('ends with LockHeldError after the time that was given', async () => {
    const { clock, server, locks } = world()
    server.holder = { owner: 'bob', request: 'x', token: 7, until: clock.time + 90_000, ttl: 30_000 }
    await assert.rejects(clock.until(locks.acquire('deploy', { wait: 4000 })), (e: unknown) => e instanceof LockHeldError && e.owner === 'bob' && e.retryAfter > 0)
    assert.ok(clock.mono - 1000 < 4500)
  })

  test('ends at once when its signal is aborted, with its reason', async () => {
    const { clock, server, locks } = world()
    server.holder = { owner: 'bob', request: 'x', token: 7, until: clock.time + 90_000, ttl: 30_000 }
    const stop = new AbortController()
    const waiting = locks.acquire('deploy', { signal: stop.signal })
    await clock.pass(3000)
    stop.abort(new RangeError('enough'))
    await assert.rejects(waiting, RangeError)
  })

  test('that is aborted at any moment of a grant leaves nothing held', async () => {
    let granted = 0
    const steps = 80
    for (let step = 0; step < steps; step++) { // so many microtasks after the server has granted it
      const { clock, server, locks } = world()
      const stop = new AbortController()
      server.answers.push((r) => {
        const answer = server.answer(r)
        const after = (n: number): void => (n === 0 ? stop.abort(new RangeError('enough')) : queueMicrotask(() => after(n - 1)))
        after(step)
        return answer
      })
      const lock = await locks.acquire('deploy', { signal: stop.signal }).catch((e: unknown) => assert.ok(e instanceof RangeError))
      granted += lock ? 1 : 0
      await settle()
      await lock?.release() // its signal is aborted: the work stops
      await settle()
      assert.equal(server.holder, undefined, `it is held after an abort ${step} steps later`)
      assert.equal(clock.timers, 0)
    }
    assert.ok(granted > 0 && granted < steps, `${granted} were granted`)
  })

  test('gives its place in line up when it ends', async () => {
    const { clock, server, locks } = world()
    server.holder = { owner: 'bob', request: 'x', token: 7, until: clock.time + 90_000, ttl: 30_000 }
    const stop = new AbortController()
    const waiting = locks.acquire('deploy', { signal: stop.signal, fair: true })
    server.answers.push(() => undefined, never)
    await clock.pass(100)
    stop.abort(new RangeError('enough'))
    await assert.rejects(waiting, RangeError)
    await clock.pass(100)
    assert.deepEqual(server.sent.map((s) => s.body['wait_seconds']), [undefined, 20, undefined])
  })

  test('another mode is an error', async () => {
    const { server, locks } = world()
    server.answers.push(() => problem('LOCK_MODE_DIFFERS', 409))
    await assert.rejects(locks.acquire('deploy', { permits: 3 }), LockModeDiffersError)
    assert.equal(server.sent[0]?.body['mode'], 'permits')
    assert.equal(server.sent[0]?.body['limit'], 3)
  })
})

describe('release', () => {
  test('returns at once after the signal was aborted, and goes on in the background', async () => {
    const { clock, server, locks } = world()
    const stop = new AbortController()
    const lock = await locks.acquire('deploy', { signal: stop.signal })
    stop.abort()
    assert.equal(lock.owned, false)
    server.answers.push(never, () => lostAnswer())
    await lock.release() // no time passes
    await clock.pass(60_000)
    assert.deepEqual(server.did, ['acquire', 'release', 'release', 'release'])
    assert.equal(server.holder, undefined)
    assert.equal(clock.timers, 0)
  })

  test('ends with the lease, whatever the fractions of its times come to', async () => {
    for (let i = 0; i < 300; i++) {
      const { clock, server, locks } = world()
      clock.skip(i * 0.1237)
      const lock = await locks.acquire('deploy')
      await clock.pass(i * 0.0719)
      let releases = 0
      const answer = server.answer.bind(server)
      server.answer = (sent) => (sent.path.endsWith('/release') && ++releases < 500 ? problem('UNAVAILABLE', 503) : answer(sent))
      await assert.rejects(clock.until(lock.release()), NotReleasedError)
      await clock.pass(31_000)
      assert.ok(releases > 5 && releases < 100, `${i}: ${releases}`)
    }
  })

  test('that gets no answer is tried until the lease ends, and the error says that others wait', async () => {
    const { clock, server, locks } = world()
    const lock = await locks.acquire('deploy')
    for (let i = 0; i < 200; i++) server.answers.push(() => lostAnswer())
    await assert.rejects(clock.until(lock.release()), NotReleasedError)
    assert.equal(clock.mono - 1000, 5000)
    const released = () => server.did.filter((d) => d === 'release').length
    const before = released()
    await clock.pass(26_000)
    assert.ok(released() > before, 'it goes on in the background')
    await clock.pass(60_000)
    assert.equal(clock.timers, 0)
  })

  test('is sent again with the same request_id, and is done once', async () => {
    const { clock, server, locks } = world()
    const lock = await locks.acquire('deploy')
    server.answers.push(() => lostAnswer())
    await clock.until(lock.release())
    await lock.release()
    assert.deepEqual(server.did, ['acquire', 'release', 'release'])
    assert.equal(server.sent[1]?.body['request_id'], server.sent[2]?.body['request_id'])
  })

  test('works by asyncDispose', async () => {
    const { server, locks } = world()
    const lock = await locks.acquire('deploy')
    await lock[Symbol.asyncDispose]()
    assert.equal(server.holder, undefined)
  })

  test('does not fail the work that is done', async () => {
    const { clock, server, locks, types } = world()
    server.answers.push(() => undefined)
    for (let i = 0; i < 100; i++) server.answers.push(() => lostAnswer())
    assert.equal(await clock.until(locks.request('deploy', () => 5)), 5)
    assert.ok(clock.mono - 1000 <= 5200)
    await clock.pass(40_000)
    assert.equal(types().at(-1), 'release-failed')
  })

  test('close ends what is held', async () => {
    const { clock, server, locks } = world()
    const lock = await locks.acquire('deploy')
    const closed = locks.close()
    assert.ok(lock.signal.reason instanceof ClosedError)
    await clock.until(closed)
    assert.equal(server.holder, undefined)
    await assert.rejects(locks.acquire('deploy'), ClosedError)
    assert.equal(clock.timers, 0)
  })
})

describe('several locks and rates', () => {
  test('several locks are one', async () => {
    const { clock, server, locks } = world()
    const set = (more: Record<string, unknown> = {}) => json({
      tenant_id: 'acme', owner_id: 'ann', state: 'ACTIVE', leases: [{ lock_key: 'a', fencing_token: 5 }, { lock_key: 'b', fencing_token: 9 }],
      expires_at: new Date(clock.time + 30_000).toISOString(), remaining_ms: 30_000, ttl_seconds: 30, replayed: false, ...more,
    })
    server.answers.push(() => set(), () => set(), () => set({ state: 'RELEASED' }))
    await requestAll(locks, ['b', 'a'], async (lock) => {
      assert.deepEqual([...lock.tokens], [['a', 5], ['b', 9]])
      await clock.pass(11_000)
    })
    assert.deepEqual(server.sent.map((s) => s.path.split('/').slice(-2).join('/')), ['lock-sets/acquire', 'lock-sets/renew', 'lock-sets/release'])
    assert.deepEqual(server.sent[0]?.body['lock_keys'], ['a', 'b'])
  })

  test('of which one is lost, the others are released', async () => {
    const { clock, server, locks } = world()
    const set = () => json({
      tenant_id: 'acme', owner_id: 'ann', state: 'ACTIVE', leases: [{ lock_key: 'a', fencing_token: 5 }, { lock_key: 'b', fencing_token: 9 }],
      expires_at: new Date(clock.time + 30_000).toISOString(), remaining_ms: 30_000, ttl_seconds: 30, replayed: false,
    })
    server.answers.push(set, () => problem('LEASE_LOST', 409, { lock_key: 'a' }), () => problem('LEASE_LOST', 409, { lock_key: 'a' }))
    const work = requestAll(locks, ['a', 'b'], () => clock.pass(11_000))
    await assert.rejects(work, LockLostError)
    await settle()
    assert.deepEqual(server.did, ['acquire', 'renew', 'release'])
  })

  test('a grant of a rate', async () => {
    const { server, locks } = world()
    server.answers.push((r) => (server.answer({ ...r, body: { ...r.body, ttl_seconds: 60 } }), json(server.lease({ mode: 'rate' }))))
    assert.equal(await locks.take('deploy', { limit: 10, window: 60_000 }), 101)
    const { ttl_seconds, mode, limit, window_seconds } = server.sent[0]?.body ?? {}
    assert.deepEqual({ ttl_seconds, mode, limit, window_seconds }, { ttl_seconds: undefined, mode: 'rate', limit: 10, window_seconds: 60 })
    server.answers.push(() => problem('LOCK_HELD', 409, { retry_after_ms: 5000 }))
    assert.equal(await locks.take('deploy', { limit: 10, window: 60_000 }, { ifAvailable: true }), null)
  })
})

test('arguments that cannot work are errors that name the field, before anything is sent', async () => {
  const { server, locks } = world()
  const refused = (field: string, work: () => unknown) =>
    assert.rejects(async () => work(), (e: unknown) => e instanceof InvalidSettingError && e.field === field)
  const base = { url: 'https://locks.test', tenant: 'acme' }
  await refused('url', () => new Locks({ ...base, url: 'locks.test' }))
  await refused('url', () => new Locks({ ...base, url: 'ftp://locks.test' }))
  await refused('tenant', () => new Locks({ ...base, tenant: '..' }))
  await refused('owner', () => new Locks({ ...base, owner: '' }))
  await refused('ttl', () => new Locks({ ...base, ttl: 1500 }))
  await refused('key', () => locks.acquire(''))
  await refused('key', () => locks.acquire('x'.repeat(257)))
  await refused('key', () => locks.acquire('a\u0000'))
  await refused('key', () => locks.acquire('\ud800'))
  await refused('key', () => locks.acquire('..'))
  await refused('ttl', () => locks.acquire('a', { ttl: 0 }))
  await refused('ttl', () => locks.acquire('a', { ttl: NaN }))
  await refused('margin', () => locks.acquire('a', { margin: 15_000 }))
  await refused('permits', () => locks.acquire('a', { permits: 0 }))
  await refused('permits', () => locks.acquire('a', { permits: 2, mode: 'shared' }))
  await refused('replace', () => locks.acquire('a', { replace: true, mode: 'shared' }))
  await refused('mode', () => locks.acquire('a', { mode: 'other' as never }))
  await refused('wait', () => locks.acquire('a', { wait: -1 }))
  await refused('poll', () => locks.acquire('a', { poll: 1 }))
  await refused('lockDelay', () => locks.acquire('a', { lockDelay: 500 }))
  await refused('metadata.build', () => locks.acquire('a', { metadata: { build: 'x'.repeat(513) } }))
  await refused('signal', () => locks.acquire('a', { signal: {} as never }))
  await refused('signal', () => locks.acquire('a', { signal: 'stop' as never }))
  await refused('key', () => locks.acquire(7 as never))
  await refused('tenant', () => new Locks({ url: base.url } as never))
  await refused('url', () => new Locks({ tenant: 'acme' } as never))
  await refused('work', () => locks.request('a', undefined as never))
  await refused('keys', () => acquireAll(locks, []))
  await refused('keys', () => acquireAll(locks, ['a', 'a']))
  await refused('fair', () => acquireAll(locks, ['a'], { fair: true } as never))
  await refused('limit', () => locks.take('a', { limit: 0, window: 1000 }))
  await refused('window', () => locks.take('a', { limit: 1, window: 1 }))
  await refused('limit', () => locks.take('a', undefined as never))
  await refused('limit', () => locks.take('a', { limit: 1.5, window: 1000 }))
  await refused('key', () => locks.acquire('/'))
  await refused('keys', () => acquireAll(locks, 'abc' as never)) // a text is no list of its letters
  await refused('keys', () => acquireAll(locks, undefined as never))
  for (const o of [null, 7]) {
    await refused('options', () => locks.acquire('a', o as never))
    await refused('options', () => acquireAll(locks, ['a'], o as never))
    await refused('options', () => new Locks(o as never))
  }
  await refused('fetch', () => new Locks({ ...base, fetch: 5 as never }))
  await refused('observe', () => new Locks({ ...base, observe: 5 as never }))
  for (const token of ['', 'a b', 'a\nb', '\u00e9', 5, null]) await refused('token', () => new Locks({ ...base, token: token as never }))
  for (const host of ['locks.test', '127.0.0.1.test', '10.0.0.1']) await refused('url', () => new Locks({ ...base, url: `http://${host}`, token: 'x' }))
  for (const host of ['localhost', '127.0.0.1:8080', '[::1]']) new Locks({ ...base, url: `http://${host}`, token: 'x' })
  new Locks({ ...base, url: 'http://locks.test' })
  assert.equal(server.sent.length, 0)
})

describe('what is read', () => {
  const record = (lock_key: string, state = 'ACTIVE') => ({ tenant_id: 'acme', lock_key, lease_id: 'L1', owner_id: 'bob', state, ttl_seconds: 30, metadata: {} })

  test('whether a lock is held by anyone, with one request', async () => {
    for (const [answer, locked] of [
      [() => json(record('deploy')), true], [() => json(record('deploy', 'RELEASED')), false], [() => json(record('deploy', 'EXPIRED')), false], [() => problem('NOT_FOUND', 404), false],
    ] as const) {
      const { server, locks } = world()
      server.answers.push(answer)
      assert.equal(await locks.locked('deploy'), locked)
      assert.deepEqual(server.sent.map((s) => [s.method, s.path]), [['GET', '/v1/tenants/acme/locks/deploy']])
    }
    const { server, locks } = world()
    server.answers.push(() => problem('PERMISSION_DENIED', 403))
    await assert.rejects(locks.locked('deploy'), PermissionDeniedError)
  })

  test('whether the lock is still its holder’s, without a request', async () => {
    const { clock, server, locks } = world()
    const lock = await locks.acquire('deploy')
    const sent = server.sent.length
    assert.equal(lock.owned, true)
    clock.skip(60_000)
    assert.equal(lock.owned, false)
    assert.equal(server.sent.length, sent)
  })

  test('the locks of a tenant, page by page as the loop goes on', async () => {
    const urls: string[] = []
    const pages = [json({ locks: [record('a/1'), record('a/2')], next_page_token: 'p 2' }), json({ locks: [], next_page_token: 'p3' }), json({ locks: [record('a/3')] })]
    const { locks } = world({ fetch: (async (url: string, init: RequestInit) => {
      assert.equal(new Headers(init.headers).get('leasehold-path'), null) // there is no escape in the path
      urls.push(String(url).slice('https://locks.test/v1/tenants/acme/locks'.length))
      return pages.shift()
    }) as never })
    const keys: string[] = []
    for await (const l of locks.list({ prefix: 'a/' })) {
      if (l.lock_key === 'a/2') assert.equal(urls.length, 1)
      keys.push(l.lock_key)
    }
    assert.deepEqual(keys, ['a/1', 'a/2', 'a/3'])
    assert.deepEqual(urls, ['?prefix=a%2F', '?prefix=a%2F&page_token=p+2', '?prefix=a%2F&page_token=p3'])
  })

  test('a page that is none, and a caller that gives up', async () => {
    for (const page of [{}, { locks: 'x' }, { locks: [{}] }, { locks: [null] }]) {
      const { server, locks } = world()
      server.answers.push(() => json(page))
      await assert.rejects(locks.list().next(), InvalidResponseError, JSON.stringify(page))
    }
    const { server, locks } = world()
    server.answers.push(() => new Promise(() => undefined))
    await assert.rejects(locks.list({ signal: AbortSignal.abort(new RangeError('enough')) }).next(), RangeError)
  })
})
