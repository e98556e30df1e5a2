/**
 * One leader among the processes that campaign for a key. Leading is holding the lock of that key, and the term is its fencing token.
 *
 * @packageDocumentation
 */
/// <reference lib="esnext.disposable" preserve="true" />
import { checkFunction, checkObject, invalid } from './check.js'
import { LockDelayedError, LockHeldError, LockQueueFullError, NotFoundError } from './codes.gen.js'
import { ClosedError, LockLostError } from './fault.js'
import { isFinal, retryAfter } from './judge.js'
import type { Lock, LockOptions, Locks } from './locks.js'
import type { AbortSignal } from './platform.js'
import { Scope, backoff, pause } from './time.js'

/** Settings of an {@link Election}: those of its lock. With `maxHold` a leader steps down after so long, and another may be elected. */
export type ElectionOptions = Omit<LockOptions, 'ifAvailable' | 'mode' | 'permits' | 'signal'>

/** What ends a call. */
export interface Ending {
  /** Ends it with the signal's reason; of a leader it aborts `leader.signal`, too. */
  readonly signal?: AbortSignal | undefined
}

/** The leadership of this process, until it resigns or its signal is aborted. */
export class Leader {
  readonly #lock: Lock

  /** @internal */
  constructor(lock: Lock) {
    this.#lock = lock
  }

  /** The term: the fencing token, higher than that of every earlier leader. Pass it on to whatever the leader writes to. */
  get token(): number {
    return this.#lock.token
  }

  /** What the term is a token of, for fences: see {@link Lock.subject}. */
  get subject(): string {
    return this.#lock.subject
  }

  /** Is aborted before another can be elected: see {@link Lock.signal}. */
  get signal(): AbortSignal {
    return this.#lock.signal
  }

  /** Whether this process still leads, by its clocks. Nothing is sent. */
  get leads(): boolean {
    return this.#lock.owned
  }

  /** Throws the reason of the signal if this process leads no more. It sends nothing. */
  check(): void {
    this.#lock.check()
  }

  /** Ends the leadership, so that another can be elected at once. It may be called again. Errors are those of {@link Lock.release}. */
  resign(): Promise<void> {
    return this.#lock.release()
  }

  /** {@link resign}, without its errors. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.resign().catch(() => undefined)
  }
}

/** Who leads, as the server knows it. */
export interface Leadership {
  /** Of the leader's client, as {@link Locks.owner}; where the server authenticates after the subject of its token. */
  readonly owner: string
  /** Names this one leadership. */
  readonly leaseId: string
  /** By the server's clock. */
  readonly since: Date
  /** The leader's. */
  readonly metadata: Readonly<Record<string, string>>
}

/** What an observer is told. */
export interface Observation {
  /** Who leads; null if no one does, undefined while that is not known. */
  readonly leader: Leadership | null | undefined
  /** Why it is not known. */
  readonly error?: unknown
}

const firstWait = 1000 // before a campaign that failed is begun again; it doubles with each
const mostWait = 10_000
const leastWait = 100
const leastLook = 1000 // between two looks
const mostLook = 10_000

/** One leadership. */
export class Election {
  readonly #locks: Locks
  readonly #key: string
  readonly #o: ElectionOptions

  /** Makes an election; nothing is sent. */
  constructor(locks: Locks, key: string, options: ElectionOptions = {}) {
    checkObject('locks', locks?.inner)
    checkObject('options', options)
    for (const o of ['ifAvailable', 'mode', 'permits', 'signal']) if (o in options) throw invalid(o, 'is not of an election: it has one leader')
    locks.check(key, options)
    this.#locks = locks
    this.#key = key
    this.#o = options
  }

  /** Waits until this process is elected. Errors are those of {@link Locks.acquire}. */
  async campaign({ signal }: Ending = {}): Promise<Leader> {
    return new Leader(await this.#locks.acquire(this.#key, { ...this.#o, signal, ifAvailable: false }))
  }

  /**
   * Campaigns, and runs the work each time that this process is elected. It resigns when the work has ended. If the leadership was lost by then, it campaigns again,
   * whatever the work came to; otherwise it has the result of the work, which must end when `leader.signal` is aborted.
   *
   * While the server does not respond it goes on. It ends with the reason of the signal, with a {@link LockHeldError} after `wait`, or with an error that would come
   * again.
   */
  async lead<T>(work: (leader: Leader) => T | Promise<T>, { signal }: Ending = {}): Promise<T> {
    checkFunction('work', work)
    const { server: { clock }, closed } = this.#locks.inner
    const scope = new Scope(signal, closed)
    try {
      for (let failed = 0; ; ) {
        let led: Lock | undefined
        let own: unknown // of the work: it may tell of the loss of another lock
        try {
          return await this.#locks.request(this.#key, { ...this.#o, signal, ifAvailable: false }, async (lock) => {
            led = lock
            try {
              return await work(new Leader(lock))
            } catch (e) {
              own = e
              throw e
            }
          })
        } catch (error) {
          if (scope.signal.aborted) throw error
          const lock = led as Lock | undefined
          if (lock) {
            if (!(lock.signal.reason instanceof LockLostError || (error instanceof LockLostError && error !== own))) throw error
            failed = 0 // it campaigns again at once: the others have waited, too
            continue
          }
          if (isFinal(error) || isHeld(error)) throw error
          if (!(await pause(clock, Math.max(backoff(failed++, firstWait, mostWait, leastWait), retryAfter(error)), scope.signal))) throw scope.signal.reason
        }
      }
    } finally {
      scope.end()
    }
  }

  /** Reads who leads now; null is no one. */
  async leader(ending: Ending = {}): Promise<Leadership | null> {
    return (await this.#look(ending)).leader
  }

  async #look({ signal }: Ending): Promise<{ leader: Leadership | null; ttl: number }> {
    try {
      const l = await this.#locks.get(this.#key, { signal })
      if (l.state === 'ACTIVE') return { leader: { owner: l.owner_id, leaseId: l.lease_id, since: new Date(l.acquired_at), metadata: l.metadata }, ttl: l.ttl_seconds * 1000 }
    } catch (e) {
      if (!(e instanceof NotFoundError)) throw e
    }
    return { leader: null, ttl: 0 }
  }

  /**
   * Says who leads, at first and after each change, until the loop is left or the signal is aborted, with whose reason it ends. It asks every third of the leader's
   * ttl, but not more often than each second and not more seldom than each ten; a leadership that is shorter can be missed. An error is told once, until there is a
   * response again: who leads is not known meanwhile.
   */
  async *observe({ signal }: Ending = {}): AsyncGenerator<Observation, never, void> {
    const { server: { clock }, closed } = this.#locks.inner
    const scope = new Scope(signal, closed)
    try {
      let seen: string | undefined // the lease of the leader that was told last, empty without one; undefined if it is not known
      for (let failed = 0; ; ) {
        scope.signal.throwIfAborted()
        let after: number
        try {
          const { leader, ttl } = await this.#look({ signal: scope.signal })
          failed = 0
          const now = leader?.leaseId ?? ''
          if (now !== seen) yield { leader }
          seen = now
          after = Math.min(Math.max(ttl / 3, leastLook), mostLook)
        } catch (error) {
          scope.signal.throwIfAborted()
          if (failed === 0) yield { leader: undefined, error }
          seen = undefined
          after = Math.max(backoff(failed++, firstWait, mostWait, leastWait), retryAfter(error))
        }
        await pause(clock, after, scope.signal)
      }
    } finally {
      scope.end()
    }
  }
}

const isHeld = (e: unknown): boolean => e instanceof LockHeldError || e instanceof LockDelayedError || e instanceof LockQueueFullError || e instanceof ClosedError
