/// <reference lib="esnext.disposable" preserve="true" />
/**
 * A generator of IDs under leases of machine IDs.
 *
 * A lease owns the timestamps [created, expired) of its machine ID, whatever any clock shows: that is why no two IDs are equal.
 *
 * @module
 */
import { checkFunction, checkLabels, checkNumber, checkObject, checkText, invalid } from './check.js'
import { DocumentDamagedError, MachineIdLimitError, MachineIdsExhaustedError, NotFoundError } from './codes.gen.js'
import { ClosedError, NoResponseError, InvalidResponseError, LeaseholdError, NotReleasedError, passes } from './fault.js'
import { Server, type ServerOptions } from './http.js'
import { isFinal, messageOf } from './judge.js'
import { type Layout, checkLayout, defaultLayout, signRelease } from './layout.js'
import type { AbortSignal, Url } from './platform.js'
import { type Clock, Scope, orAborted, patience, pause, systemClock } from './time.js'

/** Leases machine IDs. {@link HttpLeaseProvider} asks a server; a program may have its own, over another store. */
export interface LeaseProvider {
  /**
   * Leases as many machine IDs as the throughput needs; fewer if no more are free, but one at least. `signal` is aborted when the generator waits no longer.
   * An error may say in `retryAfter` how many milliseconds to wait; a {@link ConfigurationError} says that no retry cures it.
   */
  acquire(options: AcquireOptions, signal?: AbortSignal): Promise<AcquireResponse>
  /** Ends a lease before it expires. One that no longer exists is no error. */
  release(options: ReleaseOptions, signal?: AbortSignal): Promise<void>
}

/** What is needed. */
export interface AcquireOptions {
  /** Whose namespace and layout; the provider's default if left out. */
  serviceId?: string
  /** Labels for people: host name, process ID. */
  meta?: Record<string, string>
  /** IDs in a millisecond; one lease if left out. */
  throughputPerMs?: number
}

/** The leases that were granted: one at least. */
export interface AcquireResponse {
  leases: LeaseInfo[]
}

/** The right to make IDs with one machine ID and the timestamps from `created` up to, but not including, `expired`. */
export interface LeaseInfo extends Layout {
  /** The machine ID, below 2^(bitId-1). */
  readonly id: number
  /** Unix milliseconds. */
  readonly created: number
  /** Unix milliseconds. */
  readonly expired: number
  /** Signs the release. Keep it out of logs. */
  readonly secret: string
}

/** A lease to end. No ID has a timestamp after `timestamp`. */
export interface ReleaseOptions {
  serviceId?: string
  id: number
  /** HMAC-SHA256 of "id:timestamp" under the lease's secret, in hexadecimal digits. */
  signature: string
  /** Unix milliseconds, within 30 s of the provider's clock. */
  timestamp: number
}

/** Settings of {@link IdGenerator}. Times are in milliseconds. */
export interface GeneratorOptions extends Partial<Pick<ServerOptions, 'token' | 'fetch' | 'clock'>> {
  /** The server that leases machine IDs: short for `provider: new HttpLeaseProvider({ url, token, fetch })`. Without either all IDs are made without a lease. */
  readonly url?: string | Url
  /** What leases machine IDs, if it is not the server of `url`. */
  readonly provider?: LeaseProvider
  /** Names the service whose machine IDs are leased; the provider's default if left out. */
  readonly serviceId?: string
  /** How many IDs in a millisecond are needed; 256 if left out, one lease of the default layout. Leases are acquired until they add up to it; further IDs wait. */
  readonly maxThroughputPerMs?: number
  /** Fail with a {@link LeaseAcquisitionError} instead of IDs without a lease. */
  readonly disableFallback?: boolean
  /** How long to wait after a first failure to acquire, at most; it doubles with each failure in a row. 1000 if left out. The wait is random, between half of it and all. */
  readonly acquireRetryInterval?: number
  /** What it doubles up to; 60 000 if left out, or acquireRetryInterval if that is more. */
  readonly acquireRetryMaxInterval?: number
  /**
   * How far the clock may be behind the last ID: up to that it is waited for; beyond, the error is a {@link ClockBackwardError}. 5000 if left out, negative is no
   * limit. With 0 each call reads the wall clock, which otherwise is read once a second, and fails if it is more than a millisecond behind.
   */
  readonly maxBackwardMs?: number
  /** The width of the timestamp in bits until the first lease sets it: 32 to 60, 41 if left out. */
  readonly bitTs?: number
  /** Unix milliseconds of the timestamp 0 until the first lease sets it; the beginning of 2026 if left out. If the provider uses another, set the same. */
  readonly defaultEpoch?: number
  /** How far a lease may begin from the local clock; 5000 if left out. */
  readonly maxSkew?: number
  /** Labels for people who read the provider's log: 32 at most. The host's name and the process's ID if left out, where the runtime says them. */
  readonly meta?: Readonly<Record<string, string>>
  /** Gets a warning when leases are not granted, and when they are again; `console` if left out. */
  readonly log?: { warn(text: string, more: Readonly<Record<string, unknown>>): void }
  /** Receives what operators want to know. An error that it throws is dropped. */
  readonly observe?: (event: GeneratorEvent) => void
}

/** Something that operators want to know. */
export interface GeneratorEvent {
  /**
   * `acquired`: `leases` took effect. `acquire-failed`: `error` is why; the next attempt follows by itself. `lease-rejected`: granted, but `error` is what is wrong
   * with it. `fallback`: from now on IDs are made without a lease. `recovered`: under leases again. `clock-backward`, `clock-forward`: the wall clock made a
   * `step`; after one forward the leases are replaced. `epoch-changed`: the first lease has an earlier epoch than the fallback IDs before it. `released`.
   * `release-failed`: the lease expires by itself.
   */
  readonly type: 'acquired' | 'acquire-failed' | 'lease-rejected' | 'fallback' | 'recovered' | 'clock-backward' | 'clock-forward' | 'epoch-changed' | 'released' | 'release-failed'
  readonly leases?: number
  /** In milliseconds; negative is back. */
  readonly step?: number
  readonly error?: unknown
}

/**
 * The counters of a generator, since it was made: each only grows, unless its comment says otherwise. The names in code type are those of the metrics that they are
 * to be exported as.
 */
export interface GeneratorStats {
  /** As in the options: the attribute `leasehold.service`. */
  readonly serviceId: string
  /** Now: leases whose interval contains the present. `leasehold.ids.leases` */
  readonly activeLeases: number
  /** Now: IDs in a millisecond under them. `leasehold.ids.throughput`, which is per second */
  readonly throughputPerMs: number
  /** Now: IDs are made without a lease. `leasehold.ids.fallback`, 0 or 1 */
  readonly fallback: boolean
  /** Attempts to acquire leases. `leasehold.ids.acquire.attempts` */
  readonly acquireAttempts: number
  /** Of them, those that failed. `leasehold.ids.acquire.failures` */
  readonly acquireFailures: number
  /** Granted, but rejected: counted in the failures, too. `leasehold.ids.leases.rejected` */
  readonly leasesRejected: number
  /** Leases with another epoch than the IDs before: rejected, but for the first one after fallback IDs if its epoch is earlier. `leasehold.ids.epoch.mismatches` */
  readonly epochMismatches: number
  /** IDs that were made, fallback IDs included. `leasehold.ids.issued` */
  readonly ids: number
  /** Of them, those without a lease. `leasehold.ids.issued.fallback` */
  readonly fallbackIds: number
  /** How often IDs had to wait because those of the millisecond were used up. `leasehold.ids.sequence.waits` */
  readonly sequenceWaits: number
  /** Steps back of the wall clock, by more than a millisecond. `leasehold.ids.clock.backward` */
  readonly clockBackward: number
  /** The size of the last one, in milliseconds. `leasehold.ids.clock.backward.last`, which is in seconds */
  readonly lastBackwardMs: number
  /** Jumps forward by a second or more, such as after a suspension. `leasehold.ids.clock.forward` */
  readonly clockForward: number
}

/** The clock is behind the last ID by more than `maxBackwardMs`. It goes away when the clock has caught up. */
export class ClockBackwardError extends LeaseholdError {
  override readonly name = 'ClockBackwardError'
  constructor(readonly backwardMs: number, readonly limitMs: number) {
    super(`the clock moved backward by ${backwardMs} ms (limit: ${limitMs} ms): check NTP and the system's time settings`)
  }
}

/** There is no lease, and IDs without one are disabled. `cause` says why the last attempt failed. */
export class LeaseAcquisitionError extends LeaseholdError {
  override readonly name = 'LeaseAcquisitionError'
}

/** There never was a lease, and what the provider sent is none: wrong URL, credentials or service. */
export class ConfigurationError extends LeaseholdError {
  override readonly name = 'ConfigurationError'
}

/** There is neither a provider nor fallback: no ID could ever be made. */
export class NoProviderError extends LeaseholdError {
  override readonly name = 'NoProviderError'
}

/** The clock shows a time that the layout cannot say. */
export class TimeRangeError extends LeaseholdError {
  override readonly name = 'TimeRangeError'
}

/** A lease has another epoch than the IDs before: theirs would be smaller, or equal. The server's setting was changed, or `defaultEpoch` is to be set. */
export class EpochMismatchError extends LeaseholdError {
  override readonly name = 'EpochMismatchError'
}

/** A lease that was granted and cannot be used. */
class Rejection extends LeaseholdError {}

/** Leases machine IDs from a server. A request is sent once, and ends after 10 seconds: the generator retries by itself. */
export class HttpLeaseProvider implements LeaseProvider {
  readonly #server: Server

  /** Makes a provider; nothing is sent. An option that cannot work is an InvalidSettingError that names it. */
  constructor(options: Pick<ServerOptions, 'url'> & Partial<Pick<ServerOptions, 'token' | 'fetch' | 'clock'>>) {
    this.#server = new Server({ ...options, tenant: '-' })
  }

  async acquire({ serviceId, meta, throughputPerMs }: AcquireOptions, signal?: AbortSignal): Promise<AcquireResponse> {
    const got = await this.#server.ask(path, { serviceId, meta, throughputPerMs }, requestTime, signal, requestTime, 'notAfter')
    if (!Array.isArray(got['leases']) || got['leases'].length === 0) throw new InvalidResponseError('invalid response: it has no leases')
    return { leases: got['leases'].map(leaseOf) }
  }

  async release({ id, ...body }: ReleaseOptions, signal?: AbortSignal): Promise<void> {
    try {
      await this.#server.send('DELETE', `${path}/${id}`, body, requestTime, signal)
    } catch (e) {
      if (!(e instanceof NotFoundError)) throw e
    }
  }
}

interface Holding extends LeaseInfo {
  readonly renewAt: number
  /** Another process may share it: see #anchor. */
  suspect: boolean
}

/** From when to when which leases are used; no indices of one millisecond are given out under two of them. */
interface Segment {
  readonly from: number
  readonly until: number
  readonly leases: readonly Holding[]
  readonly cap: number
  /** Without a live lease: the IDs that a millisecond begins with are random. */
  readonly fallback: boolean
}

const path = '/v1/machine-ids/lease'
const requestTime = 10_000 // of one request
const acquireTime = 30_000 // of one attempt, whatever the provider does; less when a lease is about to end
const leastTime = 1000
const mostPatience = 1000 // for which IDs wait for an attempt where there is a fallback
const anchorEvery = 1000 // between two samples of the wall clock
const jump = 1000 // forward: a suspension, a snapshot, or a set clock
const gap = 100 // for a lease that begins later, and is waited for
const releasers = 8 // at once

/** Makes IDs that are larger than all that it made before. */
export class IdGenerator {
  readonly #o: GeneratorOptions
  readonly #clock: Clock
  readonly #provider: LeaseProvider | undefined
  readonly #closed = new Scope()
  readonly #backward: number
  readonly #skew: number
  readonly #throughput: number
  readonly #retry: number
  readonly #retryMax: number
  readonly #meta: Record<string, string> | undefined
  readonly #stats = {
    acquireAttempts: 0, acquireFailures: 0, leasesRejected: 0, epochMismatches: 0, ids: 0, fallbackIds: 0, sequenceWaits: 0, clockBackward: 0, lastBackwardMs: 0, clockForward: 0,
  }
  #layout: Layout
  #settled = false // IDs were made: the layout no longer changes
  #base = NaN // until it begins
  #anchorAt = 0
  #held: Holding[] = []
  #cached: readonly Holding[] = []
  #leased = false
  #segment: Segment | undefined
  #since: number | undefined // when the attempt began, or IDs waited for it first
  #fallback = false
  #last = -1 // Unix milliseconds of the last ID
  #index = 0 // indices of it that are taken
  #start = 0 // the index that the millisecond began with
  #failures = 0
  #failure: unknown
  #outage = { since: 0, fallbackIds: 0, told: new Set<string>() } // in which no leases are granted
  #tryAt = 0
  #trying: Promise<void> | undefined
  #wake = new Scope()
  #done: Promise<void> | undefined

  /** Makes a generator. It begins to lease in the background when it is first asked for IDs, or whether it is {@link ready}. Call {@link close} at the end. */
  constructor(options: GeneratorOptions = {}) {
    checkObject('options', options)
    this.#o = options
    const { url, token, fetch, clock = systemClock, provider, bitTs, meta, log } = options
    this.#clock = clock
    this.#backward = checkNumber('maxBackwardMs', options.maxBackwardMs ?? 5000, -Infinity, Infinity)
    this.#skew = checkNumber('maxSkew', options.maxSkew ?? 5000, 0, Infinity)
    this.#retry = checkNumber('acquireRetryInterval', options.acquireRetryInterval ?? 1000, 1, Infinity)
    this.#retryMax = checkNumber('acquireRetryMaxInterval', options.acquireRetryMaxInterval ?? Math.max(60_000, this.#retry), this.#retry, Infinity)
    this.#layout = { ...defaultLayout, customEpoch: options.defaultEpoch ?? defaultLayout.customEpoch }
    if (bitTs !== undefined) {
      const node = 63 - checkNumber('bitTs', bitTs, 32, 60, 1)
      const bitSeq = Math.min(defaultLayout.bitSeq, node - 2)
      this.#layout = { ...this.#layout, bitTs, bitId: node - bitSeq, bitSeq }
    }
    try {
      checkLayout(this.#layout)
    } catch {
      throw invalid('defaultEpoch', 'must be a time in Unix milliseconds up to the year 9999')
    }
    this.#throughput = checkNumber('maxThroughputPerMs', options.maxThroughputPerMs ?? 256, 1, 2 ** (this.#layout.bitId + this.#layout.bitSeq - 1), 1)
    if (options.observe) checkFunction('observe', options.observe)
    if (log !== undefined) checkFunction('log', log?.warn)
    if (options.serviceId !== undefined) checkText('serviceId', options.serviceId, 128)
    checkLabels('meta', meta)
    this.#meta = meta ? { ...meta } : ownLabels()
    if (provider !== undefined) {
      checkObject('provider', provider)
      checkFunction('provider', provider.acquire)
      checkFunction('provider', provider.release)
      if (url !== undefined) throw invalid('provider', 'and url cannot both be set')
    } else if (url === undefined && options.disableFallback) {
      throw new NoProviderError('there is neither a provider nor a url, and IDs without a lease are disabled')
    }
    this.#provider = url === undefined ? provider : new HttpLeaseProvider({ url, clock, ...(token !== undefined && { token }), ...(fetch !== undefined && { fetch }) })
  }

  /** Begins, if it has not: as a program is loaded edge workers have no time, and send nothing. */
  #begin(): void {
    if (this.#done || this.#closed.signal.aborted) return
    const now = this.#clock.now()
    this.#base = this.#sample() ?? this.#clock.wall() - now
    this.#anchorAt = now + anchorEvery
    this.#done = this.#provider ? this.#renew() : Promise.resolve()
  }

  /** How the IDs are laid out: by the leases, or before the first one by the options. */
  get layout(): Layout {
    return this.#layout
  }

  /** The counters. */
  get stats(): GeneratorStats {
    const now = this.#now()
    const active = this.#held.filter((l) => l.created <= now && now < l.expired)
    return { serviceId: this.#o.serviceId ?? '', activeLeases: active.length, throughputPerMs: width(active), fallback: this.#fallback, ...this.#stats }
  }

  /** Waits until there is a lease, or the first attempt to get one has failed, and says which. */
  async ready(): Promise<boolean> {
    this.#begin()
    if (this.#provider && !this.#leased && this.#failures === 0 && !this.#closed.signal.aborted) await this.#trying
    return this.#leased
  }

  /** Makes an ID. It waits for the next millisecond when this one's are used up, and for a clock that was set back. */
  async next(signal?: AbortSignal): Promise<bigint> {
    return (await this.batch(1, signal))[0] as bigint
  }

  /** Makes IDs, in ascending order. */
  async batch(count: number, signal?: AbortSignal): Promise<bigint[]> {
    checkNumber('count', count, 0, Number.MAX_SAFE_INTEGER, 1)
    this.#begin()
    const ids: bigint[] = []
    let scope = signal === undefined ? undefined : new Scope(signal, this.#closed.signal)
    try {
      while (ids.length < count) {
        scope?.signal.throwIfAborted()
        const wait = this.#take(count - ids.length, ids)
        if (wait === undefined) continue
        scope ??= new Scope(this.#closed.signal)
        if (typeof wait === 'number') await pause(this.#clock, Math.max(wait, 0.05), scope.signal)
        else await orAborted(wait, scope.signal)
      }
    } finally {
      scope?.end()
    }
    return ids
  }

  /**
   * Stops the generator for good, and releases its leases.
   *
   * @throws NotReleasedError if one could not be released: it expires by itself
   */
  async close(): Promise<void> {
    if (this.#closed.signal.aborted) return
    this.#closed.abort(new ClosedError('the generator is closed'))
    this.#wake.abort(undefined)
    await this.#done
    const held = this.#held
    this.#held = []
    const errors: unknown[] = []
    const some = async () => {
      for (let l; (l = held.pop()); ) {
        const error = await this.#release(l)
        if (error !== undefined) errors.push(error)
      }
    }
    await Promise.all(Array.from({ length: releasers }, some))
    if (errors.length > 0) throw new NotReleasedError(`${errors.length} leases of machine IDs were not released, and expire`, { cause: errors[0] })
  }

  /** {@link close}, without its error. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close().catch(() => undefined)
  }

  /** Calls what a program gave, after the step that is under way: it may ask for IDs. */
  #tell(call: () => void): void {
    queueMicrotask(() => {
      try {
        call()
      } catch {
        // it disturbs no ID
      }
    })
  }

  #emit(event: GeneratorEvent): void {
    const { observe } = this.#o
    if (observe) this.#tell(() => observe(event))
  }

  #warn(text: string, more: object): void {
    const log = this.#o.log ?? globalThis.console
    this.#tell(() => log.warn(`kazahana: ${text}`, { service: this.#o.serviceId ?? 'default', ...more }))
  }

  /** What to add to the monotonic clock for Unix milliseconds; undefined if the process was interrupted between the clocks each time. */
  #sample(): number | undefined {
    let best = Infinity
    let base = 0
    for (let i = 0; i < 5 && best > 0.1; i++) {
      const before = this.#clock.now()
      const wall = this.#clock.wall()
      const took = this.#clock.now() - before
      if (took < best) {
        best = took
        base = wall - before
      }
    }
    return best <= 1 ? base : undefined
  }

  /** The time in Unix milliseconds, by the monotonic clock and the last sample of the wall clock. */
  #now(force = false): number {
    const now = this.#clock.now()
    if (force || now >= this.#anchorAt || this.#backward === 0) this.#anchor(now)
    return Math.floor(this.#base + this.#clock.now())
  }

  /** Samples the wall clock, and notes its steps. It shows whole milliseconds. */
  #anchor(now: number): void {
    this.#anchorAt = now + anchorEvery
    const base = this.#sample()
    if (base === undefined) return
    const step = base - this.#base
    this.#base = base
    if (step <= -2) {
      this.#stats.clockBackward++
      this.#stats.lastBackwardMs = -step
      this.#emit({ type: 'clock-backward', step })
    } else if (step >= jump) {
      this.#stats.clockForward++
      this.#emit({ type: 'clock-forward', step })
      // The process may have been suspended, or this is a copy of it, resumed from a snapshot, while the other one goes on with the same leases.
      for (const l of this.#held) l.suspect = true
      if (this.#held.length > 0) this.#wake.abort(undefined)
    }
  }

  /** Takes up to n IDs of one millisecond. The result is what to wait for, if anything. */
  #take(n: number, ids: bigint[]): number | Promise<void> | undefined {
    if (this.#closed.signal.aborted) throw this.#closed.signal.reason
    const now = this.#now()
    const { customEpoch, bitTs } = this.#layout
    if (now < customEpoch || now - customEpoch >= 2 ** bitTs) throw new TimeRangeError('the clock shows a time that the layout of IDs cannot say')
    const behind = this.#last - now
    if (behind > 1 && this.#backward >= 0 && behind > this.#backward) throw new ClockBackwardError(behind, this.#backward)
    let s = this.#segment
    let ms = Math.max(now, this.#last)
    if (!s || ms >= s.until || (s.fallback && this.#held.some((l) => l.created <= ms && ms < l.expired))) {
      // Another segment begins after all IDs that were made.
      const wait = this.#change(now, Math.max(now, this.#last + 1))
      if (wait !== true) return wait
      s = this.#segment as Segment
      ms = Math.max(now, s.from)
    }
    if (ms < s.from) ms = s.from
    if (ms > this.#last) {
      if (ms > now) return this.#early(ms, now)
      this.#last = ms
      this.#start = this.#index = s.fallback ? this.#random(s) : 0
    }
    const took = Math.min(n, s.cap + (s.fallback && s.leases.length === 0 ? this.#start : 0) - this.#index)
    if (took <= 0) {
      this.#stats.sequenceWaits++
      return this.#early(this.#last + 1, now)
    }
    this.#settled = true
    this.#stats.ids += took
    if (s.fallback) this.#stats.fallbackIds += took
    for (let i = 0; i < took; i++) ids.push(this.#id(s, this.#last, this.#index++))
    return undefined
  }

  /** How long until a millisecond. A clock that is far behind the beginning of a lease is behind the server's. */
  #early(ms: number, now: number): number {
    const most = Math.max(this.#backward, this.#skew)
    if (this.#backward >= 0 && ms - now > most) throw new ClockBackwardError(ms - now, most)
    return Math.min(100, ms - (this.#base + this.#clock.now()))
  }

  #id(s: Segment, ms: number, index: number): bigint {
    const node = this.#layout.bitId + this.#layout.bitSeq
    const high = BigInt(ms - this.#layout.customEpoch) << BigInt(node)
    if (s.fallback && s.leases.length === 0) return high | (1n << BigInt(node - 1)) | BigInt(index)
    for (const l of s.leases) {
      const room = 2 ** l.bitSeq
      if (index < room) return high | (s.fallback ? 1n << BigInt(node - 1) : 0n) | BigInt(l.id * room + index)
      index -= room
    }
    throw new Error('an index without a lease')
  }

  /** What a millisecond without a live lease begins with. */
  #random(s: Segment): number {
    const bound = s.leases.length > 0 ? s.cap : 2 ** (this.#layout.bitId + this.#layout.bitSeq - 1) - s.cap + 1
    const [x = 0] = crypto.getRandomValues(new Uint32Array(1))
    return Math.floor((x / 2 ** 32) * bound)
  }

  /** Makes the segment that begins at a millisecond. The result is true, or what to wait for. */
  #change(now: number, from: number): true | number | Promise<void> {
    const s = this.#build(from, this.#o.disableFallback ? Infinity : now + gap)
    if (s) {
      if (this.#fallback) this.#emit({ type: 'recovered' })
      this.#fallback = false
      this.#segment = s
      return true
    }
    if (this.#provider) {
      this.#wake.abort(undefined)
      const coming = this.#held.some((l) => now < l.created)
      if (this.#o.disableFallback && ((this.#failures === 0 && !coming) || this.#trying)) return this.#trying ?? 1
      if (!this.#o.disableFallback && this.#failures === 0 && !coming) {
        this.#since ??= this.#clock.now()
        const left = mostPatience - (this.#clock.now() - this.#since)
        if (left > 0) return this.#trying ? patience(this.#clock, this.#trying, left, undefined, () => undefined) : 1
      }
      if (this.#o.disableFallback) throw new LeaseAcquisitionError(`no lease could be acquired and fallback is disabled: ${messageOf(this.#failure)}`, { cause: this.#failure })
      if (!this.#leased && isConfiguration(this.#failure)) throw new ConfigurationError(`the lease provider granted no lease: ${messageOf(this.#failure)}`, { cause: this.#failure })
      if (!this.#fallback) this.#emit({ type: 'fallback', error: this.#failure ?? new NoResponseError('the lease provider has not responded within a second') })
    }
    const until = Math.min(this.#layout.customEpoch + 2 ** this.#layout.bitTs, ...this.#held.filter((l) => from < l.created).map((l) => l.created))
    const leases = this.#lastLeases(from)
    const cap = leases.length > 0 ? width(leases) : Math.min(this.#throughput, 2 ** (this.#layout.bitId + this.#layout.bitSeq - 2))
    this.#fallback = true
    this.#segment = { from, until, leases: sorted(leases), cap, fallback: true }
    return true
  }

  /** The leases whose machine IDs fallback IDs have: those that this process had last. Those that another one may share are not among them. */
  #lastLeases(at: number): readonly Holding[] {
    for (const leases of [this.#held, this.#cached]) {
      const last: Holding[] = []
      for (const l of leases.filter((l) => !l.suspect && l.created <= at).sort((a, b) => b.expired - a.expired)) {
        if (!last.some((o) => overlap(l, o))) last.push(l) // of two leases of a machine ID, one after the other, it takes one
      }
      if (last.length > 0) return last
    }
    return []
  }

  #build(at: number, before: number): Segment | undefined {
    const live = this.#held.filter((l) => l.created <= at && at < l.expired)
    const later = Math.min(...this.#held.filter((l) => at < l.created).map((l) => l.created))
    if (live.length === 0) return later <= before && later !== Infinity ? this.#build(later, before) : undefined
    return { from: at, until: Math.min(later, ...live.map((l) => l.expired)), leases: sorted(live), cap: width(live), fallback: false }
  }

  /** The background: the only one that leases. */
  async #renew(): Promise<void> {
    const { signal } = this.#closed
    while (!signal.aborted) {
      this.#wake = new Scope(signal)
      const now = this.#now(true)
      const live = this.#held.filter((l) => !l.suspect && now < l.renewAt)
      const need = this.#throughput - width(live)
      const wait = need > 0 ? this.#tryAt - this.#clock.now() : Math.min(...live.map((l) => l.renewAt)) - now
      if (need > 0 && wait <= 0) {
        this.#since = this.#clock.now()
        this.#trying = this.#acquire(need)
        await this.#trying
        this.#trying = this.#since = undefined
      } else {
        await pause(background(this.#clock), Math.max(1, Math.min(wait, 10_000)), need > 0 ? signal : this.#wake.signal)
      }
      this.#wake.end()
    }
  }

  /** Makes one attempt. */
  async #acquire(need: number): Promise<void> {
    this.#stats.acquireAttempts++
    const began = this.#now(true)
    // Half of what is left of the leases, so that it has ended, and another attempt had its turn, when they do.
    const left = Math.max(0, ...this.#held.map((l) => l.expired)) - began
    const most = left > 0 ? Math.max(leastTime, Math.min(acquireTime, left / 2)) : acquireTime
    const scope = new Scope(this.#closed.signal).within(this.#clock, most, () => new NoResponseError(`the provider did not respond within ${most} ms`))
    let leases: readonly LeaseInfo[] = []
    let error: unknown
    try {
      const { serviceId } = this.#o
      const asked = { ...(serviceId !== undefined && { serviceId }), ...(this.#meta && { meta: { ...this.#meta } }), throughputPerMs: need }
      const work = (async () => (await (this.#provider as LeaseProvider).acquire(asked, scope.signal)).leases.map(leaseOf))()
      // What comes too late is not used.
      void work.then((late) => scope.signal.aborted && late.forEach((l) => void this.#release(l)), () => undefined)
      leases = await orAborted(work, scope.signal)
      error = this.#accept(leases, began)
    } catch (e) {
      error = e
    }
    scope.end()
    if (error === undefined) {
      if (this.#failures > 0) {
        const { since, fallbackIds } = this.#outage
        this.#warn('the lease provider grants leases again', { afterMs: Math.round(this.#clock.now() - since), failures: this.#failures, fallbackIds: this.#stats.fallbackIds - fallbackIds })
      }
      this.#failures = 0
      this.#failure = undefined
      const lasts = Math.min(this.#retry, ...leases.map((l) => (l.expired - l.created) / 10)) // those that have nearly expired cause no busy loop
      this.#tryAt = this.#clock.now() + Math.max(1, lasts)
      return
    }
    if (this.#closed.signal.aborted) return
    this.#failures++
    this.#failure = error
    this.#stats.acquireFailures++
    this.#failing(error)
    this.#emit({ type: 'acquire-failed', error })
    this.#tryAt = this.#clock.now() + this.#delay(error)
  }

  /** Writes one warning for each kind of failure of an outage. */
  #failing(error: unknown): void {
    if (this.#failures === 1) this.#outage = { since: this.#clock.now(), fallbackIds: this.#stats.fallbackIds, told: new Set() }
    const wrong = isConfiguration(error)
    const kind = wrong ? 'configuration' : error instanceof Rejection ? 'rejection' : 'unreachable'
    if (this.#outage.told.has(kind)) return
    this.#outage.told.add(kind)
    const until = Math.max(0, ...this.#held.map((l) => l.expired))
    const then = this.#o.disableFallback || (!this.#leased && wrong) ? 'no IDs' : 'fallback IDs'
    this.#warn('the lease provider grants no leases', { error: messageOf(error), ...(until > this.#now() && { leasedUntil: new Date(until).toISOString() }), then })
  }

  /** How long to wait after a failure. */
  #delay(error: unknown): number {
    const asks = Math.max(0, Number((error as { retryAfter?: unknown } | undefined)?.retryAfter) || 0)
    // No machine ID becomes free before, unless one is released; the largest interval allows for that.
    if (asks > 0 && (error instanceof MachineIdsExhaustedError || error instanceof MachineIdLimitError)) return Math.min(asks + Math.random() * this.#retry, this.#retryMax)
    const bound = Math.min(this.#retryMax, this.#retry * 2 ** Math.min(this.#failures - 1, 20))
    return Math.max((bound / 2) * (1 + Math.random()), Math.min(asks, this.#retryMax))
  }

  /** Holds the leases that can be used, and releases the others. The result is an error if there are such. */
  #accept(leases: readonly LeaseInfo[], began: number): unknown {
    if (leases.length === 0) return new LeaseholdError('the provider granted no lease')
    const now = this.#now(true)
    let fault: unknown
    const share = 0.85 + 0.1 * Math.random()
    const fresh: Holding[] = []
    for (const l of leases) {
      try {
        this.#check(l, began, now, fresh.length === 0)
        if ([...this.#held, ...fresh].some((o) => overlap(l, o) && l.created < o.expired && o.created < l.expired)) {
          throw new LeaseholdError('it could make the same IDs as another lease that is held')
        }
        fresh.push({ ...l, renewAt: l.created + (l.expired - l.created) * share, suspect: false })
      } catch (cause) {
        fault = new Rejection(`lease of machine ID ${l.id} rejected: ${messageOf(cause)}`, { cause })
        this.#stats.leasesRejected++
        if (cause instanceof EpochMismatchError) this.#stats.epochMismatches++
        this.#emit({ type: 'lease-rejected', error: fault })
        if (!this.#held.some((o) => o.id === l.id && o.secret === l.secret)) void this.#release(l)
      }
    }
    if (fresh.length === 0) return fault
    const gone = this.#held.filter((l) => now >= l.expired || l.suspect)
    if (gone.length > 0) this.#cached = gone
    this.#held = [...this.#held.filter((l) => !gone.includes(l)), ...fresh]
    this.#leased = true
    if (this.#segment) this.#segment = { ...this.#segment, until: Math.min(this.#segment.until, this.#last + 1) } // the next one has them all
    this.#emit({ type: 'acquired', leases: fresh.length })
    return fault
  }

  /** Throws why a lease cannot be used. The first one of all decides the layout. */
  #check(l: LeaseInfo, began: number, now: number, first: boolean): void {
    checkLayout(l)
    const own = this.#layout
    const moved = l.customEpoch !== own.customEpoch
    const widths = l.bitTs === own.bitTs && l.bitReserve === own.bitReserve
    // Fallback IDs are never equal to leased ones, and with an earlier epoch those that follow are larger.
    const free = !this.#leased && first && (!this.#settled || (l.customEpoch < own.customEpoch && widths))
    if (moved && !free) throw new EpochMismatchError(`customEpoch is ${l.customEpoch}, that of the IDs before is ${own.customEpoch}`)
    if (!widths && !free) throw new LeaseholdError(`bitReserve and bitTs are ${l.bitReserve} and ${l.bitTs}: those of the IDs before are ${own.bitReserve} and ${own.bitTs}`)
    if (l.id < 0 || l.id >= 2 ** (l.bitId - 1)) throw new LeaseholdError(`id: must be from 0 to ${2 ** (l.bitId - 1) - 1}`)
    if (l.created >= l.expired) throw new LeaseholdError(`created ${l.created} and expired ${l.expired}: the interval is empty`)
    if (l.created < l.customEpoch || l.created - l.customEpoch >= 2 ** l.bitTs) throw new LeaseholdError('it begins at a time that its layout cannot say')
    if (l.created > now + this.#skew) throw new LeaseholdError(`it begins in ${l.created - now} ms: the local clock is behind the provider's by more than maxSkew, ${this.#skew} ms`)
    if (l.created < began - this.#skew) throw new LeaseholdError(`it began ${began - l.created} ms before it was asked for: the local clock is ahead of the provider's by more than maxSkew, ${this.#skew} ms`)
    if (l.expired <= now) throw new LeaseholdError(`it ended ${now - l.expired} ms ago`)
    const { customEpoch, bitReserve, bitTs, bitId, bitSeq } = l
    if (moved && this.#settled) {
      const error = new EpochMismatchError(`customEpoch is ${customEpoch}, that of the fallback IDs before is ${own.customEpoch}: set defaultEpoch`)
      this.#stats.epochMismatches++
      this.#emit({ type: 'epoch-changed', error })
      this.#warn('IDs go on with the epoch of the first lease', { error: error.message })
    }
    if (moved || !widths || bitId !== own.bitId || bitSeq !== own.bitSeq) this.#segment = undefined
    this.#layout = { customEpoch, bitReserve, bitTs, bitId, bitSeq }
  }

  async #release(l: LeaseInfo): Promise<unknown> {
    // No ID has a later timestamp by now.
    const timestamp = Math.max(this.#now(), this.#last, l.created - 1)
    if (l.expired <= timestamp) return undefined
    const scope = new Scope().within(this.#clock, requestTime, () => new NoResponseError(`the provider did not respond within ${requestTime} ms`))
    try {
      const signature = await signRelease(l.secret, l.id, timestamp)
      const { serviceId } = this.#o
      const asked = { ...(serviceId !== undefined && { serviceId }), id: l.id, signature, timestamp }
      await orAborted((async () => (this.#provider as LeaseProvider).release(asked, scope.signal))(), scope.signal)
      this.#emit({ type: 'released', leases: 1 })
      return undefined
    } catch (error) {
      this.#emit({ type: 'release-failed', leases: 1, error })
      return error
    } finally {
      scope.end()
    }
  }
}

/** A clock whose timers keep no process of Node alive: a program that forgets to close its generator ends all the same. */
const background = (clock: Clock): Clock => clock !== systemClock || globalThis.document ? clock : {
  ...clock,
  after(ms, call) {
    const timer = setTimeout(call, ms) as unknown as number & { unref?(): void }
    timer.unref?.()
    return () => clearTimeout(timer)
  },
}

/** The IDs of a millisecond under leases. */
const width = (leases: readonly LeaseInfo[]): number => leases.reduce((sum, l) => sum + 2 ** l.bitSeq, 0)

/** Whether two leases have numbers below the timestamp in common. */
const overlap = (a: LeaseInfo, b: LeaseInfo): boolean => a.id * 2 ** a.bitSeq < (b.id + 1) * 2 ** b.bitSeq && b.id * 2 ** b.bitSeq < (a.id + 1) * 2 ** a.bitSeq

const sorted = (leases: readonly Holding[]): Holding[] => [...leases].sort((a, b) => a.id * 2 ** a.bitSeq - b.id * 2 ** b.bitSeq)

/**
 * Whether what the provider sent is to be cured by those who run the program or the server: its URL, its rights, its settings. A failure of a proxy is not, nor
 * is a damaged document: IDs go on without a lease.
 */
const isConfiguration = (e: unknown): boolean => e instanceof ConfigurationError || (e instanceof InvalidResponseError
  ? (e.status < 500 || e.status === 501) && !passes(e.status)
  : isFinal(e) && !(e instanceof DocumentDamagedError || e instanceof NoResponseError))

/** The labels of this process, as far as the runtime says them without asking for a permission. */
function ownLabels(): Record<string, string> | undefined {
  const { process, Deno } = globalThis as { process?: { pid?: number; getBuiltinModule?: (name: string) => { hostname(): string } | undefined }; Deno?: unknown }
  const labels: Record<string, string> = {}
  try {
    if (process?.pid) labels['pid'] = String(process.pid)
    const host = Deno === undefined ? process?.getBuiltinModule?.('node:os')?.hostname() : undefined
    if (host) labels['host'] = checkText('meta', host, 512)
  } catch {
    // it has none that can be told
  }
  return Object.keys(labels).length > 0 ? labels : undefined
}

function leaseOf(l: unknown): LeaseInfo {
  const got = l as LeaseInfo | null
  for (const k of ['id', 'created', 'expired', 'customEpoch', 'bitReserve', 'bitTs', 'bitId', 'bitSeq'] as const) {
    if (!Number.isSafeInteger(got?.[k])) throw new InvalidResponseError(`invalid response: its ${k} is ${String(got?.[k])}`)
  }
  if (typeof got?.secret !== 'string') throw new InvalidResponseError('invalid response: a lease has no secret')
  return got
}
