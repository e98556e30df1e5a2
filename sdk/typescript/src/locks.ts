/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Locks that are held while work runs.
 *
 * @module
 */
import { checkFunction, checkLabels, checkNumber, checkObject, checkText, invalid } from './check.js'
import { LeaseChangedError, LeaseExpiredError, LockDelayedError, LockHeldError, LockQueueFullError, NotFoundError, OverloadedError, RequestIdReusedError, apiError } from './codes.gen.js'
import { ApiError, ClosedError, NoResponseError, LockLostError, MaxHoldError, NotReleasedError, ReleasedError, isGone } from './fault.js'
import { Server, randomID, segment, type ServerOptions } from './http.js'
import { isFinal, isOver, isSettled, isUnsettled, messageOf, retryAfter } from './judge.js'
import { type AcquireRequest, bad, checkLease, checkReleased, count, text } from './lease.js'
import type { AbortSignal } from './platform.js'
import { Term, consulting } from './term.js'
import { type Clock, type Moment, Scope, add, backoff, callTime, elapsed, endOf, hasten, moment, patience, pause, pauseBefore, sleepUntil, tryTime, until } from './time.js'
import type { components } from './types.gen.js'

/** A lock, as every caller of its tenant may see it. */
export type LockState = components['schemas']['Lock']

/** Settings of {@link Locks}. */
export interface LocksOptions extends ServerOptions {
  /**
   * How long a lease lasts unless it is renewed, in milliseconds: whole seconds from 1000 to 86 400 000; 30 000 if left out. It is renewed every third of
   * it. After a crash others wait for as long at most.
   */
  readonly ttl?: number
  /**
   * For how long an acquire is sent again while no definite response arrives, and how much longer than its wait it lasts at most, in milliseconds. Left out they
   * are 10 000 and 5000, for one that does not wait 3000, but less than a second while nothing at the address has ever answered as a server does, and no
   * connection is made or another server answers: the address may be wrong. 0 is a single try. The first try has 2000 in any case.
   */
  readonly retryFor?: number
  /** Is called for each event, in their order. An error that it throws is dropped. */
  readonly observe?: (event: LockEvent) => void
}

/** What happened to a lock. */
export interface LockEvent {
  /**
   * `waiting`: for a lock; `error` is why, `after` when it is asked for again, in milliseconds. `acquired`. `taken`: a grant of a rate. `renewed`.
   * `renewal-failed`: and is to be tried again. `lost`: `error` is the reason of the signal. `released`. `release-failed`: the lease expires.
   * `abandoned`: an acquire that was given up; `error` is why what it may have obtained may still be held. `forgotten`: no one has the lock any more, so it is not
   * renewed; its lease is left to expire.
   */
  readonly type: 'waiting' | 'acquired' | 'taken' | 'renewed' | 'renewal-failed' | 'lost' | 'released' | 'release-failed' | 'abandoned' | 'forgotten'
  readonly key: string
  readonly token?: number
  readonly after?: number
  readonly error?: unknown
}

/** Waits without a bound, until the lock is had or the signal ends the wait. */
export const FOREVER = Infinity

/** How a lock is waited for. Times are in milliseconds. */
export interface WaitOptions {
  /** Ask once: if the lock cannot be had now, the result is null. */
  readonly ifAvailable?: boolean
  /** How long to wait for a lock that is held: {@link FOREVER} if left out, and not at all if 0. While no response says whether it is held, that lasts for `retryFor` longer at most. */
  readonly wait?: number
  /** Between two requests while the server does not wait itself, at most; 100 or more, 2000 if left out. */
  readonly poll?: number
  /** How many may wait in line, with this one: 1 to 100. If there are as many already the error is a LockQueueFullError. */
  readonly maxWaiting?: number
  /** Labels for people who look at the lock: 32 at most, with keys of 1 to 64 bytes and values of up to 512. */
  readonly metadata?: Readonly<Record<string, string>>
  /** Ends the wait with the signal's reason: nothing is held afterwards. Once the lock is held it aborts `lock.signal`, too. */
  readonly signal?: AbortSignal | undefined
}

/** Settings of one lock. */
export interface LockOptions extends WaitOptions {
  /** `shared` lets any number hold the lock at a time, but none beside an exclusive one. `exclusive` if left out. */
  readonly mode?: 'exclusive' | 'shared'
  /** Lets so many hold the lock at a time, 1 to 100; all who ask must say the same. Not with `mode`. */
  readonly permits?: number
  /** As in {@link LocksOptions}. */
  readonly ttl?: number
  /** Wait in line: first come, first served. Locks that are shared or have permits always have a line. */
  readonly fair?: boolean
  /** Take the lock from its holder, if that one asked for `replace` as well. That one learns of it when it renews. */
  readonly replace?: boolean
  /** How long the lock stays closed if the lease expires or is ended by force: whole seconds up to 3 600 000. */
  readonly lockDelay?: number
  /** How long the lock is held at most. Then `lock.signal` is aborted with a {@link MaxHoldError}. */
  readonly maxHold?: number
  /** How long before the lease's end `lock.signal` is aborted; less than half of ttl, a tenth of it if left out. */
  readonly margin?: number
}

/** How a lock is read. */
export interface QueryOptions {
  /** Ends it with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** Which locks are read. */
export interface ListOptions extends QueryOptions {
  /** What their keys begin with. */
  readonly prefix?: string
}

/** How often something may be done: in any `window` of so many milliseconds, `limit` times at most. */
export interface Rate {
  /** 1 to 1000. */
  readonly limit: number
  /** Whole seconds, 1000 to 86 400 000. */
  readonly window: number
}

// Times of requests, in milliseconds.
const waitTime = 20_000 // for which one request asks the server to wait, at most
const atOnceTime = 3_000 // within which a caller that does not wait learns that no response arrives
const placedPause = 2_000 // between two requests of one that waits in line
const lastLook = 500 // before the end of a wait that a pause would outlast, when the request is sent again
const numbers = [['permits', 1, 100, 1], ['maxWaiting', 1, 100, 1], ['lockDelay', 0, 3_600_000, 1000], ['wait', 0, FOREVER, 0], ['maxHold', 1, FOREVER, 0]] as const
const choices = [['ifAvailable', true, false], ['fair', true, false], ['replace', true, false], ['mode', 'exclusive', 'shared']] as const
const fewPolls = 5 // requests without a wait when the server has no room for those who wait

/** A lease as the rules below need it, of one lock or of several. */
export interface Granted {
  readonly token: number
  readonly tokens: ReadonlyMap<string, number>
  readonly permit: number
  readonly expiresAt: string
  readonly remaining: number
  readonly waited: number
}

/** What is asked for: one lock, or several. */
export interface Subject {
  readonly name: string
  /** Whether the server waits for it. */
  readonly waits: boolean
  /** It ends at the latest in `left` milliseconds. */
  acquire(r: AcquireRequest, timeout: number, signal: AbortSignal, left: number): Promise<Granted>
  /** As {@link Server.giveUp}. */
  giveUp(r: AcquireRequest): Promise<unknown>
  renew(of: Granted, r: { request_id: string; ttl_seconds: number; expires_at: string }, request: AcquireRequest, timeout: number, signal?: AbortSignal): Promise<Granted>
  release(of: Granted, requestID: string, timeout: number): Promise<void>
}

/** Settings with their defaults. */
interface Settings {
  readonly ttl: number
  readonly margin: number
  readonly poll: number
  readonly retryFor: number
  readonly o: LockOptions
}

/** What is built on locks needs of them. */
interface Inner {
  readonly server: Server
  readonly closed: AbortSignal
  acquire(subject: Subject, options: LockOptions): Promise<Lock | null>
  run<T>(acquire: () => Promise<Lock | null>, work: (lock: Lock) => T | Promise<T>): Promise<T>
}

/** Locks of one tenant. Its methods may be called while others are under way. */
export class Locks {
  readonly #server: Server
  readonly #o: LocksOptions
  readonly #closed = new Scope()
  readonly #held = new Set<Keeper>()
  /** What goes on in the background. */
  readonly #underway = new Set<Promise<unknown>>()

  /** Makes a client; nothing is sent. An option that cannot work is an InvalidSettingError that names it. */
  constructor(options: LocksOptions) {
    this.#server = new Server(options)
    this.#o = options
    this.#settings({})
    if (options.observe) checkFunction('observe', options.observe)
  }

  /** @internal For what is built on locks. */
  get inner(): Inner {
    return { server: this.#server, closed: this.#closed.signal, acquire: (subject, o) => this.#acquire(subject, o), run: (acquire, work) => this.#run(acquire, work) }
  }

  /** @internal Checks what a lock is to be acquired with. */
  check(key: string, options: LockOptions): void {
    this.#path(key)
    this.#settings(options)
  }

  /** Under which name the client holds locks, as it tells the server. */
  get owner(): string {
    return this.#server.owner
  }

  /**
   * Runs the work while it holds the lock: waits for the lock, renews it until the work is settled, and releases it. It has the result of the work.
   *
   * `lock.signal` is aborted if the lock is lost, and then the result is a {@link LockLostError}, also if the work succeeded: it was not protected until its
   * end. Its `workError` is the work's own error, if that is another one. A release that fails is no error: an event says so, and the lease expires.
   */
  request<T>(key: string, work: (lock: Lock) => T | Promise<T>): Promise<T>
  request<T>(key: string, options: LockOptions & { readonly ifAvailable: true }, work: (lock: Lock | null) => T | Promise<T>): Promise<T>
  request<T>(key: string, options: LockOptions & { readonly ifAvailable?: false }, work: (lock: Lock) => T | Promise<T>): Promise<T>
  request<T>(key: string, options: LockOptions, work: (lock: Lock | null) => T | Promise<T>): Promise<T>
  request<T>(key: string, options: LockOptions | ((lock: Lock) => T | Promise<T>), work?: (lock: never) => T | Promise<T>): Promise<T> {
    if (typeof options === 'function') return this.request(key, {}, options)
    return this.#run(() => this.#acquire(this.#one(key), options), work as (lock: Lock | null) => T)
  }

  /**
   * Acquires a lock, and waits for it if it is held. It is renewed until it is released, or until `signal` is aborted: then it is held until its lease
   * expires, so that the work can stop and release it. With `ifAvailable` the result is null if the lock cannot be had now.
   */
  acquire(key: string, options?: LockOptions & { readonly ifAvailable?: false }): Promise<Lock>
  acquire(key: string, options: LockOptions): Promise<Lock | null>
  async acquire(key: string, options: LockOptions = {}): Promise<Lock | null> {
    return this.#acquire(this.#one(key), options)
  }

  /**
   * Waits until what a key names may be done once more, at the given rate, by all who take from the key together. The result is the grant's token, higher than
   * that of every earlier one; null if `ifAvailable` and it may not be done now. A grant is not held: it is used up when it is given.
   */
  async take(key: string, rate: Rate, options: WaitOptions = {}): Promise<number | null> {
    checkNumber('limit', rate?.limit, 1, 1000, 1)
    checkNumber('window', rate.window, 1000, 86_400_000, 1000)
    const s = this.#settings({ ...options, ttl: 30_000 })
    const { ttl_seconds: _, ...rest } = this.#body(s)
    const got = await this.#ask(this.#one(key), { ...rest, mode: 'rate', limit: rate.limit, window_seconds: rate.window / 1000 }, s, true)
    if (got) this.#emit({ type: 'taken', key, token: got.granted.token })
    return got && got.granted.token
  }

  /** Reads a lock: who holds it. A {@link NotFoundError} means that there is no record of it. */
  async get(key: string, { signal }: QueryOptions = {}): Promise<LockState> {
    const got = await this.#get(this.#path(key), signal)
    text(got['lock_key'], 'lock_key', key)
    return got as unknown as LockState
  }

  /** Reads whether anyone holds a lock. That is so when the server looks; only who holds the lock can rely on it. */
  async locked(key: string, options?: QueryOptions): Promise<boolean> {
    try {
      return (await this.get(key, options)).state === 'ACTIVE'
    } catch (e) {
      if (e instanceof NotFoundError) return false
      throw e
    }
  }

  /** Reads the locks whose keys begin with a prefix, all if it is left out, by the order of their bytes, page by page as the loop goes on. */
  async *list({ prefix, signal }: ListOptions = {}): AsyncGenerator<LockState, void, void> {
    if (prefix) checkText('prefix', prefix, 256)
    const query = new URLSearchParams(prefix && { prefix })
    for (let next: unknown = ''; next !== undefined; query.set('page_token', next as string)) {
      const { locks, ...got } = await this.#get(`${this.#server.root}/locks?${String(query)}`, signal)
      if (!Array.isArray(locks)) bad('it has no locks')
      for (const l of locks as LockState[]) {
        text(l?.lock_key, 'lock_key')
        yield l
      }
      next = got['next_page_token']
    }
  }

  async #get(path: string, signal?: AbortSignal) {
    const scope = new Scope(signal, this.#closed.signal)
    try {
      return await this.#server.send('GET', path, undefined, callTime, scope.signal)
    } finally {
      scope.end()
    }
  }

  /**
   * Ends the client: it acquires nothing more, and the signals of the locks that it holds are aborted with a {@link ClosedError}. Locks that were acquired with
   * {@link acquire} are released; those of {@link request} when their work has ended. It waits for 5 seconds at most.
   */
  async close(): Promise<void> {
    const reason = new ClosedError('the client is closed')
    this.#closed.abort(reason)
    for (const l of this.#held) l.close(reason)
    const all = async () => {
      while (this.#underway.size > 0) await Promise.allSettled(this.#underway)
    }
    await patience(this.#server.clock, all(), callTime, undefined, () => undefined)
  }

  /** Closes the client. */
  async [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #run<T>(acquire: () => Promise<Lock | null>, work: (lock: Lock) => T | Promise<T>): Promise<T> {
    checkFunction('work', work)
    const lock = await acquire()
    if (!lock) return work(null as never) // as with navigator.locks
    return this.#background(lock.run(work))
  }

  #background<T>(work: Promise<T>): Promise<T> {
    const tracked = work.then(() => undefined, () => undefined)
    this.#underway.add(tracked)
    void tracked.then(() => this.#underway.delete(tracked))
    return work
  }

  #emit(event: LockEvent): void {
    try {
      this.#o.observe?.(event)
    } catch {
      // an observer disturbs no lock
    }
  }

  #path(key: string): string {
    return `${this.#server.root}/locks/${segment('key', key, 256)}`
  }

  #post(path: string, body: object, timeout: number, signal?: AbortSignal) {
    return this.#server.send('POST', path, { owner_id: this.#server.owner, ...body }, timeout, signal)
  }

  #one(key: string): Subject {
    const path = this.#path(key)
    const read = (got: Record<string, unknown>, r: AcquireRequest, of?: number): Granted => {
      const l = checkLease(got, this.#server, key, r, of)
      return {
        token: l.fencing_token, tokens: new Map([[key, l.fencing_token]]), permit: l.permit ?? 0, expiresAt: l.expires_at, remaining: l.remaining_ms,
        waited: r.wait_seconds ? count(l.waited_ms ?? 0, 'waited_ms') : 0,
      }
    }
    return {
      name: key,
      waits: true,
      acquire: async (r, timeout, signal, left) => read(await this.#server.ask(`${path}/acquire`, r, timeout, signal, left), r),
      giveUp: (r) => this.#server.giveUp(`${path}/acquire`, r),
      renew: async (of, r, request, timeout, signal) => {
        const got = read(await this.#post(`${path}/renew`, { ...r, fencing_token: of.token }, timeout, signal), { ...request, wait_seconds: 0 }, of.token)
        return got.permit === of.permit ? got : bad(`it has the permit ${got.permit}, not ${of.permit}`)
      },
      release: async (of, id, timeout) => {
        const got = await this.#post(`${path}/release`, { request_id: id, fencing_token: of.token }, timeout)
        checkReleased(got, this.#server, key, of.token)
      },
    }
  }

  /** Checks the options. */
  #settings(o: LockOptions): Settings {
    checkObject('options', o)
    const ttl = checkNumber('ttl', o.ttl ?? this.#o.ttl ?? 30_000, 1000, 86_400_000, 1000)
    for (const [name, least, most, unit] of numbers) if (o[name] !== undefined) checkNumber(name, o[name], least, most, unit)
    for (const [name, one, other] of choices) if (o[name] !== undefined && o[name] !== one && o[name] !== other) throw invalid(name, `must be ${one} or ${other}`)
    if (o.permits && o.mode) throw invalid('permits', 'and mode exclude each other')
    if (o.replace && (o.permits || o.mode === 'shared')) throw invalid('replace', 'is for one holder')
    const margin = checkNumber('margin', o.margin ?? ttl / 10, 0, ttl / 2 - 1)
    return { ttl, margin, poll: checkNumber('poll', o.poll ?? 2000, 100, Infinity), retryFor: checkNumber('retryFor', this.#o.retryFor ?? 2 * callTime, 0, Infinity), o }
  }

  /** The acquire that asks for the lock. */
  #body({ o, ttl }: Settings): AcquireRequest {
    checkLabels('metadata', o.metadata)
    return {
      owner_id: this.#server.owner, request_id: randomID(), ttl_seconds: ttl / 1000, ...(o.metadata && { metadata: o.metadata }), ...(o.fair && { fair: true }),
      ...(o.maxWaiting && { max_waiting: o.maxWaiting }), ...(o.replace && { replace: true }), ...(o.lockDelay && { lock_delay_seconds: o.lockDelay / 1000 }),
      ...(o.mode === 'shared' && { mode: 'shared' }), ...(o.permits && { mode: 'permits', limit: o.permits }),
    }
  }

  async #acquire(subject: Subject, o: LockOptions): Promise<Lock | null> {
    const s = this.#settings(o)
    const got = await this.#ask(subject, this.#body(s), s)
    if (!got) return null
    const keeper: Keeper = new Keeper(subject, got.granted, got.asked, got.request, s, {
      clock: this.#server.clock,
      emit: (e) => this.#emit(e),
      over: () => this.#held.delete(keeper),
      background: (work) => void this.#background(work),
    })
    this.#held.add(keeper)
    this.#emit({ type: 'acquired', key: subject.name, token: got.granted.token })
    return new Lock(keeper)
  }

  /** Asks for a lock until it is granted, waiting ends, or there is nothing to wait for. All tries have one request_id. */
  async #ask(subject: Subject, request: AcquireRequest, s: Settings, grant = false): Promise<{ asked: Moment; granted: Granted; request: AcquireRequest } | null> {
    const clock = this.#server.clock
    const { o } = s
    const calling = new Scope(o.signal, this.#closed.signal)
    const late = new NoResponseError('no response in time')
    const { wait: longest = FOREVER } = o
    const most = o.ifAvailable ? 0 : longest
    if (most < Infinity) {
      const beyond = this.#o.retryFor === undefined ? (most > 0 ? callTime : atOnceTime) : Math.max(tryTime(0), this.#o.retryFor)
      calling.within(clock, most + beyond, () => late)
    }
    const waiting = new Scope(calling.signal)
    waiting.within(clock, longest, () => undefined)
    const deadline = add(moment(clock), longest)
    const lines = o.fair || grant || request.mode === 'shared' || request.mode === 'permits'
    let open = false // a try may have been carried out, or may still be
    let placed = false // it may have a place in line
    let last: unknown // the error of the latest try that was not cut off

    const isHeld = (e: unknown) =>
      e instanceof LockHeldError || e instanceof LockDelayedError || (e instanceof LockQueueFullError && o.maxWaiting === undefined)
    // For how long the server is asked to wait: whole seconds, and not much longer than the caller does.
    const room = () => Math.max(0, Math.min(waitTime, Math.ceil(until(clock, deadline) / 1000) * 1000))
    // How long to wait for a lock that is held: its lease may be renewed, or end earlier.
    const poll = (holder: number) => {
      const most = Math.min(s.poll * (0.5 + Math.random() / 2), placed ? placedPause : Infinity)
      return holder > 0 ? Math.min(most, Math.max(holder, 50) + Math.random() * 100) : most
    }
    const attempt = async (wait: number, each: number, within: Scope) => {
      const { signal } = within
      const r = { ...request, ...(wait > 0 && { wait_seconds: wait / 1000 }) }
      let asked = moment(clock)
      const began = asked
      try {
        const granted = await subject.acquire(r, each + wait, signal, within.left(clock))
        asked = add(asked, Math.min(granted.waited, elapsed(clock, asked)))
        placed = false
        if (!grant && until(clock, endOf(asked, Math.min(granted.remaining, s.ttl))) - s.margin <= 0) {
          this.#discard(subject, granted, asked, s)
          throw apiError({
            code: 'LEASE_EXPIRED', status: 409, detail: `the lease is about to end: use a ttl above ${s.ttl} ms`,
          })
        }
        return { asked, granted, request: r, took: 0 }
      } catch (error) {
        const unsettled = signal.aborted || isUnsettled(error)
        open = unsettled || (open && !isOver(error)) // that the lock is held does not say that an earlier try comes no more
        if (!signal.aborted && isSettled(error)) {
          placed = wait > 0 && isHeld(error) && !(error instanceof LockQueueFullError) && (lines || (error as ApiError).position !== undefined)
        } else if (unsettled) placed ||= wait > 0 && lines
        return { asked, request: r, took: elapsed(clock, began), error }
      }
    }

    try {
      let failed = 0 // tries without a definite response, one after the other
      let polls = 0 // tries that are not to wait
      let unmet = 0
      let wait = 0 // of the next try
      let since = moment(clock) // when there was no definite response for the first time
      let answered = false // the server has said that the lock is held: before that its wait has not begun
      for (;;) {
        let within = answered ? waiting : calling
        within.signal.throwIfAborted()
        const each = failed > 0 ? Math.max(lastLook, Math.min(tryTime(failed), s.retryFor + until(clock, since))) : tryTime(0)
        const t = await attempt(wait, Math.min(each, s.ttl), within)
        if (t.granted) {
          if (!calling.signal.aborted) return { asked: t.asked, granted: t.granted, request: t.request }
          if (!grant) this.#discard(subject, t.granted, t.asked, s)
          open = placed = false
          throw calling.signal.reason
        }
        if (within.signal.aborted) throw t.error
        const before = last
        last = t.error
        answered ||= isHeld(t.error)
        within = answered ? waiting : calling
        within.signal.throwIfAborted()
        const hint = retryAfter(t.error)
        let after = Math.max(backoff(failed, 200, 5000, 10), hint)
        if (isHeld(t.error)) {
          if (most === 0) throw t.error
          if (t.error instanceof LockQueueFullError) polls = fewPolls
          const again = Number((t.error as ApiError).problem.poll_after_ms) // of a server that holds no response for so long
          // Without a pause, unless the server does not wait as it is asked to. A pause that the server asks for ends before the wait does, so that what
          // the lock's line has granted by then is not missed.
          after = again > 0 ? Math.min(again, Math.max(600, until(clock, deadline) - lastLook)) : polls > 0 || !subject.waits || room() === 0 || (wait > 0 && t.took < wait / 2) ? poll(hint) : 0
          this.#emit({ type: 'waiting', key: subject.name, after, error: t.error })
          if (after > 0 && !(await pause(clock, after, waiting.signal))) throw t.error
          failed = 0
          since = moment(clock)
          wait = subject.waits && polls === 0 ? room() : 0
          if (polls > 0) polls--
          continue
        }
        if (t.error instanceof RequestIdReusedError || t.error instanceof LeaseExpiredError) {
          request = { ...request, request_id: randomID() } // what it obtained has ended
          // The caller knows of no request_id, but may ask why there was no answer.
          if (failed++ && t.error instanceof RequestIdReusedError) last = before
        } else if (isFinal(t.error) || t.error instanceof LockQueueFullError || (!this.#o.retryFor && this.#server.unmet(t.error) && ++unmet > 2)) {
          throw t.error
        } else {
          if (!failed++ && wait > 0) since = moment(clock) // there was none to expect before
          if (t.error instanceof OverloadedError && wait > 0) polls = fewPolls
        }
        if (failed > 0) {
          const left = Math.min(s.retryFor + until(clock, since), within.left(clock))
          if (left <= 0 || hint > left) throw last
          after = Math.min(after, left)
        }
        wait = placed && (polls === 0 || failed < 3) ? Math.min(1000, room()) : 0 // otherwise the place is given up
        this.#emit({ type: 'waiting', key: subject.name, after, error: t.error })
        if (!(await pause(clock, after, within.signal))) throw t.error
      }
    } catch (error) {
      if (placed || open) this.#abandon(subject, request)
      if (calling.signal.aborted) throw calling.signal.reason === late ? (last ?? late) : calling.signal.reason
      const e = waiting.signal.aborted ? last : error
      if (o.ifAvailable && isHeld(e)) return null
      throw e
    } finally {
      waiting.end()
      calling.end()
    }
  }

  /** Releases in the background a lease that no one wants. */
  #discard(subject: Subject, granted: Granted, asked: Moment, s: Settings): void {
    const { clock } = this.#server
    const left = until(clock, endOf(asked, Math.min(granted.remaining, s.ttl)))
    if (left <= 0) return
    const scope = new Scope().within(clock, left, () => undefined)
    const id = randomID()
    const release = async () => {
      for (let retry = 0; ; retry++) {
        const error: unknown = await subject.release(granted, id, tryTime(retry)).catch((e: unknown) => (isGone(e) ? undefined : e))
        if (error !== undefined && !isFinal(error) && (await pauseBefore(clock, retry, retryAfter(error), scope))) continue
        scope.end()
        return this.#emit({ type: 'abandoned', key: subject.name, token: granted.token, ...(error !== undefined && { error }) })
      }
    }
    void this.#background(release())
  }

  /** Gives up a request in the background: what it may have obtained ends, its place in line too, and no delivery of it that comes late obtains anything. */
  #abandon(subject: Subject, request: AcquireRequest): void {
    const work = subject.giveUp(request).then((error) => this.#emit({ type: 'abandoned', key: subject.name, ...(error !== undefined && { error }) }))
    void this.#background(work)
  }
}

/** What a lock needs of its client. */
interface Host {
  readonly clock: Clock
  emit(event: LockEvent): void
  over(): void
  background(work: Promise<unknown>): void
}

/** Locks that no one has any more: neither the handle, nor its signal. */
const forgotten = globalThis.FinalizationRegistry && new FinalizationRegistry<Keeper>((keeper) => keeper.forget())

/**
 * A lock that is held, until {@link release} or until its signal is aborted. Several locks that are held together are one as well. One that the program has
 * neither released nor kept, nor its signal, is not renewed any more once the garbage collector has found it.
 */
export class Lock {
  /** Its key; with several locks all of them, separated by ", ". */
  readonly key: string
  /** The fencing token: higher than that of every earlier holder, and at most 2^53. Pass it on to whatever the work writes to. With several locks that of the first. */
  readonly token: number
  /** What the token is one of, for fences: `lock/` and the key, with `#` and the permit if it has one. */
  readonly subject: string
  /** The tokens by key. */
  readonly tokens: ReadonlyMap<string, number>
  /** Which permit is held, from 1; 0 if the lock has none. */
  readonly permit: number
  /**
   * The signal of the work. It is aborted with a {@link LockLostError} so much before the lease's end as `margin` says, with a {@link ReleasedError} or
   * {@link ClosedError}, or with the reason of the caller's signal. `aborted` consults the clocks, so that it is right after a freeze before any timer fires.
   */
  readonly signal: AbortSignal
  readonly #keeper: Keeper

  /** @internal */
  constructor(keeper: Keeper) {
    const { granted, term } = keeper
    this.#keeper = keeper
    this.key = keeper.key
    this.token = granted.token
    this.tokens = granted.tokens
    this.permit = granted.permit
    const [first] = granted.tokens.keys()
    this.subject = `lock/${first}${this.permit ? `#${this.permit}` : ''}`
    // One of its own, which the keeper does not know: who has the signal has the lock, and no timer does.
    this.signal = consulting(globalThis.AbortSignal.any?.([term.signal]) ?? term.signal, () => this.#keeper.term.check())
    forgotten?.register(this, keeper, keeper)
  }

  /** Whether this lock still is its holder's, by its clocks. Nothing is sent. */
  get owned(): boolean {
    return !this.signal.aborted
  }

  /** After how many milliseconds the signal is aborted unless the lease is renewed; 0 if it is. */
  get remaining(): number {
    return this.signal.aborted ? 0 : Math.max(0, this.#keeper.term.left)
  }

  /** Throws the reason of the signal if the work must stop. It consults the clocks and sends nothing. */
  check(): void {
    this.signal.throwIfAborted()
  }

  /**
   * Aborts the signal and releases the lock. It returns when the lock is released, but at once if the signal was aborted before, and after 5 seconds at most: the
   * release then goes on in the background. One that fails is tried again until the lease ends. It may be called again.
   *
   * @throws NotReleasedError if the lock may still be held; LockLostError if it was lost before
   */
  release(): Promise<void> {
    return this.#keeper.release()
  }

  /** {@link release}, without its errors: the work is done. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => undefined)
  }

  /** @internal Runs work under the lock, and releases it. */
  run<T>(work: (lock: Lock) => T | Promise<T>): Promise<T> {
    return this.#keeper.run(this, work)
  }
}

/** What keeps a lock for its holder: it renews the lease and releases it. It does not refer to the {@link Lock}, unless its work is known. */
class Keeper {
  readonly key: string
  readonly granted: Granted
  readonly term: Term
  readonly #subject: Subject
  readonly #request: AcquireRequest
  readonly #s: Settings
  readonly #host: Host
  readonly #clock: Clock
  readonly #watching: Scope
  readonly #renewing: Scope
  readonly #caller: Scope
  readonly #most: Moment | undefined
  readonly #releaseID = randomID()
  #expiresAt: string
  #end: Moment
  #working: Lock | undefined
  #announced = false
  #releasing: Promise<void> | undefined

  constructor(subject: Subject, granted: Granted, asked: Moment, request: AcquireRequest, s: Settings, host: Host) {
    this.#subject = subject
    this.granted = granted
    this.#request = request
    this.#s = s
    this.#host = host
    this.#clock = host.clock
    this.key = subject.name
    this.#expiresAt = granted.expiresAt
    const lasts = Math.min(granted.remaining, s.ttl)
    this.#end = endOf(asked, lasts)
    this.#most = s.o.maxHold === undefined ? undefined : add(moment(this.#clock), s.o.maxHold)
    this.term = new Term(this.#clock, this.#served(), (trouble) => this.#expired(trouble))
    this.#watching = new Scope()
    this.#renewing = new Scope(this.#watching.signal)
    this.#caller = new Scope(s.o.signal)
    this.#caller.signal.addEventListener('abort', () => this.close(this.#caller.signal.reason))
    const look = () => {
      const lost = this.term.check()
      if (lost !== undefined) this.#announce(lost)
    }
    this.term.signal.addEventListener('abort', look)
    void this.term.watch(this.#watching.signal).then(look)
    void this.#renewals(this.#due(asked, lasts))
  }

  /** As {@link Lock.release}. */
  async release(): Promise<void> {
    const late = this.term.signal.aborted
    const lost = this.term.settle()
    this.term.cancel(new ReleasedError('the lock was released'))
    this.#renewing.abort(undefined)
    const left = until(this.#clock, this.#end)
    if (lost !== undefined && (isGone((lost as Error).cause) || left <= 0)) {
      this.#finish()
      if (this.granted.tokens.size > 1 && left > 0) this.#host.background(this.#release()) // the others of several locks
      throw lost
    }
    if (!this.#releasing) {
      this.#releasing = this.#release()
      this.#releasing.catch(() => undefined)
      this.#host.background(this.#releasing)
    }
    if (late && lost !== undefined) throw lost
    if (late) return
    await patience(this.#clock, this.#releasing, callTime, this.#s.o.signal, () => {
      throw new NotReleasedError(`lock ${this.key} was not released in time: it goes on in the background`)
    })
  }

  /** Runs work under the lock, and releases it. */
  async run<T>(lock: Lock, work: (lock: Lock) => T | Promise<T>): Promise<T> {
    this.#working = lock
    let result: T
    try {
      result = await work(lock)
    } catch (error) {
      const lost = this.term.check()
      await this.#done()
      if (lost instanceof LockLostError && error !== lost) {
        lost.workError = error
        throw lost
      }
      throw error
    }
    const lost = this.term.settle()
    await this.#done()
    if (lost !== undefined) throw lost
    return result
  }

  async #done(): Promise<void> {
    // The work is done: its result does not wait for a server that does not respond.
    await this.release().catch(() => undefined)
    this.#working = undefined
    this.#finish()
  }

  /** Aborts the signal; a lock without work that is known is not renewed any more. */
  close(reason: unknown): void {
    this.term.cancel(reason)
    if (this.#working) return
    this.#renewing.abort(reason)
    if (reason instanceof ClosedError) void this.release().catch(() => undefined)
  }

  /** Ends the renewals of a lock that no one has. Its signal is aborted all the same before the lease ends: others may follow it. */
  forget(): void {
    if (this.#renewing.signal.aborted || this.term.check() !== undefined) return
    this.#renewing.abort(undefined)
    this.#tell('forgotten')
  }

  #tell(type: LockEvent['type'], more?: { readonly error: unknown }): void {
    this.#host.emit({ type, key: this.key, token: this.granted.token, ...more })
  }

  #finish(): void {
    forgotten?.unregister(this)
    this.#watching.abort(undefined)
    this.#caller.end()
    this.#renewing.end()
    this.#host.over()
  }

  #announce(error: unknown): void {
    if (this.#announced) return
    this.#announced = true
    this.#tell('lost', { error })
    if (!this.#working) this.#finish()
  }

  /** When the signal is aborted. */
  #served(): Moment {
    const end = add(this.#end, -this.#s.margin)
    return this.#most && until(this.#clock, this.#most) < until(this.#clock, end) ? this.#most : end
  }

  #expired(trouble: unknown): LockLostError {
    if (this.#most && until(this.#clock, this.#most) <= 0 && until(this.#clock, this.#end) > this.#s.margin) {
      return new MaxHoldError(`lock ${this.key}: held for as long as maxHold allows`)
    }
    return new LockLostError(`lock ${this.key} was not renewed in time`, trouble === undefined ? undefined : { cause: trouble })
  }

  /** When a lease is to be renewed: when a third of its ttl is over. */
  #due(asked: Moment, lasts: number): Moment {
    return add(asked, lasts - (this.#s.ttl * 2) / 3)
  }

  /** Renews the lease until the lock is lost, or is to be released. */
  async #renewals(due: Moment): Promise<void> {
    const clock = this.#clock
    const { ttl, margin } = this.#s
    const { signal } = this.#renewing
    const soon = Math.min(1000, ttl / 24)
    let id = randomID()
    let open = false // a renewal since the latest one that succeeded may have been carried out
    for (let failed = 0; (await sleepUntil(clock, due, signal)) && this.term.check() === undefined; ) {
      if (this.#most && until(clock, this.#most) <= until(clock, this.#end) - margin) return // it lasts for as long as it may be held
      const asked = moment(clock)
      try {
        const timeout = Math.min(tryTime(failed), Math.max(this.term.left / 3, 10))
        const r = { request_id: id, ttl_seconds: ttl / 1000, expires_at: this.#expiresAt }
        const got = await this.#subject.renew(this.granted, r, this.#request, timeout, signal)
        const lasts = Math.min(got.remaining, ttl)
        this.#expiresAt = got.expiresAt
        if (this.term.check() !== undefined) return
        this.#end = endOf(asked, lasts)
        this.term.extend(this.#served())
        this.#tell('renewed')
        id = randomID()
        open = false
        failed = 0
        due = this.#due(asked, lasts)
        if (until(clock, due) < soon) due = add(moment(clock), soon)
      } catch (error) {
        if (signal.aborted) return
        if (open && error instanceof LeaseChangedError && error.expiresAt) {
          this.#expiresAt = error.expiresAt // by a renewal whose response was lost
          open = false
          continue
        }
        if (isGone(error)) return this.#lose(error)
        open ||= isUnsettled(error)
        this.term.failed(error)
        this.#tell('renewal-failed', { error })
        const hint = Math.min(retryAfter(error), this.term.left / 3)
        due = add(moment(clock), Math.max(hasten(backoff(failed, soon, Math.min(10_000, ttl / 6), soon / 2), this.term.left), hint))
        failed++
      }
    }
  }

  #lose(cause: unknown): void {
    this.term.lose(new LockLostError(`lock ${this.key} is lost: ${messageOf(cause)}`, { cause }))
    this.#watching.abort(undefined)
  }

  /** Releases the lock, or says why it could not until the lease ended. */
  async #release(): Promise<void> {
    const scope = new Scope().within(this.#clock, until(this.#clock, this.#end), () => undefined)
    try {
      for (let retry = 0, lasts = true; ; retry++) {
        const left = lasts ? until(this.#clock, this.#end) : 0 // the timer may be earlier, by a rounding
        let error: unknown
        try {
          if (left > 0) {
            await this.#subject.release(this.granted, this.#releaseID, Math.min(tryTime(retry), Math.max(left / 3, 10)))
            this.#tell('released')
            return
          }
          error = apiError({ code: 'LEASE_EXPIRED' })
        } catch (e) {
          error = e
        }
        if (isGone(error) && left > 0) {
          const lost = new LockLostError(`lock ${this.key} is lost: ${messageOf(error)}`, { cause: error })
          this.#announce(lost)
          throw lost
        }
        if (left <= 0 || isFinal(error)) {
          this.#tell('release-failed', { error })
          throw new NotReleasedError(`lock ${this.key} was not released`, { cause: error })
        }
        lasts = await pauseBefore(this.#clock, retry, retryAfter(error), scope)
      }
    } finally {
      scope.end()
      if (!this.#working) this.#finish()
    }
  }
}
