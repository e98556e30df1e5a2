// The project lock with a clock that the tests move, Web Locks and a private file system in this process.
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { describe, test } from 'node:test'
import { queryObjects } from 'node:v8'
import {
  LockError, createProjectLock, type AcquireLockOptions, type LockAcquiredEvent, type LockBackend, type LockErrorCode, type LockErrorEvent, type LockEventListener,
  type LockReleasedEvent, type LockRenewedEvent, type LockRetryScheduledEvent, type LockWarningEvent, type ProjectLock, type ProjectLockEvent, type ProjectLockLease,
  type RetryPolicyConfig,
} from '../src/projectlock.js'
import * as module from '../src/projectlock.js'
import { InvalidSettingError, type LeaseholdError } from '../src/index.js'
import { Term } from '../src/term.js'
import { FakeClock, FakeServer, json, problem, settle } from './world.js'

// The requirement's types, word for word: each must be the same as the package's, or at least as wide.
interface RequiredOptions { readonly scope?: 'autosave' | 'history'; readonly signal?: AbortSignal; readonly retry?: Partial<RequiredRetry> }
interface RequiredRetry { readonly initialDelayMs: number; readonly maxDelayMs: number; readonly multiplier: number; readonly maxAttempts: number }
interface RequiredLease {
  readonly id: string; readonly backend: 'web' | 'fallback'; readonly scope: 'autosave' | 'history'; readonly acquiredAt: number; readonly ttlExpiresAt: number
}
interface RequiredError extends Error { readonly code: RequiredCode; readonly retryable: boolean; readonly cause?: unknown }
type RequiredCode = 'web-lock-unsupported' | 'lock-timeout' | 'lock-unavailable' | 'lock-renewal-failed' | 'lock-release-failed'
interface RequiredBase { readonly at: number; readonly leaseId: string; readonly backend: 'web' | 'fallback'; readonly scope: 'autosave' | 'history' }
type RequiredEvent =
  | (RequiredBase & { readonly type: 'lock:acquired'; readonly attempt: number })
  | (RequiredBase & { readonly type: 'lock:renewed'; readonly ttlExpiresAt: number })
  | (RequiredBase & { readonly type: 'lock:released' })
  | (RequiredBase & { readonly type: 'lock:retry'; readonly attempt: number; readonly delayMs: number; readonly reason: 'contended' | 'unavailable' | 'transient-error' })
  | (RequiredBase & { readonly type: 'lock:cleanup-warning'; readonly message: string })
  | (RequiredBase & { readonly type: 'lock:error'; readonly error: RequiredError })
type Fits<A, B extends A> = B
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false
const types: [
  Same<ProjectLockLease, RequiredLease>, Same<LockError, RequiredError & LeaseholdError>, Same<LockErrorEvent['error'], RequiredError & LeaseholdError>,
  Same<AcquireLockOptions, RequiredOptions>, Same<RetryPolicyConfig, RequiredRetry>, Same<LockBackend, 'web' | 'fallback'>, Same<LockErrorCode, RequiredCode>,
  Same<ProjectLockEvent['type'], RequiredEvent['type']>, Same<ProjectLockEvent, LockAcquiredEvent | LockRenewedEvent | LockReleasedEvent | LockRetryScheduledEvent | LockWarningEvent | LockErrorEvent>,
] = [true, true, true, true, true, true, true, true, true]
export type Checked = [Fits<RequiredLease, ProjectLockLease>, Fits<RequiredEvent, ProjectLockEvent>, Fits<RequiredError, LockError>, Fits<(e: never) => void, LockEventListener>]
const functions: {
  acquireProjectLock(options?: RequiredOptions): Promise<RequiredLease>
  renewProjectLock(lease: RequiredLease): Promise<RequiredLease>
  releaseProjectLock(lease: RequiredLease): Promise<void>
  withProjectLock<T>(fn: (lease: RequiredLease) => Promise<T>, options?: RequiredOptions): Promise<T>
  subscribeLockEvents(listener: (event: RequiredEvent) => void): () => void
} = module

/** Web Locks in this process. */
class FakeLocks {
  readonly names: string[] = []
  readonly held = new Map<string, { reject: (e: unknown) => void }>()
  readonly #waiting = new Map<string, (() => void)[]>()
  refuse: string | undefined

  readonly request = ((name: string, options: { signal?: AbortSignal }, work: (lock: { name: string; mode: 'exclusive' }) => unknown): Promise<unknown> => {
    this.names.push(name)
    if (this.refuse) return Promise.reject(new DOMException('not here', this.refuse))
    return new Promise((resolve, reject) => {
      const begin = () => {
        options.signal?.removeEventListener('abort', aborted)
        this.held.set(name, { reject })
        void Promise.resolve(work({ name, mode: 'exclusive' })).then(resolve, reject).finally(() => {
          this.held.delete(name)
          this.#waiting.get(name)?.shift()?.()
        })
      }
      const aborted = () => {
        const all = this.#waiting.get(name) ?? []
        this.#waiting.set(name, all.filter((w) => w !== begin))
        reject(options.signal?.reason)
      }
      if (!this.held.has(name)) return begin()
      options.signal?.addEventListener('abort', aborted)
      this.#waiting.set(name, [...(this.#waiting.get(name) ?? []), begin])
    })
  }) as LockManager['request']
}

/** A folder of the private file system, with writers that are exclusive. */
class FakeDirectory {
  readonly files = new Map<string, { text: string; changed: number }>([['data.json', { text: '{}', changed: 0 }]])
  readonly writers = new Set<string>()
  /** The next operations of a kind fail with errors of these names. */
  readonly faults: { [kind in 'get' | 'read' | 'write' | 'remove']: string[] } = { get: [], read: [], write: [], remove: [] }
  readonly touched = new Set<string>()
  modes = true
  /** Files have a synchronous access handle, as in workers; while it is open they cannot be read otherwise. */
  worker = false

  constructor(readonly clock: FakeClock) {}

  #fail(kind: keyof FakeDirectory['faults']) {
    const name = this.faults[kind].shift()
    if (name) throw new DOMException(`injected ${name}`, name)
  }

  get lock(): { id: string; ttlExpiresAt: number; scope: string; backend: string; acquiredAt: number } | undefined {
    const f = this.files.get('.lock')
    return f?.text ? JSON.parse(f.text) : undefined
  }

  put(text: string) {
    this.files.set('.lock', { text, changed: this.clock.time })
  }

  readonly getFileHandle = (async (name: string, o: { create?: boolean } = {}) => {
    this.touched.add(name)
    this.#fail('get')
    if (!this.files.has(name)) {
      if (!o.create) throw new DOMException('none', 'NotFoundError')
      this.files.set(name, { text: '', changed: this.clock.time })
    }
    const access = async () => {
      this.#fail('write')
      if (this.writers.has(name)) throw new DOMException('another writer', 'NoModificationAllowedError')
      this.writers.add(name)
      let bytes = new TextEncoder().encode(this.files.get(name)?.text)
      return {
        getSize: () => bytes.length,
        read: (to: Uint8Array) => to.set(bytes),
        truncate: () => void (bytes = new Uint8Array()),
        write: (from: Uint8Array) => void (bytes = Uint8Array.from(from)),
        flush: () => this.put(new TextDecoder().decode(bytes)),
        close: () => void this.writers.delete(name),
      }
    }
    return {
      ...(this.worker && { createSyncAccessHandle: access }),
      getFile: async () => {
        this.#fail('read')
        if (this.worker && this.writers.has(name)) throw new DOMException('it is open', 'NotReadableError')
        const f = this.files.get(name)
        if (!f) throw new DOMException('none', 'NotFoundError')
        return { text: async () => f.text, lastModified: f.changed }
      },
      createWritable: async (options: { mode?: string }) => {
        if (this.modes) void options.mode
        this.#fail('write')
        if (this.writers.has(name)) throw new DOMException('another writer', 'NoModificationAllowedError')
        this.writers.add(name)
        let text = ''
        return {
          write: async (more: string) => void (text += more),
          close: async () => {
            this.writers.delete(name)
            this.files.set(name, { text, changed: this.clock.time })
          },
          abort: async () => void this.writers.delete(name),
        }
      },
    }
  }) as unknown as FileSystemDirectoryHandle['getFileHandle']

  readonly removeEntry = async (name: string) => {
    this.touched.add(name)
    this.#fail('remove')
    if (this.writers.has(name)) throw new DOMException('a writer has it', 'NoModificationAllowedError')
    if (!this.files.delete(name)) throw new DOMException('none', 'NotFoundError')
  }
}

function world(o: { locks?: FakeLocks | null; directory?: FakeDirectory; clock?: FakeClock; name?: string } = {}) {
  const clock = o.clock ?? new FakeClock()
  const locks = o.locks === undefined ? new FakeLocks() : o.locks
  const directory = o.directory ?? new FakeDirectory(clock)
  const project = createProjectLock({ clock, locks: locks as never, directory: async () => directory, ...(o.name && { name: o.name }) })
  const events: ProjectLockEvent[] = []
  project.subscribeLockEvents((e) => events.push(e))
  return { clock, locks: locks as FakeLocks, directory, project, events, types: () => events.map((e) => e.type) }
}

const file = () => world({ locks: null })
const retries = (events: readonly ProjectLockEvent[]) => events.flatMap((e) => (e.type === 'lock:retry' ? [[e.attempt, e.delayMs, e.reason]] : []))
const isError = (code: LockErrorCode, retryable: boolean) => (e: unknown) => e instanceof LockError && e.code === code && e.retryable === retryable

// PRJ-API, PRJ-LEASE, PRJ-ERROR
test('the functions and types have the names of the requirement', () => {
  assert.deepEqual(Object.keys(functions).filter((k) => k.includes('ProjectLock') && k !== 'createProjectLock').sort(), ['acquireProjectLock', 'releaseProjectLock', 'renewProjectLock', 'withProjectLock'])
  assert.equal(typeof functions.subscribeLockEvents, 'function')
  assert.ok(types.every(Boolean))
})

describe('Web Locks', () => {
  // PRJ-LEASE, PRJ-REL-1, PRJ-EVENT-1, PRJ-EVENT-6, PRJ-TEST-1
  test('acquire and release: lock:acquired, then lock:released', async () => {
    const { clock, locks, project, events, types } = world()
    const lease = await project.acquireProjectLock()
    assert.deepEqual(locks.names, ['imgponic:project:autosave'])
    assert.match(lease.id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    assert.deepEqual({ ...lease, id: '' }, { id: '', backend: 'web', scope: 'autosave', acquiredAt: clock.time, ttlExpiresAt: Number.POSITIVE_INFINITY, reach: 'browser' })
    await project.releaseProjectLock(lease)
    assert.deepEqual(types(), ['lock:acquired', 'lock:released'])
    assert.deepEqual(events[0], { type: 'lock:acquired', at: clock.time, leaseId: lease.id, backend: 'web', scope: 'autosave', attempt: 1 })
    assert.equal(locks.held.size, 0)
    await project.releaseProjectLock(lease) // again does nothing
    assert.equal(events.length, 2)
    assert.equal(clock.timers, 0)
  })

  // PRJ-NAME
  test('the scopes have names of their own, which can be set', async () => {
    const { locks, project } = world({ name: 'other' })
    await project.acquireProjectLock({ scope: 'history' })
    await project.acquireProjectLock({ scope: 'autosave' })
    assert.deepEqual(locks.names, ['other:history', 'other:autosave'])
  })

  // PRJ-ACQ-1, PRJ-ACQ-2
  test('each try is aborted after 10 s; retries after 500, 1000, 2000 and 4000 ms; then lock-unavailable', async () => {
    const { clock, project, events } = world()
    await project.acquireProjectLock()
    const begin = clock.mono
    await assert.rejects(clock.until(project.acquireProjectLock()), isError('lock-unavailable', false))
    assert.deepEqual(retries(events), [[1, 500, 'contended'], [2, 1000, 'contended'], [3, 2000, 'contended'], [4, 4000, 'contended']])
    const last = events.at(-1)
    assert.ok(last?.type === 'lock:error' && last.error.code === 'lock-unavailable' && !last.error.retryable)
    assert.ok(Math.abs(clock.mono - begin - (5 * 10_000 + 7500)) <= 100)
    const times = events.slice(1).map((e) => e.at - Date.UTC(2026, 0, 1))
    assert.deepEqual(times, [10_000, 20_500, 31_500, 43_500, 57_500])
  })

  // PRJ-API, PRJ-ACQ-1
  test('the retries are those of the options', async () => {
    const { clock, project, events } = world()
    await project.acquireProjectLock()
    await assert.rejects(clock.until(project.acquireProjectLock({ retry: { initialDelayMs: 10, multiplier: 3, maxDelayMs: 50, maxAttempts: 4 } })))
    assert.deepEqual(retries(events).map(([, ms]) => ms), [10, 30, 50])
  })

  test('waits for another tab, and has the lock when that releases it', async () => {
    const { clock, locks, project } = world()
    const other = world({ clock, locks })
    const lease = await project.acquireProjectLock()
    const waiting = other.project.acquireProjectLock()
    await clock.pass(12_000)
    await project.releaseProjectLock(lease)
    assert.equal((await waiting).backend, 'web')
    assert.deepEqual(other.types(), ['lock:retry', 'lock:acquired'])
    const got = other.events[1]
    assert.ok(got?.type === 'lock:acquired' && got.attempt === 2)
  })

  // PRJ-LEASE, PRJ-RNW-1
  test('a renewal does nothing', async () => {
    const { clock, project, types } = world()
    const lease = await project.acquireProjectLock()
    await clock.pass(100_000)
    const again = await project.renewProjectLock(lease)
    assert.deepEqual(again, lease)
    assert.deepEqual(types(), ['lock:acquired'])
  })

  // PRJ-ERROR, PRJ-ACQ-2
  test('a caller that gives up has lock-timeout, and nothing is held', async () => {
    const { clock, locks, project } = world()
    const other = world({ clock, locks })
    const lease = await project.acquireProjectLock()
    const stop = new AbortController()
    const waiting = other.project.acquireProjectLock({ signal: stop.signal })
    await clock.pass(3000)
    stop.abort(new RangeError('enough'))
    await assert.rejects(waiting, (e: unknown) => isError('lock-timeout', true)(e) && (e as LockError).cause instanceof RangeError)
    await project.releaseProjectLock(lease)
    await settle()
    assert.equal(locks.held.size, 0)
    assert.deepEqual(other.types(), [])
  })

  test('a lock that is stolen aborts the signal of the work', async () => {
    const { locks, project, events, types } = world()
    await assert.rejects(
      project.withProjectLock(async (_, signal) => {
        locks.held.get('imgponic:project:autosave')?.reject(new DOMException('stolen', 'AbortError'))
        await settle()
        assert.equal(signal.aborted, true)
      }),
      isError('lock-renewal-failed', true),
    )
    const e = events.at(-1)
    assert.ok(e?.type === 'lock:cleanup-warning' && e.message.includes('stolen'))
    assert.equal(types().includes('lock:released'), false)
  })
})

test('leases that were released leave nothing behind: no object, no listener, no timer', async () => {
  for (const w of [world(), file()]) {
    const { signal } = new AbortController()
    const acquire = async () => {
      const lease = await w.project.acquireProjectLock({ signal })
      await w.project.releaseProjectLock({ ...lease }) // a copy is as good
      await w.project.releaseProjectLock(lease)
    }
    await acquire()
    w.events.length = 0
    const before = Number(queryObjects(Term, { format: 'count' }))
    for (let i = 0; i < 5000; i++) {
      await acquire()
      w.events.length = w.locks ? (w.locks.names.length = 0) : 0
    }
    await settle()
    assert.ok(Number(queryObjects(Term, { format: 'count' })) <= before + 2)
    assert.deepEqual([getEventListeners(signal, 'abort').length, w.clock.timers], [0, 0])
  }
})

describe('the file', () => {
  for (const name of ['SecurityError', 'NotSupportedError']) {
    // PRJ-ACQ-1, PRJ-EVENT-1
    test(`is taken at once where Web Locks are refused: ${name}`, async () => {
      const w = world()
      w.locks.refuse = name
      const lease = await w.project.acquireProjectLock()
      assert.equal(lease.backend, 'fallback')
      assert.equal(lease.reach, 'file')
      assert.equal(lease.ttlExpiresAt - lease.acquiredAt, 30_000)
      assert.deepEqual(w.types(), ['lock:acquired'])
      const { at: _, ...rest } = w.events[0] as LockAcquiredEvent
      assert.deepEqual(rest, { type: 'lock:acquired', leaseId: lease.id, backend: 'fallback', scope: 'autosave', attempt: 1 })
      assert.deepEqual(w.directory.lock, { id: lease.id, backend: 'fallback', scope: 'autosave', acquiredAt: lease.acquiredAt, ttlExpiresAt: lease.ttlExpiresAt })
      await w.project.releaseProjectLock(lease)
      assert.equal(w.directory.files.has('.lock'), false)
      assert.deepEqual([...w.directory.touched], ['.lock'])
    })
  }

  // PRJ-ACQ-1
  test('is not taken because of another error of Web Locks', async () => {
    const w = world()
    w.locks.refuse = 'InvalidStateError'
    await assert.rejects(w.clock.until(w.project.acquireProjectLock()), isError('lock-unavailable', false))
    assert.deepEqual(w.directory.touched.size, 0)
    assert.deepEqual(retries(w.events).map(([, , reason]) => reason), ['transient-error', 'transient-error', 'transient-error', 'transient-error'])
  })

  // PRJ-ERROR, PRJ-ACQ-3, PRJ-EVENT-3, PRJ-EVENT-4, PRJ-TEST-2
  test('within its ttl: backoff events, and the final lock:error with lock-unavailable', async () => {
    const a = file()
    const b = world({ locks: null, clock: a.clock, directory: a.directory })
    const lease = await a.project.acquireProjectLock({ scope: 'history' }) // both scopes share the file
    const begin = a.clock.mono
    await assert.rejects(a.clock.until(b.project.acquireProjectLock()), isError('lock-unavailable', false))
    assert.deepEqual(retries(b.events), [[1, 500, 'contended'], [2, 1000, 'contended'], [3, 2000, 'contended'], [4, 4000, 'contended']])
    assert.ok(Math.abs(a.clock.mono - begin - 7500) <= 100)
    assert.equal(b.types().at(-1), 'lock:error')
    const ids = new Set(b.events.map((e) => e.leaseId))
    assert.equal(ids.size, 1)
    assert.ok(!ids.has(lease.id))
    assert.equal(a.directory.lock?.id, lease.id)
  })

  // PRJ-LEASE, PRJ-RNW-1, PRJ-EVENT-2, PRJ-TEST-3
  test('a renewal after 20 s moves ttlExpiresAt to 30 s from then, with lock:renewed', async () => {
    const w = file()
    const lease = await w.project.acquireProjectLock()
    await w.clock.pass(20_000)
    const again = await w.project.renewProjectLock(lease)
    assert.notEqual(again, lease)
    assert.equal(again.id, lease.id)
    assert.equal(again.ttlExpiresAt, w.clock.time + 30_000)
    assert.equal(lease.ttlExpiresAt, lease.acquiredAt + 30_000) // unchanged
    assert.equal(w.directory.lock?.ttlExpiresAt, again.ttlExpiresAt)
    assert.deepEqual(w.events.at(-1), { type: 'lock:renewed', at: w.clock.time, leaseId: lease.id, backend: 'fallback', scope: 'autosave', ttlExpiresAt: again.ttlExpiresAt })
    await w.project.releaseProjectLock(again)
  })

  // PRJ-ACQ-3
  test('an orphan is taken over when its ttl is over, by one of those who want it', async () => {
    const a = file()
    await a.project.acquireProjectLock()
    await a.clock.pass(29_000)
    const others = [1, 2, 3].map(() => world({ locks: null, clock: a.clock, directory: a.directory }))
    const got = await a.clock.until(Promise.allSettled(others.map((o) => o.project.acquireProjectLock())))
    const won = got.filter((g) => g.status === 'fulfilled')
    assert.equal(won.length, 1)
    assert.equal(a.directory.lock?.id, won[0]?.value.id)
  })

  for (const [name, text] of [['no JSON', '{"id":'], ['another JSON', '[]'], ['no end', '{"id":"x"}']] as const) {
    for (const worker of [false, true]) {
      test(`a damaged file counts from its last change: ${name}${worker ? ', in a worker' : ''}`, async () => {
        const w = file()
        w.directory.worker = worker
        w.directory.put(text)
        await assert.rejects(w.clock.until(w.project.acquireProjectLock()))
        await w.clock.pass(30_000)
        const lease = await w.project.acquireProjectLock()
        assert.equal(w.directory.lock?.id, lease.id)
      })
    }
  }

  // PRJ-RNW-1
  test('a lease that has expired is not renewed, and the next one is left alone', async () => {
    const a = file()
    const b = world({ locks: null, clock: a.clock, directory: a.directory })
    const lease = await a.project.acquireProjectLock()
    a.clock.skip(31_000) // the tab was frozen
    const next = await b.project.acquireProjectLock()
    await assert.rejects(a.project.renewProjectLock(lease), isError('lock-renewal-failed', true))
    await assert.rejects(a.project.releaseProjectLock(lease), isError('lock-release-failed', true))
    assert.equal(a.types().at(-1), 'lock:cleanup-warning')
    assert.equal(a.directory.lock?.id, next.id)
  })

  // PRJ-RNW-2, PRJ-RNW-3, PRJ-EVENT-3
  test('renewals that fail are repeated after 0.5, 1, 2 and 4 s, and are over after five in a row', async () => {
    const w = file()
    const lease = await w.project.acquireProjectLock()
    w.directory.faults.write.push(...Array<string>(5).fill('QuotaExceededError'))
    const begin = w.clock.mono
    await assert.rejects(w.clock.until(w.project.renewProjectLock(lease)), isError('lock-renewal-failed', true))
    assert.deepEqual(retries(w.events), [[1, 500, 'transient-error'], [2, 1000, 'transient-error'], [3, 2000, 'transient-error'], [4, 4000, 'transient-error']])
    assert.ok(Math.abs(w.clock.mono - begin - 7500) <= 100)
    assert.equal(w.types().includes('lock:error'), false) // it may be acquired again
    const again = await w.project.renewProjectLock(lease)
    assert.ok(again.ttlExpiresAt > lease.ttlExpiresAt)
  })

  // PRJ-RNW-3
  test('after five renewals that failed the holder acquires again, and the lease that it had is over', async () => {
    for (const removable of [true, false]) {
      const w = file()
      const lease = await w.project.acquireProjectLock()
      w.directory.faults.write.push(...Array<string>(5).fill('QuotaExceededError'))
      await assert.rejects(w.clock.until(w.project.renewProjectLock(lease)), isError('lock-renewal-failed', true))
      if (!removable) w.directory.faults.remove.push('InvalidStateError')
      const next = await w.project.acquireProjectLock({ retry: { maxAttempts: 1 } })
      assert.equal(w.directory.lock?.id, next.id)
      await assert.rejects(w.project.renewProjectLock(lease), isError('lock-renewal-failed', true))
      assert.equal(w.directory.lock?.id, next.id)
      await w.project.renewProjectLock(next)
    }
  })

  // PRJ-RNW-3
  test('a renewal that succeeds after five that failed keeps the lease: an acquire waits for it', async () => {
    const w = file()
    const lease = await w.project.acquireProjectLock()
    w.directory.faults.write.push(...Array<string>(5).fill('QuotaExceededError'))
    await assert.rejects(w.clock.until(w.project.renewProjectLock(lease)))
    await w.project.renewProjectLock(lease)
    await assert.rejects(w.project.acquireProjectLock({ retry: { maxAttempts: 1 } }), isError('lock-unavailable', false))
    assert.equal(w.directory.lock?.id, lease.id)
  })

  // PRJ-RNW-2, PRJ-EVENT-4
  test('a renewal that is not allowed is not repeated', async () => {
    const w = file()
    const lease = await w.project.acquireProjectLock()
    w.directory.faults.write.push('NotAllowedError')
    await assert.rejects(w.project.renewProjectLock(lease), isError('lock-renewal-failed', false))
    assert.deepEqual(w.types(), ['lock:acquired', 'lock:error'])
  })

  // PRJ-REL-1, PRJ-REL-2, PRJ-FILE, PRJ-EVENT-5, PRJ-TEST-4
  test('a file that cannot be removed: lock:cleanup-warning, again before the next acquire, and after three on with a warning; the rest is untouched', async () => {
    const w = file()
    const before = structuredClone([...w.directory.files])
    const lease = await w.project.acquireProjectLock()
    w.directory.faults.remove.push('InvalidStateError', 'InvalidStateError', 'InvalidStateError', 'InvalidStateError')
    await assert.rejects(w.project.releaseProjectLock(lease), isError('lock-release-failed', true))
    assert.deepEqual(w.types(), ['lock:acquired', 'lock:cleanup-warning'])
    const second = await w.project.acquireProjectLock() // its own leftover does not stop it
    assert.deepEqual(w.types().slice(2), ['lock:cleanup-warning', 'lock:acquired'])
    await assert.rejects(w.project.releaseProjectLock(second))
    assert.deepEqual(w.types().slice(4), ['lock:cleanup-warning'])
    w.directory.faults.remove.length = 0
    const third = await w.project.acquireProjectLock()
    await w.project.releaseProjectLock(third)
    assert.deepEqual([...w.directory.files], before)
    assert.deepEqual([...w.directory.touched], ['.lock'])
  })

  // PRJ-REL-2
  test('after three failures it is left to its expiry', async () => {
    const w = file()
    const lease = await w.project.acquireProjectLock()
    w.directory.faults.remove.push(...Array<string>(3).fill('InvalidStateError'))
    await assert.rejects(w.project.releaseProjectLock(lease))
    for (let i = 0; i < 2; i++) {
      w.directory.faults.write.push('NotAllowedError')
      await assert.rejects(w.project.acquireProjectLock(), isError('lock-unavailable', false))
    }
    const warnings = w.events.flatMap((e) => (e.type === 'lock:cleanup-warning' ? [e.message] : []))
    assert.equal(warnings.length, 3)
    assert.match(warnings[2] ?? '', /3 of 3 times; it is left to its expiry/)
    assert.equal((await w.project.acquireProjectLock()).backend, 'fallback') // and that is no obstacle here
  })

  test('another writer is contention', async () => {
    const w = file()
    w.directory.faults.write.push('NoModificationAllowedError')
    await w.clock.until(w.project.acquireProjectLock())
    assert.deepEqual(retries(w.events), [[1, 500, 'contended']])
  })

  test('without exclusive writers no lease is given', async () => {
    const w = file()
    w.directory.modes = false
    await assert.rejects(w.project.acquireProjectLock(), isError('lock-unavailable', false))
  })

  // PRJ-ERROR
  test('without Web Locks and a private file system the code is web-lock-unsupported', async () => {
    const project = createProjectLock({ locks: null })
    const events: ProjectLockEvent[] = []
    project.subscribeLockEvents((e) => events.push(e))
    await assert.rejects(project.acquireProjectLock(), isError('web-lock-unsupported', false))
    assert.deepEqual(events.map((e) => e.type), ['lock:error'])
  })

  // PRJ-ACQ-2
  test('a try that hangs is given up after 10 s, and leaves nothing behind', async () => {
    const w = file()
    let free: () => void = () => undefined
    const slow = createProjectLock({
      clock: w.clock, locks: null,
      directory: () => new Promise<FakeDirectory>((resolve) => { free = () => resolve(w.directory) }),
    })
    const waiting = slow.acquireProjectLock({ retry: { maxAttempts: 1 } })
    waiting.catch(() => undefined)
    await w.clock.pass(10_000)
    await assert.rejects(waiting, (e: unknown) => isError('lock-unavailable', false)(e) && isError('lock-timeout', true)((e as LockError).cause))
    free()
    await settle()
    await w.clock.pass(10)
    assert.equal(w.directory.lock, undefined)
  })
})

describe('withProjectLock', () => {
  const kinds: [string, () => ReturnType<typeof world>][] = [['Web Locks', world], ['the file', file]]
  for (const [name, make] of kinds) {
    // PRJ-WITH
    test(`acquires, calls, releases: ${name}`, async () => {
      const w = make()
      assert.equal(await w.project.withProjectLock(async (lease) => lease.scope), 'autosave')
      assert.deepEqual(w.types(), ['lock:acquired', 'lock:released'])
      await assert.rejects(w.project.withProjectLock(() => Promise.reject(new RangeError('own'))), RangeError)
      assert.deepEqual(w.types().slice(2), ['lock:acquired', 'lock:released'])
    })
  }

  // PRJ-RNW-1, PRJ-WITH
  test('renews every 20 s, so that a long function keeps its lock', async () => {
    const w = file()
    await w.project.withProjectLock(async (_, signal) => {
      await w.clock.pass(65_000)
      assert.equal(signal.aborted, false)
    })
    assert.deepEqual(w.types(), ['lock:acquired', 'lock:renewed', 'lock:renewed', 'lock:renewed', 'lock:released'])
    assert.deepEqual(w.events.slice(1, 4).map((e) => e.at - Date.UTC(2026, 0, 1)), [20_000, 40_000, 60_000])
    assert.equal(w.clock.timers, 0)
  })

  // PRJ-WITH
  test('ends the work before another tab can have the lock: a tab whose timers were throttled or that was frozen', async () => {
    const w = file()
    const other = world({ locks: null, clock: w.clock, directory: w.directory })
    await assert.rejects(
      w.project.withProjectLock(async (_, signal) => {
        w.clock.skip(31_000) // no timer fires
        assert.equal(signal.aborted, true)
        await other.project.acquireProjectLock()
      }),
      isError('lock-renewal-failed', true),
    )
    assert.deepEqual(w.types(), ['lock:acquired', 'lock:cleanup-warning'])
    assert.deepEqual(other.types(), ['lock:acquired'])
  })

  // PRJ-WITH
  test('a cleanup that fails is no error of the work, and is announced', async () => {
    const w = file()
    w.directory.faults.remove.push('InvalidStateError')
    assert.equal(await w.project.withProjectLock(async () => 5), 5)
    assert.deepEqual(w.types(), ['lock:acquired', 'lock:cleanup-warning'])
  })
})

describe('events', () => {
  // PRJ-SUBSCRIBE
  test('several listeners receive all, in order; unsubscribing twice is once; one that throws disturbs no other', async () => {
    const w = world()
    const heard: string[] = []
    const stop = w.project.subscribeLockEvents((e) => heard.push(e.type))
    w.project.subscribeLockEvents(() => { throw new Error('a listener') })
    const last: string[] = []
    w.project.subscribeLockEvents((e) => last.push(e.type))
    const lease = await w.project.acquireProjectLock()
    stop()
    stop()
    await w.project.releaseProjectLock(lease)
    assert.deepEqual(heard, ['lock:acquired'])
    assert.deepEqual(last, ['lock:acquired', 'lock:released'])
  })

  // PRJ-SUBSCRIBE
  test('are delivered before the function returns, and may call the project', async () => {
    const w = world()
    const seen: number[] = []
    let inner: Promise<ProjectLockLease> | undefined
    w.project.subscribeLockEvents((e) => {
      seen.push(e.at)
      if (e.type === 'lock:acquired' && e.scope === 'autosave') inner = w.project.acquireProjectLock({ scope: 'history' })
    })
    await w.project.acquireProjectLock()
    assert.equal(seen.length, 1)
    await inner
    assert.equal(seen.length, 2)
  })

  // PRJ-SUBSCRIBE
  test('have ascending times, also when the clock is set back', async () => {
    const w = world()
    const lease = await w.project.acquireProjectLock()
    w.clock.time -= 3_600_000
    await w.project.releaseProjectLock(lease)
    assert.equal(w.events[1]?.at, w.events[0]?.at)
  })
})

describe('the service', () => {
  function service() {
    const clock = new FakeClock()
    const server = new FakeServer(clock)
    const project: ProjectLock<'service'> = createProjectLock({ name: 'p', service: { url: 'https://locks.test', tenant: 'acme', owner: 'ann', fetch: server.fetch, clock } })
    const events: ProjectLockEvent<'service'>[] = []
    project.subscribeLockEvents((e) => events.push(e))
    const own = server.lease.bind(server)
    server.lease = (more = {}) => own({ lock_key: 'p:autosave', ...more })
    return { clock, server, project, events, types: () => events.map((e) => e.type) }
  }

  test('has a fencing token, a renewal and a release', async () => {
    const { clock, server, project, types } = service()
    const lease = await project.acquireProjectLock()
    assert.equal(lease.backend, 'service')
    assert.equal(lease.reach, 'service')
    assert.equal(lease.token, 101)
    await clock.pass(20_000)
    const again = await project.renewProjectLock(lease)
    assert.equal(again.ttlExpiresAt, clock.time + 30_000)
    await project.releaseProjectLock(again)
    assert.deepEqual(types(), ['lock:acquired', 'lock:renewed', 'lock:released'])
    assert.deepEqual(server.did, ['acquire', 'renew', 'release'])
    assert.equal(server.sent[0]?.path, '/v1/tenants/acme/locks/p%3Aautosave/acquire')
  })

  test('that cannot be reached gives no lease, and no file', async () => {
    const { clock, server, project, events } = service()
    for (let i = 0; i < 9; i++) server.answers.push(() => new TypeError('fetch failed'))
    await assert.rejects(clock.until(project.acquireProjectLock()), isError('lock-unavailable', false))
    assert.deepEqual(events.flatMap((e) => (e.type === 'lock:retry' ? [e.reason] : [])), Array(4).fill('unavailable'))
    assert.equal(new Set(server.sent.map((s) => s.body['request_id'])).size, 1)
    assert.equal(server.gone.length, 0)
    server.answers.length = 0
    await clock.pass(60_000)
    assert.deepEqual(server.gone, [server.sent[0]?.body['request_id']]) // one of them may have been carried out
  })

  test('learns the time from a try that came too late, and every try has an end', async () => {
    const { clock, server, project, types } = service()
    server.ahead = 90_000
    const lease = await project.acquireProjectLock()
    const ends = server.sent.map((s) => Date.parse(String(s.body['not_after'])) - clock.time)
    assert.deepEqual(ends, [12_000, 102_000])
    assert.deepEqual(types(), ['lock:acquired'])
    await project.releaseProjectLock(lease)
  })

  test('a caller that gives up leaves nothing behind, also if the lock is held meanwhile', async () => {
    for (const before of [[], [() => new TypeError('fetch failed'), () => problem('LOCK_HELD', 409)]]) {
      const { clock, server, project } = service()
      server.answers.push(...before, () => new Promise<never>(() => undefined))
      const stop = new AbortController()
      const work = assert.rejects(project.acquireProjectLock({ signal: stop.signal }), isError('lock-timeout', true))
      await clock.pass(5000)
      stop.abort(new RangeError('enough'))
      await work
      await clock.pass(60_000)
      assert.deepEqual(server.gone, [server.sent[0]?.body['request_id']])
    }
  })

  test('a lease that another process has renewed is lost, unless a renewal of its own may have done it', async () => {
    for (const open of [true, false]) {
      const { clock, server, project } = service()
      const lease = await project.acquireProjectLock()
      if (server.holder) server.holder.until += 1
      if (open) server.answers.push(() => new TypeError('fetch failed'))
      await clock.until(project.renewProjectLock(lease).then(() => assert.ok(open), (e: unknown) => assert.ok(!open, String(e))))
      assert.deepEqual(server.did, ['acquire', ...(open ? ['renew', 'renew', 'renew'] : ['renew'])])
      if (!open) continue
      if (server.holder) server.holder.until += 1
      await assert.rejects(clock.until(project.renewProjectLock(lease)), isError('lock-renewal-failed', true))
      assert.equal(server.did.length, 5)
    }
  })

  test('a held lock is contention; a rejection for good is not repeated', async () => {
    const { clock, server, project, events } = service()
    server.answers.push(() => problem('LOCK_HELD', 409, { owner_id: 'bob' }))
    await clock.until(project.acquireProjectLock())
    assert.deepEqual(events.flatMap((e) => (e.type === 'lock:retry' ? [e.reason] : [])), ['contended'])
    const other = service()
    other.server.answers.push(() => json({ code: 'PERMISSION_DENIED', title: 'no', retryable: false }, 403))
    await assert.rejects(other.project.acquireProjectLock(), isError('lock-unavailable', false))
    assert.equal(other.server.sent.length, 1)
  })
})

// PRJ-API
test('arguments that cannot work are errors that name the field, at once and without an event', async () => {
  const { clock, locks, project, events, directory } = world()
  const refused = (field: string, work: () => unknown) =>
    assert.rejects(async () => work(), (e: unknown) => e instanceof InvalidSettingError && e.field === field, field)
  const acquire = (options: unknown) => project.acquireProjectLock(options as never)
  const retry = (retry: unknown) => acquire({ retry })
  await refused('options', () => acquire(null))
  await refused('options', () => acquire('autosave'))
  for (const scope of ['other', '', null, 7]) await refused('scope', () => acquire({ scope }))
  for (const signal of [{}, { aborted: false }, 'stop']) await refused('signal', () => acquire({ signal }))
  for (const r of [null, 5]) await refused('retry', () => retry(r))
  await refused('retry.attempts', () => retry({ attempts: 3 }))
  await refused('retry.toString', () => retry({ toString: undefined }))
  for (const k of ['initialDelayMs', 'maxDelayMs', 'multiplier', 'maxAttempts']) {
    for (const v of [-1, NaN, Infinity, '500', null, 1n]) await refused(`retry.${k}`, () => retry({ [k]: v }))
  }
  for (const v of [0, 1.5]) await refused('retry.maxAttempts', () => retry({ maxAttempts: v }))
  for (const v of [0, 0.5]) await refused('retry.multiplier', () => retry({ multiplier: v }))
  for (const fn of [undefined, {}]) await refused('fn', () => project.withProjectLock(fn as never))
  await refused('scope', () => project.withProjectLock(async () => 1, { scope: 'other' as never }))
  for (const listener of [undefined, {}]) await refused('listener', () => project.subscribeLockEvents(listener as never))
  for (const lease of [undefined, null, {}, { id: 'another' }, { ...(await world().project.acquireProjectLock()) }]) {
    await refused('lease', () => project.renewProjectLock(lease as never))
    await refused('lease', () => project.releaseProjectLock(lease as never))
  }
  for (const name of ['', '-project', 'x'.repeat(241), 'a\u0000', '\ud800', 7, null]) await refused('name', () => createProjectLock({ name: name as never }))
  await refused('config', () => createProjectLock(null as never))
  await refused('directory', () => createProjectLock({ directory: {} as never }))
  await refused('locks.request', () => createProjectLock({ locks: {} as never }))
  await refused('service', () => createProjectLock({ service: undefined as never }))
  await refused('url', () => createProjectLock({ service: { url: 'locks.test', tenant: 'acme' } }))
  await refused('tenant', () => createProjectLock({ service: { url: 'https://locks.test', tenant: '' } }))
  await refused('name', () => createProjectLock({ name: '', service: { url: 'https://locks.test', tenant: 'acme' } }))
  assert.deepEqual([locks.names, events, [...directory.touched], clock.timers], [[], [], [], 0])
})
