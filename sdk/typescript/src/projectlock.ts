/**
 * The lock of a project that a web application saves to in the background, from several tabs: Web Locks first, the file `project/.lock` in the origin's private
 * file system where Web Locks are refused, and a Leasehold server only where that is configured.
 *
 * @module
 */
import { checkFunction, checkObject, checkText, invalid } from './check.js'
import { LockHeldError } from './codes.gen.js'
import { LeaseholdError, isGone } from './fault.js'
import { Server, randomID, segment, type ServerOptions } from './http.js'
import { isFinal, isOver, isUnsettled, messageOf } from './judge.js'
import { checkLease, checkReleased } from './lease.js'
import type { AbortSignal, FileSystemDirectoryHandle, LockManager } from './platform.js'
import { Term } from './term.js'
import { type Clock, type Moment, Scope, add, endOf, moment, orAborted, pause, sleepUntil, systemClock, until } from './time.js'

/** What a lease is for. */
export type LockScope = 'autosave' | 'history'

export interface AcquireLockOptions {
  /** `autosave` if left out. */
  readonly scope?: LockScope
  /** Ends the attempts: the error is then `lock-timeout`. */
  readonly signal?: AbortSignal
  readonly retry?: Partial<RetryPolicyConfig>
}

export interface RetryPolicyConfig {
  /** 500 if left out. */
  readonly initialDelayMs: number
  /** 4000 if left out. */
  readonly maxDelayMs: number
  /** 2 if left out. */
  readonly multiplier: number
  /** 5 if left out: one attempt and four retries. */
  readonly maxAttempts: number
}

/** What keeps the lock: the browser's Web Locks, or the file. */
export type LockBackend = 'web' | 'fallback'

/** How far a lease excludes others: the tabs and workers of this browser, all that use the same file, or all callers of the server. */
export type LockReach = 'browser' | 'file' | 'service'

/** A lease. It does not change: a renewal returns a new one. */
export interface ProjectLockLease<B extends string = LockBackend> {
  /** A UUID, the same in all renewals. */
  readonly id: string
  readonly backend: B
  readonly scope: LockScope
  /** In ms since 1970. */
  readonly acquiredAt: number
  /** In ms since 1970; positive infinity with Web Locks. */
  readonly ttlExpiresAt: number
  /** Every lease of this module has it. */
  readonly reach?: LockReach
  /** The fencing token, with the server only. */
  readonly token?: number
}

export type LockErrorCode = 'web-lock-unsupported' | 'lock-timeout' | 'lock-unavailable' | 'lock-renewal-failed' | 'lock-release-failed'

/** The error of each function. If it is not retryable, go on read-only. Arguments that cannot work are an InvalidSettingError instead, which names the field. */
export class LockError extends LeaseholdError {
  override readonly name: string = 'LockError'
  constructor(readonly code: LockErrorCode, readonly retryable: boolean, override readonly cause?: unknown) {
    super(cause instanceof Error ? `${code}: ${cause.message}` : code)
  }
}

export interface ProjectLockEventBase<B extends string = LockBackend> {
  /** In ms since 1970; never before that of an earlier event. */
  readonly at: number
  /** Before there is a lease, that of the attempt: the lease that follows has the same. */
  readonly leaseId: string
  readonly backend: B
  readonly scope: LockScope
}

export interface LockAcquiredEvent<B extends string = LockBackend> extends ProjectLockEventBase<B> {
  readonly type: 'lock:acquired'
  readonly attempt: number
}

export interface LockRenewedEvent<B extends string = LockBackend> extends ProjectLockEventBase<B> {
  readonly type: 'lock:renewed'
  readonly ttlExpiresAt: number
}

export interface LockReleasedEvent<B extends string = LockBackend> extends ProjectLockEventBase<B> {
  readonly type: 'lock:released'
}

export interface LockRetryScheduledEvent<B extends string = LockBackend> extends ProjectLockEventBase<B> {
  readonly type: 'lock:retry'
  readonly attempt: number
  readonly delayMs: number
  readonly reason: 'contended' | 'unavailable' | 'transient-error'
}

export interface LockWarningEvent<B extends string = LockBackend> extends ProjectLockEventBase<B> {
  readonly type: 'lock:cleanup-warning'
  readonly message: string
}

export interface LockErrorEvent<B extends string = LockBackend> extends ProjectLockEventBase<B> {
  readonly type: 'lock:error'
  readonly error: LockError
}

export type ProjectLockEvent<B extends string = LockBackend> =
  | LockAcquiredEvent<B>
  | LockRenewedEvent<B>
  | LockReleasedEvent<B>
  | LockRetryScheduledEvent<B>
  | LockWarningEvent<B>
  | LockErrorEvent<B>

export type LockEventListener<B extends string = LockBackend> = (event: ProjectLockEvent<B>) => void

/** What the lock needs of a folder: a FileSystemDirectoryHandle has it. */
export type ProjectDirectory = Pick<FileSystemDirectoryHandle, 'getFileHandle' | 'removeEntry'>

/** Settings of the browser's project lock. */
export interface ProjectLockConfig {
  /** What the names of the locks begin with: ":" and the scope follow. "imgponic:project" if left out. */
  readonly name?: string
  /** The folder that has the file `.lock`; the folder `project` of the origin's private file system if left out, which is made if it is missing. */
  readonly directory?: () => Promise<ProjectDirectory>
  /** Web Locks; those of the browser if left out, none if null. */
  readonly locks?: Pick<LockManager, 'request'> | null
  /** The clocks; for tests. */
  readonly clock?: Clock
}

/** Settings of a project lock at a Leasehold server. */
export interface ServiceLockConfig {
  /** As in {@link ProjectLockConfig}. Each project of a tenant needs a name of its own. */
  readonly name?: string
  readonly service: ServerOptions
}

/** The five functions. */
export interface ProjectLock<B extends string = LockBackend> {
  acquireProjectLock(options?: AcquireLockOptions): Promise<ProjectLockLease<B>>
  renewProjectLock(lease: ProjectLockLease<B>): Promise<ProjectLockLease<B>>
  releaseProjectLock(lease: ProjectLockLease<B>): Promise<void>
  withProjectLock<T>(fn: (lease: ProjectLockLease<B>, signal: AbortSignal) => Promise<T>, options?: AcquireLockOptions): Promise<T>
  subscribeLockEvents(listener: LockEventListener<B>): () => void
}

const ttl = 30_000
const renewAfter = 20_000
const tryTime = 10_000
const cleanups = 3
const defaults: RetryPolicyConfig = { initialDelayMs: 500, maxDelayMs: 4000, multiplier: 2, maxAttempts: 5 }

/** Another lease has the lock. */
class Held extends Error {}
/** The lock is not, or no longer, the lease's. */
class Lost extends Error {}
/** Web Locks are refused or missing. */
class Refused extends Error {}
/** Another attempt would fail in the same way. */
class Permanent extends Error {}

/** What an attempt obtains. */
interface Grant {
  readonly asked: Moment
  readonly expiresAt: number
  readonly token?: number
  /** With the server: the end that it knows, as text. */
  readonly known?: string
  /** With Web Locks: frees the lock. */
  readonly free?: () => Promise<void>
  /** With Web Locks: is called if the lock is stolen. */
  readonly stolen?: (call: () => void) => void
}

interface Holding<B extends string> {
  readonly id: string
  readonly scope: LockScope
  readonly backend: Backend<B>
  readonly term: Term
  readonly watching: Scope
  readonly acquiredAt: number
  grant: Grant
  turn: Promise<unknown>
  failures: number
  ended: boolean
  /** Whether a renewal since the latest one that succeeded may have been carried out. */
  open?: boolean
}

interface Attempt {
  readonly id: string
  readonly scope: LockScope
  /** Of the request to the server. */
  request: string
  /** Whether a request may have been carried out, or may still be. */
  open?: boolean
}

interface Backend<B extends string> {
  readonly name: B
  readonly reach: LockReach
  acquire(a: Attempt, signal: AbortSignal, isLeftover: (id: string) => boolean): Promise<Grant>
  renew(h: Holding<B>, request: string, signal: AbortSignal): Promise<Grant>
  release(h: Holding<B>, signal: AbortSignal): Promise<void>
  /** Notes at once, for all pages, that a lease is over whose page is being left: a page has no time for a release. */
  leave?(id: string): void
  /** Ends what an acquire that was given up may have obtained. */
  abandon?(a: Attempt): void
}

const named = (e: unknown, ...names: string[]): boolean => names.includes((e as { name?: string } | null)?.name ?? '')

/** The lock by Web Locks. They last until they are released, and end with the tab. */
class WebLocks implements Backend<LockBackend> {
  readonly name = 'web'
  readonly reach = 'browser'
  readonly #locks: ProjectLockConfig['locks']
  readonly #clock: Clock
  readonly #prefix: string

  constructor(c: ProjectLockConfig, clock: Clock, prefix: string) {
    this.#locks = c.locks === undefined ? globalThis.navigator?.locks : c.locks
    this.#clock = clock
    this.#prefix = prefix
  }

  async acquire(a: Attempt, signal: AbortSignal): Promise<Grant> {
    const locks = this.#locks
    if (!locks) throw new Refused('this browser has no Web Locks')
    const asked = moment(this.#clock)
    let free!: () => void
    const held = new Promise<void>((resolve) => (free = resolve))
    let over: Promise<unknown> = Promise.resolve()
    await new Promise<void>((resolve, reject) => {
      const refused = (e: unknown) => reject(named(e, 'SecurityError', 'NotSupportedError') ? new Refused((e as Error).message, { cause: e }) : e)
      try {
        over = locks.request(`${this.#prefix}:${a.scope}`, { signal }, () => {
          if (signal.aborted) return undefined // it was given up in the same moment
          resolve()
          return held
        })
        over.catch(refused)
      } catch (e) {
        refused(e)
      }
    })
    return {
      asked, expiresAt: Infinity,
      free: async () => {
        free()
        await over.catch((cause: unknown) => {
          throw new Lost('the Web Lock was stolen', { cause })
        })
      },
      stolen: (call) => void over.catch(call),
    }
  }

  async renew(h: Holding<LockBackend>): Promise<Grant> {
    return h.grant
  }

  async release(h: Holding<LockBackend>): Promise<void> {
    await h.grant.free?.()
  }
}

/** The content of the file. */
interface LockFile {
  readonly id: string
  readonly backend: 'fallback'
  readonly scope: LockScope
  readonly acquiredAt: number
  readonly ttlExpiresAt: number
}

/**
 * The lock in the file. A file that names a lease which has not expired is the lock.
 *
 * The origin's private file system has no exclusive create. What is exclusive is a writer: `createWritable({ mode: 'exclusive' })`, or in workers
 * `createSyncAccessHandle()`. Whatever changes the file holds one, reads the file again, and only then writes; so of two tabs that find the same orphan one gets
 * it. Where neither is offered no lease is given.
 */
class FileLock implements Backend<LockBackend> {
  readonly name = 'fallback'
  readonly reach = 'file'
  readonly #clock: Clock
  readonly #own: ProjectLockConfig['directory']

  constructor(c: ProjectLockConfig, clock: Clock) {
    this.#clock = clock
    this.#own = c.directory
  }

  async #folder(): Promise<ProjectDirectory> {
    if (this.#own) return this.#own()
    if (!globalThis.navigator?.storage?.getDirectory) throw new Refused('this browser has neither Web Locks nor a private file system')
    return (await navigator.storage.getDirectory()).getDirectoryHandle('project', { create: true })
  }

  /** Throws Held unless the file is free: empty, or expired by the time that its writer named. A damaged one counts from its last change. */
  #judge(content: string, changed: number, isLeftover: (id: string) => boolean): void {
    if (content.trim() === '') return
    const r = parse(content)
    const end = r ? r.ttlExpiresAt : changed + ttl
    if (this.#clock.wall() < end && !(r && (isLeftover(r.id) || notes()?.getItem(note + r.id)))) throw new Held(`.lock is held by the lease ${r?.id ?? 'of a damaged file'}`)
  }

  async acquire(a: Attempt, signal: AbortSignal, isLeftover: (id: string) => boolean): Promise<Grant> {
    const folder = await this.#folder()
    try {
      const file = await (await folder.getFileHandle('.lock')).getFile()
      this.#judge(await file.text(), file.lastModified, isLeftover)
    } catch (e) {
      if (!named(e, 'NotFoundError')) throw e
    }
    const handle = await folder.getFileHandle('.lock', { create: true })
    let before: LockFile | undefined
    const grant = await this.#write(handle, (content, changed) => {
      this.#judge(content, changed, isLeftover)
      signal.throwIfAborted()
      before = parse(content)
      const asked = moment(this.#clock)
      const acquiredAt = Math.floor(asked.wall)
      return [{ asked, expiresAt: acquiredAt + ttl }, { id: a.id, backend: 'fallback', scope: a.scope, acquiredAt, ttlExpiresAt: acquiredAt + ttl }] as const
    })
    if (before) notes()?.removeItem(note + before.id) // its file is gone
    return grant
  }

  async renew(h: Holding<LockBackend>, _request: string, signal: AbortSignal): Promise<Grant> {
    return this.#mine(h.id, async (handle) => this.#write(handle, (content) => {
      const r = parse(content)
      if (r?.id !== h.id) throw new Lost('.lock has another lease')
      signal.throwIfAborted()
      const lost = h.term.check()
      if (lost !== undefined) throw lost
      const asked = moment(this.#clock)
      const expiresAt = Math.floor(asked.wall) + ttl
      return [{ asked, expiresAt }, { ...r, ttlExpiresAt: expiresAt }]
    }))
  }

  /**
   * Removes the file. A writer cannot remove what it has open, so that the file is only looked at before. No one else changes it until it expires: it is removed
   * only with time to spare, and first renewed where little is left.
   */
  async release(h: Holding<LockBackend>, signal: AbortSignal): Promise<void> {
    await this.#mine(h.id, async (handle, folder) => {
      const r = parse(await (await handle.getFile()).text())
      if (r?.id !== h.id) throw new Lost('.lock has another lease')
      if (r.ttlExpiresAt - this.#clock.wall() < ttl / 3) {
        await this.#write(handle, (content) => {
          const again = parse(content)
          if (again?.id !== h.id) throw new Lost('.lock has another lease')
          return [undefined, { ...again, ttlExpiresAt: Math.floor(this.#clock.wall()) + ttl }]
        })
      }
      signal.throwIfAborted()
      await folder.removeEntry('.lock')
      notes()?.removeItem(note + h.id)
    })
  }

  leave(id: string): void {
    notes()?.setItem(note + id, '1')
  }

  async #mine<T>(id: string, work: (handle: FileSystemFileHandle, folder: ProjectDirectory) => Promise<T>): Promise<T> {
    const folder = await this.#folder()
    let handle: FileSystemFileHandle
    try {
      handle = await folder.getFileHandle('.lock')
    } catch (e) {
      throw named(e, 'NotFoundError') ? new Lost(`.lock of the lease ${id} is gone`, { cause: e }) : e
    }
    return work(handle, folder)
  }

  /** Reads and writes the file as its only writer. */
  async #write<T>(handle: FileSystemFileHandle, decide: (content: string, changed: number) => readonly [T, LockFile]): Promise<T> {
    const file = async () => handle.getFile()
    const sync = handle as FileSystemFileHandle & { createSyncAccessHandle?: () => Promise<SyncAccess> }
    if (typeof sync.createSyncAccessHandle === 'function') {
      const before = await file() // while the handle is open a file cannot be read otherwise
      const text = await before.text()
      const access = await sync.createSyncAccessHandle()
      try {
        const buffer = new Uint8Array(access.getSize())
        access.read(buffer, { at: 0 })
        const content = new TextDecoder().decode(buffer)
        const [result, record] = decide(content, content === text ? before.lastModified : this.#clock.wall())
        access.truncate(0)
        access.write(new TextEncoder().encode(JSON.stringify(record)), { at: 0 })
        access.flush()
        return result
      } finally {
        access.close()
      }
    }
    let asked = false // a browser that knows the mode reads it
    const writer = await handle.createWritable({
      keepExistingData: false,
      get mode() {
        asked = true
        return 'exclusive'
      },
    } as FileSystemCreateWritableOptions)
    try {
      if (!asked) throw new Permanent('this browser has neither exclusive writers nor Web Locks: the file cannot be a lock')
      const before = await file()
      const [result, record] = decide(await before.text(), before.lastModified)
      await writer.write(JSON.stringify(record))
      await writer.close()
      return result
    } catch (e) {
      await writer.abort().catch(() => undefined)
      throw e
    }
  }
}

const note = 'leasehold.projectlock.over.'

/** Where pages note that a lease is over; undefined in workers, and where the browser refuses it. */
function notes(): Storage | undefined {
  try {
    return (globalThis as { document?: Document }).document && globalThis.localStorage
  } catch {
    return undefined
  }
}

interface SyncAccess {
  getSize(): number
  read(buffer: Uint8Array, o: { at: number }): number
  write(buffer: Uint8Array, o: { at: number }): number
  truncate(size: number): void
  flush(): void
  close(): void
}

function parse(content: string): LockFile | undefined {
  try {
    const r = JSON.parse(content) as LockFile | null
    return typeof r?.id === 'string' && typeof r.ttlExpiresAt === 'number' && r.ttlExpiresAt > 0 ? r : undefined
  } catch {
    return undefined
  }
}

/** The lock at a server. */
class ServiceLock implements Backend<'service'> {
  readonly name = 'service'
  readonly reach = 'service'
  readonly #server: Server
  readonly #prefix: string

  constructor(c: ServiceLockConfig, prefix: string) {
    this.#server = new Server(c.service)
    this.#prefix = prefix
  }

  get clock() {
    return this.#server.clock
  }

  #path(scope: LockScope, what: string): string {
    return `${this.#server.root}/locks/${segment('name', `${this.#prefix}:${scope}`, 256)}/${what}`
  }

  async #send(scope: LockScope, what: string, body: object, signal?: AbortSignal) {
    return this.#server.send('POST', this.#path(scope, what), { owner_id: this.#server.owner, ...body }, tryTime, signal)
  }

  /** The body of an acquire. */
  #body(a: Attempt) {
    return { owner_id: this.#server.owner, request_id: a.request, ttl_seconds: ttl / 1000, metadata: { scope: a.scope } }
  }

  #grant(got: Record<string, unknown>, asked: Moment, scope: LockScope, of?: number): Grant {
    const l = checkLease(got, this.#server, `${this.#prefix}:${scope}`, { request_id: '' }, of)
    return { asked, expiresAt: Math.floor(asked.wall) + Math.min(ttl, l.remaining_ms), token: l.fencing_token, known: l.expires_at }
  }

  async acquire(a: Attempt, signal: AbortSignal): Promise<Grant> {
    for (let again = true; ; again = false) {
      const asked = moment(this.clock)
      const before = a.open ?? false
      a.open = true
      try {
        return this.#grant(await this.#server.ask(this.#path(a.scope, 'acquire'), this.#body(a), tryTime, signal), asked, a.scope)
      } catch (e) {
        a.open = isUnsettled(e) || (before && !isOver(e))
        if (e instanceof LockHeldError) throw new Held(e.message, { cause: e })
        if (again && named(e, 'RequestIdReusedError', 'LeaseExpiredError')) {
          a.request = randomID() // an earlier try obtained a lease, which has ended
          continue
        }
        throw isFinal(e) ? new Permanent((e as Error).message, { cause: e }) : e
      }
    }
  }

  async renew(h: Holding<'service'>, request: string, signal: AbortSignal): Promise<Grant> {
    let expires_at = h.grant.known
    for (;;) {
      const asked = moment(this.clock)
      try {
        const got = await this.#send(h.scope, 'renew', { request_id: request, ttl_seconds: ttl / 1000, fencing_token: h.grant.token, expires_at }, signal)
        const grant = this.#grant(got, asked, h.scope, h.grant.token)
        h.open = false
        return grant
      } catch (e) {
        const changed = (e as { expiresAt?: string }).expiresAt
        if (h.open && named(e, 'LeaseChangedError') && changed) {
          expires_at = changed // by a renewal of this lease whose response was lost
          request = randomID()
          h.open = false
          continue
        }
        if (isGone(e)) throw new Lost((e as Error).message, { cause: e })
        h.open ||= isUnsettled(e)
        throw isFinal(e) ? new Permanent((e as Error).message, { cause: e }) : e
      }
    }
  }

  async release(h: Holding<'service'>, signal?: AbortSignal): Promise<void> {
    await this.#end(h.scope, h.id, h.grant.token ?? 0, signal)
  }

  async #end(scope: LockScope, id: string, of: number, signal?: AbortSignal): Promise<void> {
    try {
      const got = await this.#send(scope, 'release', { request_id: id, fencing_token: of }, signal)
      checkReleased(got, this.#server, `${this.#prefix}:${scope}`, of)
    } catch (e) {
      throw isGone(e) || named(e, 'NotFoundError') ? new Lost((e as Error).message, { cause: e }) : e
    }
  }

  abandon(a: Attempt): void {
    if (a.open) void this.#server.giveUp(this.#path(a.scope, 'acquire'), this.#body(a)) // otherwise it expires
  }
}

/** The project lock over its backends: the first, and the one that follows if that is refused. */
class Project<B extends string> implements ProjectLock<B> {
  readonly #clock: Clock
  readonly #first: Backend<B>
  readonly #second: Backend<B> | undefined
  /** Leases that have not ended, by ID: a copy of a lease is as good as the lease. */
  readonly #held = new Map<string, Holding<B>>()
  /** What was returned for them. It outlives them, so that a lease may be released again, and keeps none of them. */
  readonly #known = new WeakMap<object, Holding<B>>()
  /** Leases that are over, or that the next acquire ends because they could not be renewed; their lock was not removed. */
  readonly #leftovers = new Map<string, Holding<B>>()
  #listeners: LockEventListener<B>[] = []
  readonly #queue: ProjectLockEvent<B>[] = []
  #delivering = false
  #last = 0

  constructor(clock: Clock, first: Backend<B>, second?: Backend<B>) {
    this.#clock = clock
    this.#first = first
    this.#second = second
  }

  // Fields, so that they can be passed around without the object.
  readonly subscribeLockEvents = (listener: LockEventListener<B>): (() => void) => {
    checkFunction('listener', listener)
    const own: LockEventListener<B> = (e) => listener(e) // the same function may subscribe twice
    this.#listeners = [...this.#listeners, own]
    return () => void (this.#listeners = this.#listeners.filter((l) => l !== own))
  }

  readonly acquireProjectLock = async (options: AcquireLockOptions = {}): Promise<ProjectLockLease<B>> => this.#lease(await this.#acquire(options))

  readonly renewProjectLock = async (l: ProjectLockLease<B>): Promise<ProjectLockLease<B>> => {
    const h = this.#own(l)
    await this.#renew(h, h.watching.signal)
    return this.#lease(h)
  }

  readonly releaseProjectLock = async (l: ProjectLockLease<B>): Promise<void> => {
    const h = this.#own(l)
    if (!h.ended) await this.#release(h)
  }

  readonly withProjectLock = async <T>(fn: (lease: ProjectLockLease<B>, signal: AbortSignal) => Promise<T>, options: AcquireLockOptions = {}): Promise<T> => {
    checkFunction('fn', fn)
    const h = await this.#acquire(options)
    const work = new Scope(options.signal)
    work.signal.addEventListener('abort', () => h.term.cancel(work.signal.reason))
    if (work.signal.aborted) h.term.cancel(work.signal.reason)
    const keeping = new Scope(h.watching.signal)
    const kept = this.#keep(h, keeping.signal)
    let result: T | undefined
    let failed: { error: unknown } | undefined
    try {
      result = await fn(this.#lease(h), h.term.signal)
    } catch (error) {
      failed = { error }
    }
    const lost = h.term.settle()
    keeping.abort(undefined)
    work.end()
    await kept
    if (!h.ended) await this.#release(h).catch(() => undefined) // the event says what is wrong
    if (lost !== undefined) throw lostError(lost, failed?.error)
    if (failed) throw failed.error
    return result as T
  }

  #own(l: ProjectLockLease<B>): Holding<B> {
    const h = this.#held.get(l?.id) ?? this.#known.get(l)
    if (!h) throw invalid('lease', 'must be of this project lock: what acquireProjectLock or renewProjectLock returned')
    return h
  }

  #lease(h: Holding<B>): ProjectLockLease<B> {
    const l = lease(h)
    this.#known.set(l, h)
    return l
  }

  /** Nothing is left to do for a lease. */
  #ended(h: Holding<B>): void {
    h.ended = true
    this.#held.delete(h.id)
    this.#leftovers.delete(h.id)
  }

  /** Whether the lock of a lease is free for the next one of this project. The lease is over: its signal says so. */
  #isLeftover(id: string): boolean {
    return this.#leftovers.get(id)?.term.signal.aborted ?? false
  }

  /** Delivers events in their order, before the function returns that causes them. A listener may call the project. */
  #emit(e: DistributiveOmit<ProjectLockEvent<B>, 'at'>): void {
    const at = Math.max(Math.floor(this.#clock.wall()), this.#last)
    this.#last = at
    this.#queue.push(Object.freeze({ ...e, at }) as ProjectLockEvent<B>)
    if (this.#delivering) return
    this.#delivering = true
    for (let next = this.#queue.shift(); next; next = this.#queue.shift()) {
      for (const l of this.#listeners) {
        if (!this.#listeners.includes(l)) continue
        try {
          l(next)
        } catch (error) {
          globalThis.reportError?.(error) // it disturbs neither the lock nor the others
        }
      }
    }
    this.#delivering = false
  }

  /** One try, of 10 s at most. */
  async #once<T>(work: (signal: AbortSignal) => Promise<T>, undo: ((got: T) => void) | undefined, limit: number, outer?: AbortSignal): Promise<T> {
    const late = new LockError('lock-timeout', true, new Error(`no result within ${limit} ms`))
    const scope = new Scope(outer).within(this.#clock, limit, () => late)
    const going = work(scope.signal)
    try {
      return await orAborted(going, scope.signal)
    } catch (e) {
      if (scope.signal.aborted && undo) void going.then(undo, () => undefined)
      throw scope.signal.aborted ? scope.signal.reason : e
    } finally {
      scope.end()
    }
  }

  async #acquire(options: AcquireLockOptions): Promise<Holding<B>> {
    checkObject('options', options)
    const { scope = 'autosave', signal } = options
    if (scope !== 'autosave' && scope !== 'history') throw invalid('scope', `is ${String(scope)}: must be "autosave" or "history"`)
    const retry = policy(options.retry)
    new Scope(signal).end() // it is one
    await this.#clean(signal)
    const a: Attempt = { id: uuid(), scope, request: randomID() }
    let backend = this.#first
    const base = () => ({ leaseId: a.id, backend: backend.name, scope })
    for (let attempt = 1; ; attempt++) {
      let error: unknown
      try {
        signal?.throwIfAborted()
        const h = await this.#try(a, backend, signal)
        this.#emit({ type: 'lock:acquired', attempt, ...base() } as never)
        return h
      } catch (e) {
        error = e
      }
      if (signal?.aborted) {
        backend.abandon?.(a)
        throw new LockError('lock-timeout', true, signal.reason)
      }
      if (error instanceof Refused && this.#second && backend !== this.#second) {
        backend = this.#second
        attempt-- // it goes on at once, and is the same attempt
        continue
      }
      const [reason, permanent] = judge(error, backend.name)
      if (permanent || attempt >= retry.maxAttempts) {
        backend.abandon?.(a)
        const failed = new LockError(error instanceof Refused ? 'web-lock-unsupported' : 'lock-unavailable', false, error)
        this.#emit({ type: 'lock:error', error: failed, ...base() } as never)
        throw failed
      }
      const delayMs = delay(retry, attempt)
      this.#emit({ type: 'lock:retry', attempt, delayMs, reason, ...base() } as never)
      await pause(this.#clock, delayMs, signal ?? none)
    }
  }

  async #try(a: Attempt, backend: Backend<B>, signal?: AbortSignal): Promise<Holding<B>> {
    const make = (grant: Grant): Holding<B> => {
      const end = grant.expiresAt === Infinity ? add(grant.asked, Infinity) : endOf(grant.asked, grant.expiresAt - Math.floor(grant.asked.wall))
      const term = new Term(this.#clock, end, () => new Lost('the lease expired'))
      return { id: a.id, scope: a.scope, backend, term, watching: new Scope(), acquiredAt: Math.floor(grant.asked.wall), grant, turn: Promise.resolve(), failures: 0, ended: false }
    }
    const undo = (grant: Grant) => {
      const h = make(grant)
      h.term.cancel(new Lost('the acquire was given up'))
      void backend.release(h, none).catch((error: unknown) => {
        if (!(error instanceof Lost)) this.#remains(h, error)
      })
    }
    const grant = await this.#once((s) => backend.acquire(a, s, (id) => this.#isLeftover(id)), undo, tryTime, signal)
    const h = make(grant)
    if (h.term.check() !== undefined) throw new Error('the lease expired before it was granted')
    this.#leftovers.delete(a.id)
    this.#held.set(h.id, h)
    grant.stolen?.(() => h.term.lose(new Lost('the Web Lock was stolen')))
    if (grant.expiresAt !== Infinity) void h.term.watch(h.watching.signal)
    if (backend.leave) this.#leaves(h)
    return h
  }

  /** Ends a lease when its page is left or reloaded: the page that follows need not wait for its expiry. */
  #leaves(h: Holding<B>): void {
    const leave = () => {
      h.term.lose(new Lost('the page was left'))
      h.backend.leave?.(h.id)
    }
    globalThis.addEventListener?.('pagehide', leave)
    h.term.signal.addEventListener('abort', () => globalThis.removeEventListener?.('pagehide', leave))
  }

  /** Renewals and the release of a lease take turns. */
  async #turn<T>(h: Holding<B>, work: () => Promise<T>): Promise<T> {
    const before = h.turn
    let leave!: () => void
    h.turn = new Promise<void>((resolve) => (leave = resolve))
    await before
    try {
      return await work()
    } finally {
      leave()
    }
  }

  async #renew(h: Holding<B>, stop: AbortSignal): Promise<void> {
    const request = randomID()
    const base = () => ({ leaseId: h.id, backend: h.backend.name, scope: h.scope })
    for (let attempt = 1; ; attempt++) {
      const wait = await this.#turn(h, async () => {
        let error: unknown = h.ended || stop.aborted ? new Lost('the lease was released') : h.term.check()
        if (error === undefined) {
          try {
            const limit = Math.min(tryTime, Math.max(h.term.left / 3, 10))
            const grant = await this.#once((s) => h.backend.renew(h, request, s), undefined, limit, stop)
            if (grant.expiresAt === Infinity) return 0 // Web Locks do not expire
            if (h.term.extend(endOf(grant.asked, grant.expiresAt - Math.floor(grant.asked.wall)))) {
              h.grant = grant
              this.#leftovers.delete(h.id)
              this.#emit({ type: 'lock:renewed', ttlExpiresAt: grant.expiresAt, ...base() } as never)
              return 0
            }
            error = h.term.check()
          } catch (e) {
            error = e
          }
        }
        const failed = new LockError('lock-renewal-failed', true, error)
        if (error instanceof Lost) {
          h.term.lose(error)
          throw failed
        }
        if (stop.aborted) throw failed
        h.term.failed(error)
        const [reason, permanent] = judge(error, h.backend.name)
        const delayMs = delay(defaults, attempt)
        const last = permanent || attempt >= defaults.maxAttempts || delayMs >= h.term.left
        if (last) this.#leftovers.set(h.id, h) // the caller acquires again: its own lease is not to be in the way
        if (permanent) {
          const final = new LockError('lock-renewal-failed', false, error)
          this.#emit({ type: 'lock:error', error: final, ...base() } as never)
          throw final
        }
        if (last) throw failed
        this.#emit({ type: 'lock:retry', attempt, delayMs, reason, ...base() } as never)
        return delayMs
      })
      if (wait === 0) return
      await pause(this.#clock, wait, stop)
    }
  }

  /** Renews the lease 20 s after the latest renewal, until the signal is aborted or that fails. */
  async #keep(h: Holding<B>, stop: AbortSignal): Promise<void> {
    if (h.grant.expiresAt === Infinity) return
    for (;;) {
      const due = add(h.grant.asked, renewAfter)
      if (!(await sleepUntil(this.#clock, due, stop))) return
      if (until(this.#clock, add(h.grant.asked, renewAfter)) > 0) continue // the work has renewed it
      try {
        await this.#renew(h, stop)
      } catch (error) {
        if (!stop.aborted) h.term.lose(error)
        return
      }
    }
  }

  async #release(h: Holding<B>): Promise<void> {
    h.term.settle()
    h.watching.abort(undefined)
    await this.#turn(h, async () => {
      if (h.ended) return
      try {
        await this.#remove(h)
      } catch (error) {
        if (error instanceof Lost) {
          this.#ended(h)
          this.#emit({ type: 'lock:cleanup-warning', message: `the lock was left alone: ${error.message}`, leaseId: h.id, backend: h.backend.name, scope: h.scope } as never)
        } else this.#remains(h, error)
        throw new LockError('lock-release-failed', true, error)
      } finally {
        h.term.cancel(new Lost('the lease was released'))
      }
      this.#emit({ type: 'lock:released', leaseId: h.id, backend: h.backend.name, scope: h.scope } as never)
    })
  }

  /** Frees the lock of a lease that is over. */
  async #remove(h: Holding<B>): Promise<void> {
    await this.#once((s) => h.backend.release(h, s), undefined, tryTime)
    this.#ended(h)
  }

  /** Notes that a lock could not be removed, and warns. */
  #remains(h: Holding<B>, error: unknown): void {
    h.failures++
    this.#leftovers.set(h.id, h)
    const next = h.failures >= cleanups ? 'it is left to its expiry' : 'the next acquire tries again'
    const message = `the lock could not be removed, ${h.failures} of ${cleanups} times; ${next}: ${messageOf(error)}`
    this.#emit({ type: 'lock:cleanup-warning', message, leaseId: h.id, backend: h.backend.name, scope: h.scope } as never)
  }

  /** Removes what could not be removed before. */
  async #clean(signal?: AbortSignal): Promise<void> {
    for (const h of [...this.#leftovers.values()]) {
      if (h.failures >= cleanups) {
        if (this.#clock.wall() > h.grant.expiresAt) this.#ended(h)
        continue
      }
      if (signal?.aborted) return
      await this.#turn(h, async () => {
        if (h.ended || !this.#leftovers.has(h.id)) return // it was renewed after all
        h.term.lose(new Lost('another acquire followed the renewals that failed'))
        h.watching.abort(undefined)
        try {
          await this.#remove(h)
        } catch (error) {
          if (error instanceof Lost) this.#ended(h)
          else this.#remains(h, error)
        }
      })
    }
  }
}

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never

const none = new AbortController().signal

const uuid = (): string => {
  const h = randomID()
  return `${h.slice(0, 8)}-${h.slice(8, 12)}-4${h.slice(13, 16)}-${((parseInt(h[16] ?? '0', 16) & 3) | 8).toString(16)}${h.slice(17, 20)}-${h.slice(20)}`
}

function lease<B extends string>(h: Holding<B>): ProjectLockLease<B> {
  const { token } = h.grant
  return Object.freeze({
    id: h.id, backend: h.backend.name, scope: h.scope, acquiredAt: h.acquiredAt, ttlExpiresAt: h.grant.expiresAt, reach: h.backend.reach, ...(token !== undefined && { token }),
  })
}

/** The error of withProjectLock for a lease that was lost before the function returned. */
function lostError(lost: unknown, error?: unknown): LockError {
  const e = lost instanceof LockError ? lost : new LockError('lock-renewal-failed', true, lost)
  if (error !== undefined && error !== lost && error !== e) return new LockError(e.code, e.retryable, new AggregateError([lost, error], String((lost as Error).message)))
  return e
}

/** Why an attempt is repeated, and whether another one would fail in the same way. */
function judge(e: unknown, backend: string): ['contended' | 'unavailable' | 'transient-error', boolean] {
  // NoModificationAllowedError: another tab writes the file just now.
  if (e instanceof Held || named(e, 'NoModificationAllowedError', 'TimeoutError')) return ['contended', false]
  if (e instanceof LockError && e.code === 'lock-timeout') return [backend === 'web' ? 'contended' : 'unavailable', false]
  if (e instanceof Permanent || e instanceof Refused || named(e, 'NotAllowedError', 'SecurityError', 'TypeMismatchError')) return ['unavailable', true]
  if (named(e, 'NotFoundError', 'NoResponseError', 'InvalidResponseError', 'UnavailableError', 'DeadlineExceededError', 'OverloadedError')) return ['unavailable', false]
  return ['transient-error', false]
}

function policy(retry: Partial<RetryPolicyConfig> = {}): RetryPolicyConfig {
  checkObject('retry', retry)
  const p = { ...defaults }
  for (const [k, v] of Object.entries(retry) as [keyof RetryPolicyConfig, number | undefined][]) {
    if (!Object.hasOwn(defaults, k)) throw invalid(`retry.${k}`, `is unknown: there are ${Object.keys(defaults).join(', ')}`)
    if (v === undefined) continue
    const least = k === 'multiplier' || k === 'maxAttempts' ? 1 : 0
    if (typeof v !== 'number' || !(v >= least) || v === Infinity || (k === 'maxAttempts' && !Number.isInteger(v))) {
      throw invalid(`retry.${k}`, `is ${String(v)}: must be a ${k === 'maxAttempts' ? 'whole' : 'finite'} number of ${least} or more`)
    }
    Object.assign(p, { [k]: v })
  }
  return p
}

/** The wait after an attempt that failed; attempts count from 1. */
const delay = (p: RetryPolicyConfig, attempt: number): number => Math.min(p.maxDelayMs, Math.round(p.initialDelayMs * p.multiplier ** (attempt - 1)))

function prefix(name = 'imgponic:project'): string {
  checkText('name', name, 240)
  if (name.startsWith('-')) throw invalid('name', 'must not begin with "-": browsers keep such names of Web Locks for themselves')
  return name
}

/** Makes a project lock of its own: another name or folder, or a Leasehold server instead of the browser. */
export function createProjectLock(config: ServiceLockConfig): ProjectLock<'service'>
export function createProjectLock(config?: ProjectLockConfig): ProjectLock
export function createProjectLock(config: ProjectLockConfig | ServiceLockConfig = {}): ProjectLock | ProjectLock<'service'> {
  checkObject('config', config)
  if ('service' in config) {
    checkObject('service', config.service)
    const service = new ServiceLock(config, prefix(config.name))
    return new Project<'service'>(service.clock, service)
  }
  if (config.directory !== undefined) checkFunction('directory', config.directory)
  if (config.locks) checkFunction('locks.request', config.locks.request)
  const clock = config.clock ?? systemClock
  return new Project<LockBackend>(clock, new WebLocks(config, clock, prefix(config.name)), new FileLock(config, clock))
}

let shared: ProjectLock | undefined
const project = (): ProjectLock => (shared ??= createProjectLock())

/** Takes the lock. An attempt that fails is repeated after 500, 1000, 2000 and 4000 ms; then the error is `lock-unavailable`, not retryable. */
export async function acquireProjectLock(options?: AcquireLockOptions): Promise<ProjectLockLease> {
  return project().acquireProjectLock(options)
}

/** Moves the end of a lease of the file to 30 s from now, and returns the lease as it is then. Call it every 20 s. With Web Locks it does nothing. */
export async function renewProjectLock(lease: ProjectLockLease): Promise<ProjectLockLease> {
  return project().renewProjectLock(lease)
}

/** Frees the lock. */
export async function releaseProjectLock(lease: ProjectLockLease): Promise<void> {
  return project().releaseProjectLock(lease)
}

/** Takes the lock, calls the function, and frees the lock, also if the function fails. It renews every 20 s. `signal` is aborted if the lease is lost. */
export async function withProjectLock<T>(fn: (lease: ProjectLockLease, signal: AbortSignal) => Promise<T>, options?: AcquireLockOptions): Promise<T> {
  return project().withProjectLock(fn, options)
}

/** Calls the listener with every event of this module's lock, until the result is called. */
export function subscribeLockEvents(listener: LockEventListener): () => void {
  return project().subscribeLockEvents(listener)
}
