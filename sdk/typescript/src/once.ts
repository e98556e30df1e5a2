/**
 * Work that runs once: the first caller does it, all later ones get its result.
 *
 * @module
 */
import { checkFunction, checkNumber, checkObject, checkText, invalid } from './check.js'
import { AlreadyFinishedError, LeaseExpiredError, NotFoundError, RequestIdReusedError, RunDiffersError, apiError } from './codes.gen.js'
import { NoResponseError, LeaseholdError, LockLostError, isGone } from './fault.js'
import { Server, randomID, segment, type ServerOptions } from './http.js'
import { fingerprint } from './input.js'
import { isFinal, isOver, isUnsettled, messageOf, retryAfter } from './judge.js'
import { bad, count, owner, text, token } from './lease.js'
import type { AbortSignal } from './platform.js'
import { Term } from './term.js'
import { type Clock, type Moment, Scope, add, backoff, callTime, elapsed, endOf, graceTime, hasten, moment, patience, pause, pauseBefore, sleepUntil, tryTime, until } from './time.js'

export { fingerprint, key } from './input.js'

/** Settings of {@link Runs}. */
export interface RunsOptions extends ServerOptions {
  /** How long the record of a run is kept after the end of the run, in milliseconds: whole seconds from a minute to 3660 days. After that its ID is a new one. Left out, it is as other processes say, a day if none does. */
  readonly keep?: number
  /** The runs of analyses, whose documents a producer has made, instead of those of the tenant that callers name. They have no `keep`. */
  readonly analyses?: boolean
  /** Receives what does not fail a run: a failed release, a request that is tried again. */
  readonly onWarning?: (error: unknown) => void
}

/** Settings of one run. Times are in milliseconds. */
export interface RunOptions {
  /** How long the lock of the run lasts unless it is refreshed: whole seconds; 300 000 if left out. */
  readonly ttl?: number
  /** Between two refreshes; a fifth of ttl if left out. */
  readonly heartbeat?: number
  /** A run that fails when so many have failed, with it, is FAILED for good; 0, or left out, is no bound. */
  readonly maxFailures?: number
  /** How often it may be taken over from a worker that crashed or lost its lock; after that it is FAILED. 0: it is begun once, and never again after a crash. Left out, it is as the server says. Not of analyses. */
  readonly maxTakeovers?: number
  /** How long to wait for another worker that runs it; not at all if left out. */
  readonly wait?: number
  /**
   * How long to ask for the run while the server does not respond, whatever `wait` is, counted from the first try without a response. That one may take two seconds. Left out, it is 5000
   * beside `wait`.
   */
  readonly retryFor?: number
  /** Stops the run: its signal is aborted, and the lock is released. */
  readonly signal?: AbortSignal | undefined
  /**
   * Calls for the run at this object are one: the first asks the server, and those that come until its end is stored wait for it, and share what comes of it. Left out, each asks by
   * itself. Nothing is shared of a call that ends `locked`, `stopped` or `lock_lost`, or with an {@link UncountedError}: the next one asks then.
   */
  readonly shared?: boolean
}

/** Settings of one run whose input its caller compares. */
export interface TextRunOptions extends RunOptions {
  /** What the run is about, in 128 bytes at most, such as {@link fingerprint} makes it. Another one for the same ID is a RunDiffersError. */
  readonly fingerprint?: string
}

/** Settings of one run whose work returns something else than text. */
export interface ValueRunOptions<T> extends TextRunOptions {
  /** The text that is stored of what the work returned. */
  readonly text: (value: T) => string
}

/** A run that was granted. */
export interface Run {
  readonly id: string
  /** The fencing token: pass it on to whatever the work writes to. */
  readonly token: number
  /** What the token is one of, for fences: `run/` and the ID. */
  readonly subject: string
  /** Runs begun since the last that ended by itself, with this one; above 1 it is a takeover. */
  readonly runs: number
  /** Runs that failed before. */
  readonly failures: number
  /** Is aborted with a {@link LockLostError} when the lock of the run is lost, or with the reason of the caller's signal: stop then. */
  readonly signal: AbortSignal
}

/** What came of a run. T is what its work returns. */
export interface Outcome<T = unknown> {
  /**
   * `ready`: the work ran. `failed`: for good. `attempt_failed`: it may be retried. `already_finished`: it was READY before. `already_failed`: it was FAILED
   * before. `locked`: another worker runs it. `unknown`: there is no such analysis. `lock_lost`: the lock was lost before the end was stored, and nothing was written.
   * `stopped`: the caller's signal was aborted. `not_stored`: the work ended, and the server has not stored that, so that another worker may begin: see
   * `storing`.
   */
  readonly status: 'ready' | 'failed' | 'attempt_failed' | 'already_finished' | 'already_failed' | 'locked' | 'unknown' | 'lock_lost' | 'stopped' | 'not_stored'
  /** What the work returned, as text, also if that is not stored; with `already_finished` what it returned then. */
  readonly result?: string
  /** What the work returned, to this call or the one that it shares. */
  readonly value?: T
  /** With `locked`: in how many milliseconds the lock expires, unless its holder refreshes it; a second, if that is a call that is shared. */
  readonly retryAfter?: number
  /** The fence of the run, if it was granted. */
  readonly token?: number
  /** Why it did not succeed. */
  readonly error?: unknown
  /** With `not_stored`, unless the server rejected it: the end of the run is sent again until the server has it, or another worker took over. */
  readonly storing?: Storing
}

/** The end of a run that is not stored yet. Until it is, another worker may begin, once the lock has expired. */
export interface Storing {
  /** Of the run. */
  readonly id: string
  /** What came of it at last. */
  readonly done: Promise<Outcome>
  /** Gives up: what came of it is `not_stored` then, unless it is stored. */
  stop(): Promise<Outcome>
}

/** Another worker runs it: try again after `retryAfter` milliseconds. */
export class RunLockedError extends LeaseholdError {
  override readonly name = 'RunLockedError'
  constructor(message: string, readonly retryAfter: number) {
    super(message)
  }
}

/** The run was FAILED before, and does not run again. */
export class RunFailedError extends LeaseholdError {
  override readonly name = 'RunFailedError'
}

/** Thrown by work that would fail again in the same way: the run is FAILED at once. */
export class PermanentError extends LeaseholdError {
  override readonly name = 'PermanentError'
}

/** Thrown by work that says nothing about the run, such as a credential that is missing where it runs: it is to be retried, and the attempt does not count. */
export class UncountedError extends LeaseholdError {
  override readonly name = 'UncountedError'
}

/** The work is done, and its end is not stored: see {@link Outcome.storing}, and {@link Runs.close}. Its cause is the error of work that failed for good, otherwise why the end is not stored. */
export class RunNotStoredError extends LeaseholdError {
  override readonly name = 'RunNotStoredError'
  /** What the work of {@link Runs.once} returned all the same. */
  value?: unknown
  /** Its end, if it is still sent. */
  storing?: Storing
}

const insistTime = 30_000 // for releasing the lock of a run
const endingTime = 10_000 // at least, that the end of a run is waited for
const longestPause = 5000 // before it is sent again when no one waits for it any more
const maxResult = 256 << 10

interface Grant {
  readonly run: Omit<Run, 'signal'>
  readonly asked: Moment
  readonly remaining: number
}

/** A call that others share. */
interface Flight {
  readonly fingerprint: string | undefined
  /** The run was granted. */
  readonly begun: Promise<unknown>
  /** What comes of it, if that can be shared. */
  readonly done: Promise<Outcome | undefined>
  /** Its work is done, and that is not stored. */
  unstored?: boolean
}

/** Runs at a server. */
export class Runs {
  readonly #server: Server
  readonly #o: RunsOptions
  readonly #keep: { keep_seconds?: number }
  readonly #storing = new Set<Storing>()
  readonly #flights = new Map<string, Flight>()

  /** Makes a client; nothing is sent. */
  constructor(options: RunsOptions) {
    this.#server = new Server(options)
    this.#o = options
    if (options.onWarning) checkFunction('onWarning', options.onWarning)
    this.#keep = options.keep === undefined ? {} : { keep_seconds: checkNumber('keep', options.keep, 60_000, 316_224_000_000, 1000) / 1000 }
  }

  /**
   * Runs the work unless it was done before, and has its result in either case. It is stored as JSON: every caller, the first as well, gets what comes out of that. One that JSON does
   * not have ends the run for good, as the work is done.
   *
   * @param id the name of the run; of several parts see {@link key}
   * @param input what the work depends on and the name does not say: any value of JSON. Its {@link fingerprint} is compared with that of the run's first call, and another one is a
   * RunDiffersError. null compares nothing.
   * @throws the error of the work, a {@link PermanentError}, {@link RunLockedError}, {@link RunFailedError}, {@link RunNotStoredError}, {@link LockLostError}, an ApiError, or the reason of
   * the signal
   */
  async once<T>(id: string, input: unknown, work: (run: Run) => T | Promise<T>, options: RunOptions = {}): Promise<T> {
    checkFunction('work', work)
    checkObject('options', options)
    if ('fingerprint' in options) throw invalid('fingerprint', 'is of run(): once() compares its input, which may be that text')
    if (input === undefined) throw invalid('input', 'is undefined: null compares nothing')
    const about = input === null ? {} : { fingerprint: await fingerprint(input) }
    const json = (made: unknown): string => {
      const text = JSON.stringify(made, (_, v: unknown) => {
        if (typeof v === 'number' && !Number.isFinite(v)) throw new RangeError(`it has ${v}`)
        return v
      }) as string | undefined
      if (text === undefined && made !== undefined) throw new TypeError(`it is a ${typeof made}`)
      return text ?? ''
    }
    const read = (text: string | undefined) => (text ? JSON.parse(text) : undefined) as T
    let o: Outcome
    try {
      o = await this.#run(id, work, { ...options, ...about }, json, 'the work is done, but JSON cannot say its result')
    } catch (e) {
      if (!(e instanceof RunDiffersError)) throw e
      const detail = `${e.problem.detail ?? 'another input'}. An earlier call of ${id} had another input, and has that one's result: make what differs part of the name, or leave it out of the input if it does not matter`
      throw apiError({ ...e.problem, detail }, 0, { cause: e })
    }
    switch (o.status) {
      case 'ready':
        return read(o.result)
      case 'already_finished':
        try {
          return read(o.result)
        } catch (cause) {
          throw new LeaseholdError(`run ${id} has a result that is not JSON: use run() for text`, { cause })
        }
      case 'locked':
        throw new RunLockedError(`another worker runs ${id}`, o.retryAfter ?? 0)
      case 'not_stored':
        throw Object.assign(o.error as RunNotStoredError, { value: read(o.result) })
      default:
        throw o.error
    }
  }

  /** Runs the work unless it was done before, and says what came of it. Its result is text of 256 KiB at most, or has such a text. */
  run(id: string, work: (run: Run) => string | undefined | Promise<string | undefined>, options?: TextRunOptions): Promise<Outcome<string | undefined>>
  run<T>(id: string, work: (run: Run) => T | Promise<T>, options: ValueRunOptions<T>): Promise<Outcome<T>>
  async run<T>(id: string, work: (run: Run) => T | Promise<T>, options: TextRunOptions & Partial<ValueRunOptions<T>> = {}): Promise<Outcome<T>> {
    checkFunction('work', work)
    checkObject('options', options)
    const { text = (value: unknown) => (value === undefined ? '' : value) as string } = options
    checkFunction('text', text)
    return this.#run(id, work, options, text, 'the work is done, but its result cannot be stored') as Promise<Outcome<T>>
  }

  /**
   * For a process that ends: waits until the ends of all runs are stored, then gives up those that are not.
   *
   * @param most how long to wait for that, in milliseconds
   * @returns the IDs of those that are not stored: their work is done, and may be done again
   */
  async close(most = callTime): Promise<string[]> {
    checkNumber('most', most, 0, Infinity)
    const all = [...this.#storing]
    await patience<unknown>(this.clock, Promise.all(all.map((s) => s.done)), most, undefined, () => undefined)
    const ends = await Promise.all(all.map((s) => s.stop()))
    return all.filter((_, i) => ends[i]?.status === 'not_stored').map((s) => s.id)
  }

  /** The clocks; for what stands on this. */
  get clock(): Clock {
    return this.#server.clock
  }

  /** Runs the work. keep makes the text that is stored of its result; if that fails, unkept says of what. */
  async #run<T>(id: string, work: (run: Run) => T | Promise<T>, options: TextRunOptions, keep: (made: T) => string, unkept: string): Promise<Outcome> {
    const ttl = checkNumber('ttl', options.ttl ?? 300_000, 1000, 86_400_000, 1000)
    const ttl_seconds = ttl / 1000
    const heartbeat = checkNumber('heartbeat', options.heartbeat ?? ttl / 5, 10, ttl - 1)
    if (options.wait !== undefined) checkNumber('wait', options.wait, 0, Infinity)
    if (options.retryFor !== undefined) checkNumber('retryFor', options.retryFor, 0, Infinity)
    if (options.maxFailures !== undefined) checkNumber('maxFailures', options.maxFailures, 0, Infinity, 1)
    if (options.maxTakeovers !== undefined) {
      checkNumber('maxTakeovers', options.maxTakeovers, 0, Number.MAX_SAFE_INTEGER, 1)
      if (this.#o.analyses) throw invalid('maxTakeovers', 'is of the runs of a tenant: for analyses the server has one')
    }
    if (options.fingerprint !== undefined) checkText('fingerprint', options.fingerprint, 128)
    if (typeof id === 'string' && id.includes('/')) throw invalid('id', 'must not have "/"')
    const path = this.#o.analyses ? `/v1/analyses/${segment('id', id, 256)}` : `${this.#server.root}/runs/${segment('id', id, 256)}`
    const { signal } = options
    const begin = {
      ttl_seconds, ...this.#keep, ...(options.maxFailures && { max_failures: options.maxFailures }),
      ...(options.maxTakeovers !== undefined && { max_takeovers: options.maxTakeovers }), ...(options.fingerprint !== undefined && { fingerprint: options.fingerprint }),
    }
    const call = async (wait: number, begun?: () => void): Promise<Outcome> => {
      if (signal?.aborted) return { status: 'stopped', error: signal.reason }
      let got: Grant | Outcome
      try {
        got = await this.#wait(id, path, begin, ttl, { ...options, wait })
      } catch (error) {
        if (signal?.aborted) return { status: 'stopped', error: signal.reason }
        if (isUnknown(error)) return { status: 'unknown', error }
        throw error
      }
      if ('status' in got) return got
      begun?.()
      return this.#hold(path, got, work, ttl, ttl_seconds, heartbeat, options, (made) => {
        let kept: string
        try {
          kept = keep(made)
        } catch (cause) {
          throw new PermanentError(`${unkept}: ${messageOf(cause)}`, { cause })
        }
        if (typeof kept !== 'string' || /[\ud800-\udfff]/u.test(kept) || new TextEncoder().encode(kept).length > maxResult) {
          throw new PermanentError(`the result has more than ${maxResult} bytes, or is no text in valid Unicode: keep it elsewhere and return where it is`)
        }
        return kept
      })
    }
    return options.shared ? this.#share(id, options, call) : call(options.wait ?? 0)
  }

  /** Waits for the call that is under way for a run, and shares its outcome; without one it is that call itself. */
  async #share(id: string, { fingerprint, wait = 0, signal }: TextRunOptions, call: (wait: number, begun?: () => void) => Promise<Outcome>): Promise<Outcome> {
    const { clock } = this
    const end = add(moment(clock), wait)
    const late: Outcome = { status: 'locked', retryAfter: 1000 }
    for (let flight; (flight = this.#flights.get(id)); ) {
      const left = Math.max(0, until(clock, end))
      if (flight.fingerprint !== fingerprint) {
        if (flight.unstored) throw apiError({ code: 'RUN_DIFFERS', status: 422, field: 'fingerprint' })
        return call(left)
      }
      let got = await patience(clock, flight.done, left, signal, () => late)
      if (signal?.aborted) return { status: 'stopped', error: signal.reason }
      if (got === late) got = await Promise.race([flight.done, flight.begun.then(() => late)]) // whether it is granted is known soon
      if (got) return got
    }
    let begin: () => void
    const begun = new Promise<void>((resolve) => (begin = resolve))
    const work = call(Math.max(0, until(clock, end)), () => begin())
    const over = () => void this.#flights.delete(id)
    const done = work.then((got) => {
      if (got.storing) void got.storing.done.then(over)
      else over()
      flight.unstored = got.storing !== undefined
      return got.status === 'locked' || got.status === 'stopped' || got.status === 'lock_lost' || got.error instanceof UncountedError ? undefined : got
    })
    done.catch(over)
    const flight: Flight = { fingerprint, begun, done }
    this.#flights.set(id, flight)
    return work
  }

  #post(path: string, body: object, timeout: number, signal?: AbortSignal) {
    return this.#server.send('POST', path, { owner_id: this.#server.owner, ...body }, timeout, signal)
  }

  #warn(error: unknown): void {
    try {
      this.#o.onWarning?.(error)
    } catch {
      // it disturbs no run
    }
  }

  #id(got: Record<string, unknown>, id: string): void {
    const name = this.#o.analyses ? 'analysis_id' : 'run_id'
    text(got[name], name, id)
  }

  /** Asks for the run, again and again while another worker has it, for as long as the caller waits. */
  async #wait(id: string, path: string, begin: object, ttl: number, o: RunOptions): Promise<Grant | Outcome> {
    const clock = this.#server.clock
    const end = add(moment(clock), o.wait ?? 0)
    const scope = new Scope(o.signal).within(clock, (o.wait ?? 0) + Math.max(tryTime(0), o.retryFor ?? callTime), noResponse)
    try {
      for (let poll = 0; ; poll++) {
        const got = await this.#begin(id, path, begin, ttl, scope, o.retryFor)
        const left = until(clock, end)
        if (!('status' in got) || got.status !== 'locked' || left <= 0) return got
        const bound = Math.min(1000, 100 * 2 ** Math.min(poll, 10))
        const after = Math.min((bound / 2) * (1 + Math.random()), left, got.retryAfter || Infinity)
        if (!(await pause(clock, after, scope.signal))) throw scope.signal.reason
      }
    } finally {
      scope.end()
    }
  }

  /** Asks until there is a response. What came of requests without one is given up when it ends otherwise, in the background. */
  async #begin(id: string, path: string, begin: object, ttl: number, scope: Scope, most = Infinity): Promise<Grant | Outcome> {
    const clock = this.#server.clock
    const late = new Scope(scope.signal).within(clock, scope.left(clock), noResponse)
    const since = moment(clock)
    const where = `${path}/${this.#o.analyses ? 'lock' : 'begin'}`
    let body = { owner_id: this.#server.owner, request_id: randomID(), ...begin }
    let open = false // a try may have been carried out, or may still be
    let unmet = 0
    let last: unknown // the error of the try before
    try {
      for (let retry = 0; ; retry++) {
        const asked = moment(clock)
        try {
          const got = await this.#server.ask(where, body, Math.min(tryTime(retry), ttl), late.signal, late.left(clock))
          this.#id(got, id)
          if (got['acquired'] === false) {
            const skipped = this.#skipped(got)
            open &&= skipped.status === 'locked' // which does not say that an earlier try comes no more
            return skipped
          }
          if (got['acquired'] !== true) bad('it does not say whether the run was granted')
          owner(got['owner_id'], this.#server.owner)
          const remaining = count(got['remaining_ms'], 'remaining_ms', 1)
          const run = { id, subject: `run/${id}`, token: token(got['fencing_token']), runs: count(got['runs'], 'runs'), failures: count(got['failures'], 'failures') }
          if (until(clock, endOf(asked, remaining)) <= 0) throw apiError({ code: 'LEASE_EXPIRED', status: 409, detail: 'the lock expired before the response arrived' })
          open = false
          return { run, asked, remaining }
        } catch (error) {
          open = late.signal.aborted || isUnsettled(error) || (open && !isOver(error))
          if (error instanceof RequestIdReusedError || error instanceof LeaseExpiredError) body = { ...body, request_id: randomID() } // what it obtained has ended
          else if (isUnknown(error) || isFinal(error) || (this.#server.unmet(error) && ++unmet > 2)) throw error
          if (late.signal.aborted) throw last ?? error
          last = error
          this.#warn(error)
          late.within(clock, Math.max(0, most - elapsed(clock, since)), noResponse)
          if (!(await pauseBefore(clock, retry, retryAfter(error), late))) throw error
        }
      }
    } finally {
      late.end()
      if (open) void this.#server.giveUp(where, body).then((error) => error === undefined || this.#warn(error))
    }
  }

  #skipped(got: Record<string, unknown>): Outcome {
    const reason = got['reason']
    if (reason === 'locked') return { status: 'locked', retryAfter: count(got['retry_after_ms'] ?? 0, 'retry_after_ms') }
    if (reason !== 'already_finished') bad(`its reason is ${String(reason)}`)
    if (got['status'] === 'FAILED') return { status: 'already_failed', error: new RunFailedError(`it failed before: ${String(got['failure_reason'] ?? '')}`) }
    const result = got['result'] ?? ''
    if (typeof result !== 'string') bad('its result is no text')
    return { status: 'already_finished', result }
  }

  /** Runs the work under a lock that was granted. */
  async #hold<T>(path: string, g: Grant, work: (run: Run) => T | Promise<T>, ttl: number, ttl_seconds: number, heartbeat: number, o: RunOptions, keep: (made: T) => string): Promise<Outcome> {
    const clock = this.#server.clock
    const fencing_token = g.run.token
    let expired = false // by the clocks of this process, which may be early
    const term = new Term(clock, endOf(g.asked, g.remaining), (trouble) => {
      expired = true
      return new LockLostError(`the lock of run ${g.run.id} expired`, trouble === undefined ? {} : { cause: trouble })
    })
    const stop = new Scope(o.signal)
    const stopped = () => term.cancel(stop.signal.reason)
    stop.signal.addEventListener('abort', stopped)
    if (stop.signal.aborted) stopped()
    const keeping = new Scope()
    void term.watch(keeping.signal)
    const first = g.remaining >= ttl ? heartbeat : (heartbeat * g.remaining) / ttl
    void this.#beat(path, g, term, add(g.asked, first), ttl, ttl_seconds, heartbeat, keeping.signal)
    let made: [T] | undefined // the work is done
    let error: unknown
    try {
      made = [await work({ ...g.run, signal: term.signal })]
    } catch (e) {
      error = e
    }
    const lost = term.settle()
    keeping.abort(undefined)
    stop.end()
    let trouble: unknown // why the latest try to store the end failed
    const send = async (what: 'finish' | 'release', body: object, late: Scope, left: () => number): Promise<unknown> => {
      try {
        for (let retry = 0; ; retry++) {
          try {
            const got = await this.#post(`${path}/${what}`, { fencing_token, ...this.#keep, ...body }, tryTime(retry), late.signal)
            this.#id(got, g.run.id)
            if (what === 'finish') text(got['status'], 'status', (body as { status: string }).status)
            return undefined
          } catch (e) {
            trouble = e
            if (isLost(e) || isFinal(e) || late.signal.aborted || !(await pauseBefore(clock, retry, Math.min(retryAfter(e), left() / 3), late))) return e
          }
        }
      } finally {
        late.end()
      }
    }
    const release = async (failure?: string): Promise<void> => {
      const late = new Scope().within(clock, insistTime, noResponse)
      const work = send('release', failure === undefined ? {} : { failure_reason: failure }, late, () => late.left(clock)).then((e) => e === undefined || this.#warn(e))
      await patience<unknown>(clock, work, callTime, o.signal, () => undefined)
    }
    // The gate accepts a late end if no other worker took over: it is sent until then. Its caller waits while the lock lasts, or for ten seconds, and a second after it has left.
    const finish = (body: object, done: Outcome): Promise<Outcome> => {
      const most = Math.max(term.left, endingTime)
      const end = add(moment(clock), most)
      const stop = new Scope()
      const unstored = (cause?: unknown) => new RunNotStoredError(`the work is done, and the end of run ${g.run.id} is not stored`, { cause })
      const store = async (body: object, done: Outcome, rejection?: unknown): Promise<Outcome> => {
        const e = await send('finish', body, stop, () => Math.max(until(clock, end), 3 * longestPause))
        if (e === undefined) return done
        if (isLost(e)) return { status: 'lock_lost', token: fencing_token, error: new LockLostError(`the lock of run ${g.run.id} is lost`, { cause: e }) }
        if (isFinal(e) && done.status === 'ready') { // the work is done, and is not done again because its result is not accepted
          return store({ status: 'FAILED', failure_reason: reason(e) }, { ...done, status: 'failed', error: e }, e)
        }
        if (isFinal(e)) await release(reason(rejection ?? e))
        return { ...done, status: 'not_stored', error: unstored(done.error ?? e) }
      }
      const work = store(body, done)
      const storing: Storing = { id: g.run.id, done: work, stop: () => (stop.abort(unstored()), work) }
      this.#storing.add(storing)
      void work.then(() => this.#storing.delete(storing))
      return patience(clock, work, most + graceTime, o.signal, () => {
        void work.then((out) => out.status === done.status || this.#warn(out.error))
        return { ...done, status: 'not_stored', error: Object.assign(unstored(done.error ?? trouble), { storing }), storing }
      })
    }
    const failed = (): Promise<Outcome> => finish({ status: 'FAILED', failure_reason: reason(error) }, { status: 'failed', token: fencing_token, error })
    if (lost !== undefined && !(made && expired)) {
      if (!made && lost instanceof LockLostError && error !== lost) lost.workError = error
      return { status: 'lock_lost', token: fencing_token, error: lost }
    }
    if (made) {
      let result: string
      try {
        result = keep(made[0])
      } catch (e) {
        error = e
        return failed() // whether or not its caller has left: the work is not to be done again
      }
      return finish({ status: 'READY', ...(result && { result }) }, { status: 'ready', result, value: made[0], token: fencing_token })
    }
    const timedOut = o.signal?.aborted && (o.signal.reason as Error | undefined)?.name === 'TimeoutError' // work that never fits counts: it would be begun again for ever
    if (error instanceof UncountedError || (o.signal?.aborted && !timedOut)) {
      await release()
      return { status: o.signal?.aborted ? 'stopped' : 'attempt_failed', token: fencing_token, error }
    }
    if (error instanceof PermanentError || (o.maxFailures && g.run.failures + 1 >= o.maxFailures)) {
      return failed()
    }
    await release(reason(error))
    return { status: timedOut ? 'stopped' : 'attempt_failed', token: fencing_token, error }
  }

  /** Refreshes the lock until it is lost or the run has ended. */
  async #beat(path: string, g: Grant, term: Term, due: Moment, ttl: number, ttl_seconds: number, heartbeat: number, stop: AbortSignal): Promise<void> {
    const clock = this.#server.clock
    const soon = Math.min(1000, heartbeat / 8)
    for (let failed = 0; (await sleepUntil(clock, due, stop)) && term.check() === undefined; ) {
      const asked = moment(clock)
      try {
        const timeout = Math.min(tryTime(failed), Math.max(term.left / 3, 10))
        const got = await this.#post(`${path}/refresh`, { fencing_token: g.run.token, ttl_seconds, ...this.#keep }, timeout, stop)
        this.#id(got, g.run.id)
        token(got['fencing_token'], g.run.token)
        if (!term.extend(endOf(asked, Math.min(ttl, count(got['remaining_ms'], 'remaining_ms', 1))))) return
        due = add(asked, heartbeat)
        failed = 0
      } catch (error) {
        if (stop.aborted) return
        if (isLost(error)) return term.lose(new LockLostError(`the lock of run ${g.run.id} is lost`, { cause: error }))
        term.failed(error)
        this.#warn(error)
        due = add(moment(clock), Math.max(hasten(backoff(failed++, soon, Math.min(10_000, heartbeat / 2), soon / 2), term.left), Math.min(retryAfter(error), term.left / 3)))
      }
    }
  }
}

const noResponse = () => new NoResponseError('the server did not respond in time')

/** NOT_FOUND of the run, not of the path: the server is another one then. */
const isUnknown = (e: unknown): boolean => e instanceof NotFoundError && (e.field === 'analysis_id' || e.field === 'run_id')

const isLost = (e: unknown): boolean => isGone(e) || e instanceof AlreadyFinishedError || isUnknown(e)

/** An error as a sentence of 1024 bytes at most, in valid Unicode. */
function reason(e: unknown): string {
  const bytes = new TextEncoder().encode(messageOf(e) || 'the work failed')
  const text = new TextDecoder().decode(bytes.slice(0, bytes.length <= 1024 ? 1024 : 1018), { stream: true })
  return bytes.length <= 1024 ? text : `${text}…`
}
