/**
 * A generator of IDs under leases of machine IDs.
 *
 * A lease owns the timestamps [created, expired) of its machine ID, whatever any clock shows: that is why no two IDs are equal.
 *
 * @module
 */
import { checkFunction, checkLabels, checkNumber, checkObject, checkText, invalid } from './check.js'
import { DocumentDamagedError } from './codes.gen.js'
import { ClosedError, InvalidResponseError, LeaseholdError, NotReleasedError, passes } from './errors.js'
import { Server, type ServerOptions } from './http.js'
import { isFinal, messageOf, retryAfter } from './judge.js'
import { type Layout, checkLayout, defaultLayout, signRelease } from './layout.js'
import { type Clock, Scope, pause, systemClock } from './time.js'

/** Settings of {@link IdGenerator}. Times are in milliseconds. */
export interface GeneratorOptions extends Partial<Pick<ServerOptions, 'token' | 'fetch' | 'clock'>> {
  /** The server that leases machine IDs; without it all IDs are made without a lease. */
  readonly url?: string | URL
  /** Names the service whose machine IDs are leased. */
  readonly service?: string
  /** How many IDs in a millisecond are needed; 256 if left out, one lease of the default layout. */
  readonly throughputPerMs?: number
  /** Fail with a {@link LeaseAcquisitionError} instead of IDs without a lease. */
  readonly disableFallback?: boolean
  /** How far the clock may be behind the last ID: up to that it is waited for; beyond, the error is a {@link ClockBackwardError}. 5000 if left out, negative is no limit. */
  readonly maxBackward?: number
  /** How far a lease may begin from the local clock; 5000 if left out. */
  readonly maxSkew?: number
  /** After a first failure to acquire; it doubles up to retryMaxInterval. 1000 and 60 000 if left out. */
  readonly retryInterval?: number
  readonly retryMaxInterval?: number
  /** Labels for people who read the server's log. */
  readonly meta?: Readonly<Record<string, string>>
  /** Until the first lease sets it. */
  readonly layout?: Layout
  /** Receives what operators want to know: failures to acquire, leases that were rejected, IDs that are made without a lease. */
  readonly onEvent?: (event: { readonly type: 'acquired' | 'acquire-failed' | 'lease-rejected' | 'fallback' | 'recovered' | 'released' | 'release-failed'; readonly error?: unknown }) => void
}

/** The clock is behind the last ID by more than `maxBackward`. It goes away when the clock has caught up. */
export class ClockBackwardError extends LeaseholdError {
  override readonly name = 'ClockBackwardError'
  constructor(readonly backwardMs: number, readonly limitMs: number) {
    super(`the clock is ${backwardMs} ms behind the last ID, more than ${limitMs} ms`)
  }
}

/** There is no lease, and IDs without one are disabled. `cause` says why the last attempt failed. */
export class LeaseAcquisitionError extends LeaseholdError {
  override readonly name = 'LeaseAcquisitionError'
}

/** There never was a lease, and what the server sent is none: wrong URL, credentials or service. */
export class ConfigurationError extends LeaseholdError {
  override readonly name = 'ConfigurationError'
}

/** The clock shows a time that the layout cannot say. */
export class TimeRangeError extends LeaseholdError {
  override readonly name = 'TimeRangeError'
}

interface MachineLease extends Layout {
  readonly id: number
  readonly created: number
  readonly expired: number
  readonly secret: string
}

interface Holding extends MachineLease {
  readonly renewAt: number
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

const acquireTime = 10_000
const gap = 100 // for a lease that begins later, and is waited for

/** Makes IDs that are larger than all that it made before. */
export class IdGenerator {
  readonly #o: GeneratorOptions
  readonly #clock: Clock
  readonly #server: Server | undefined
  readonly #closed = new Scope()
  readonly #backward: number
  readonly #skew: number
  readonly #throughput: number
  #layout: Layout
  #settled = false // IDs were made: the layout no longer changes
  #base: number
  #anchorAt: number
  #held: Holding[] = []
  #cached: readonly Holding[] = []
  #leased = false
  #segment: Segment | undefined
  #last = -1 // Unix milliseconds of the last ID
  #index = 0 // indices of it that are taken
  #start = 0 // the index that the millisecond began with
  #failures = 0
  #failure: unknown
  #tryAt = 0
  #trying: Promise<void> | undefined
  #wake = new Scope()
  readonly #done: Promise<void>

  /** Makes a generator, which begins to lease in the background. Call {@link close} at the end. */
  constructor(options: GeneratorOptions = {}) {
    checkObject('options', options)
    this.#o = options
    this.#clock = options.clock ?? systemClock
    this.#backward = options.maxBackward ?? 5000
    this.#skew = options.maxSkew ?? 5000
    this.#throughput = options.throughputPerMs ?? 256
    this.#layout = options.layout ?? defaultLayout
    checkLayout(this.#layout)
    checkNumber('maxBackward', this.#backward, -Infinity, Infinity)
    checkNumber('maxSkew', this.#skew, 0, Infinity)
    checkNumber('throughputPerMs', this.#throughput, 1, 2 ** (this.#layout.bitId + this.#layout.bitSeq - 1), 1)
    for (const k of ['retryInterval', 'retryMaxInterval'] as const) if (options[k] !== undefined) checkNumber(k, options[k], 1, Infinity)
    if (options.onEvent) checkFunction('onEvent', options.onEvent)
    if (options.service !== undefined) checkText('service', options.service, 128)
    checkLabels('meta', options.meta)
    if (options.url === undefined && options.disableFallback) throw invalid('url', 'is left out, and IDs without a lease are disabled')
    this.#base = this.#clock.wall() - this.#clock.now()
    this.#anchorAt = this.#clock.now() + 1000
    if (options.url !== undefined) {
      this.#server = new Server({ url: options.url, tenant: '-', clock: this.#clock, ...(options.token !== undefined && { token: options.token }), ...(options.fetch !== undefined && { fetch: options.fetch }) })
      this.#done = this.#renew()
    } else {
      this.#done = Promise.resolve()
    }
  }

  /** How the IDs are laid out: by the leases, or before the first one by the options. */
  get layout(): Layout {
    return this.#layout
  }

  /** Waits until there is a lease, or the first attempt to get one has failed, and says which. */
  async ready(): Promise<boolean> {
    await this.#settle()
    return this.#leased
  }

  /** Makes an ID. It waits for the next millisecond when this one's are used up, and for a clock that was set back. */
  async next(signal?: AbortSignal): Promise<bigint> {
    return (await this.batch(1, signal))[0] as bigint
  }

  /** Makes IDs, in ascending order. */
  async batch(count: number, signal?: AbortSignal): Promise<bigint[]> {
    checkNumber('count', count, 0, Number.MAX_SAFE_INTEGER, 1)
    const ids: bigint[] = []
    const scope = new Scope(signal, this.#closed.signal)
    try {
      while (ids.length < count) {
        scope.signal.throwIfAborted()
        const wait = this.#take(count - ids.length, ids)
        if (typeof wait === 'number') await pause(this.#clock, Math.max(wait, 0.05), scope.signal)
        else await wait
      }
    } finally {
      scope.end()
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
    const errors = (await Promise.all(held.map((l) => this.#release(l)))).filter((e) => e !== undefined)
    if (errors.length > 0) throw new NotReleasedError(`${errors.length} leases of machine IDs were not released, and expire`, { cause: errors[0] })
  }

  /** {@link close}, without its error. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close().catch(() => undefined)
  }

  #emit(event: Parameters<NonNullable<GeneratorOptions['onEvent']>>[0]): void {
    try {
      this.#o.onEvent?.(event)
    } catch {
      // it disturbs no ID
    }
  }

  /** The time in Unix milliseconds, by the monotonic clock and the last sample of the wall clock. */
  #now(force = false): number {
    const now = this.#clock.now()
    if (force || now >= this.#anchorAt || this.#backward === 0) {
      this.#base = this.#clock.wall() - now
      this.#anchorAt = now + 1000
    }
    return Math.floor(this.#base + now)
  }

  async #settle(): Promise<void> {
    if (this.#server && !this.#leased && this.#failures === 0 && !this.#closed.signal.aborted) await this.#trying
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
    if (took <= 0) return this.#early(this.#last + 1, now)
    this.#settled = true
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
  #change(now: number, from: number): true | number | Promise<void> | undefined {
    const s = this.#build(from, this.#o.disableFallback ? Infinity : now + gap)
    if (s) {
      if (this.#segment?.fallback) this.#emit({ type: 'recovered' })
      this.#segment = s
      return true
    }
    if (this.#server) {
      this.#wake.abort(undefined)
      const coming = this.#held.some((l) => now < l.created)
      if ((this.#failures === 0 && !coming) || (this.#o.disableFallback && this.#trying)) return this.#trying ?? 1
      if (this.#o.disableFallback) throw new LeaseAcquisitionError('there is no lease of a machine ID', { cause: this.#failure })
      if (!this.#leased && isConfiguration(this.#failure)) throw new ConfigurationError('there never was a lease, and the server sent none', { cause: this.#failure })
    }
    const until = Math.min(this.#layout.customEpoch + 2 ** this.#layout.bitTs, ...this.#held.filter((l) => from < l.created).map((l) => l.created))
    const leases = this.#held.length > 0 ? this.#held.filter((l) => l.expired <= from) : this.#cached
    const cap = leases.length > 0 ? leases.reduce((sum, l) => sum + 2 ** l.bitSeq, 0) : Math.min(this.#throughput, 2 ** (this.#layout.bitId + this.#layout.bitSeq - 2))
    if (!this.#segment?.fallback && this.#server) this.#emit({ type: 'fallback', error: this.#failure })
    this.#segment = { from, until, leases: sorted(leases), cap, fallback: true }
    return true
  }

  #build(at: number, before: number): Segment | undefined {
    const live = this.#held.filter((l) => l.created <= at && at < l.expired)
    const later = Math.min(...this.#held.filter((l) => at < l.created).map((l) => l.created))
    if (live.length === 0) return later <= before && later !== Infinity ? this.#build(later, before) : undefined
    return {
      from: at, until: Math.min(later, ...live.map((l) => l.expired)), leases: sorted(live), cap: live.reduce((sum, l) => sum + 2 ** l.bitSeq, 0), fallback: false,
    }
  }

  /** The background: the only one that leases. */
  async #renew(): Promise<void> {
    const { signal } = this.#closed
    while (!signal.aborted) {
      const now = this.#now(true)
      const live = this.#held.filter((l) => now < l.renewAt)
      const need = this.#throughput - live.reduce((sum, l) => sum + 2 ** l.bitSeq, 0)
      const wait = need > 0 ? this.#tryAt - this.#clock.now() : Math.min(...live.map((l) => l.renewAt)) - now
      if (need > 0 && wait <= 0) {
        this.#trying = this.#acquire(need)
        await this.#trying
        this.#trying = undefined
        continue
      }
      this.#wake = new Scope(signal)
      await pause(this.#clock, Math.max(1, Math.min(wait, 10_000)), need > 0 ? signal : this.#wake.signal)
      this.#wake.end()
    }
  }

  async #acquire(need: number): Promise<void> {
    const server = this.#server as Server
    const began = this.#now(true)
    let leases: MachineLease[] = []
    let error: unknown
    try {
      const { service, meta } = this.#o
      const body = { ...(service !== undefined && { serviceId: service }), ...(meta && { meta }), throughputPerMs: need }
      const got = await server.ask('/v1/machine-ids/lease', body, acquireTime, this.#closed.signal, acquireTime, 'notAfter')
      if (!Array.isArray(got['leases']) || got['leases'].length === 0) throw new InvalidResponseError('invalid response: it has no leases')
      leases = got['leases'].map(leaseOf)
      error = this.#accept(leases, began)
    } catch (e) {
      error = e
    }
    if (error === undefined) {
      this.#failures = 0
      this.#failure = undefined
      const lasts = Math.min(this.#o.retryInterval ?? 1000, ...leases.map((l) => (l.expired - l.created) / 10))
      this.#tryAt = this.#clock.now() + Math.max(1, lasts)
      return
    }
    if (this.#closed.signal.aborted) return
    this.#failures++
    this.#failure = error
    this.#emit({ type: 'acquire-failed', error })
    const first = this.#o.retryInterval ?? 1000
    const bound = Math.min(this.#o.retryMaxInterval ?? Math.max(60_000, first), first * 2 ** Math.min(this.#failures - 1, 20))
    const hint = Math.min(retryAfter(error), 60_000)
    this.#tryAt = this.#clock.now() + Math.max((bound / 2) * (1 + Math.random()), hint)
  }

  /** Holds the leases that can be used, and releases the others. The result is an error if there are such. */
  #accept(leases: readonly MachineLease[], began: number): unknown {
    const now = this.#now(true)
    let fault: unknown
    const share = 0.85 + 0.1 * Math.random()
    const fresh: Holding[] = []
    for (const l of leases) {
      try {
        this.#check(l, began, now, fresh.length === 0)
        const clash = [...this.#held, ...fresh].some((o) => {
          const [low, high, a, b] = [l.id * 2 ** l.bitSeq, (l.id + 1) * 2 ** l.bitSeq, o.id * 2 ** o.bitSeq, (o.id + 1) * 2 ** o.bitSeq]
          return low < b && a < high && l.created < o.expired && o.created < l.expired
        })
        if (clash) throw new InvalidResponseError('it could make the same IDs as another lease that is held')
        fresh.push({ ...l, renewAt: l.created + (l.expired - l.created) * share })
      } catch (cause) {
        const kind = cause instanceof InvalidResponseError || isFinal(cause) ? InvalidResponseError : LeaseholdError // otherwise a clock is wrong
        fault = new kind(`lease of machine ID ${l.id} rejected: ${messageOf(cause)}`, { cause })
        this.#emit({ type: 'lease-rejected', error: fault })
        if (!this.#held.some((o) => o.id === l.id && o.secret === l.secret)) void this.#release(l)
      }
    }
    if (fresh.length === 0) return fault
    const gone = this.#held.filter((l) => now >= l.expired)
    if (gone.length > 0) this.#cached = gone
    this.#held = [...this.#held.filter((l) => now < l.expired), ...fresh]
    this.#leased = true
    if (this.#segment && !this.#segment.fallback) this.#segment = { ...this.#segment, until: Math.min(this.#segment.until, this.#last + 1) } // the next one has them all
    this.#emit({ type: 'acquired' })
    return fault
  }

  #check(l: MachineLease, began: number, now: number, first: boolean): void {
    checkLayout(l)
    const own = this.#layout
    const shared = l.customEpoch === own.customEpoch && l.bitTs === own.bitTs && l.bitReserve === own.bitReserve
    const free = !this.#leased && first && (!this.#settled || (l.customEpoch < own.customEpoch && l.bitTs === own.bitTs && l.bitReserve === own.bitReserve))
    if (!shared && !free) throw new InvalidResponseError('its customEpoch, bitTs or bitReserve is another than that of the IDs before')
    if (l.id < 0 || l.id >= 2 ** (l.bitId - 1)) throw new InvalidResponseError(`its id must be below ${2 ** (l.bitId - 1)}`)
    if (l.created >= l.expired) throw new InvalidResponseError('its interval is empty')
    if (l.created < l.customEpoch || l.created - l.customEpoch >= 2 ** l.bitTs) throw new InvalidResponseError('it begins at a time that its layout cannot say')
    if (l.created > now + this.#skew) throw new LeaseholdError('the local clock is behind the server\'s by more than maxSkew')
    if (l.created < began - this.#skew) throw new LeaseholdError('the local clock is ahead of the server\'s by more than maxSkew')
    if (l.expired <= now) throw new InvalidResponseError('it has ended')
    const { customEpoch, bitReserve, bitTs, bitId, bitSeq } = l
    if (!shared || bitId !== own.bitId || bitSeq !== own.bitSeq) this.#segment = undefined
    this.#layout = { customEpoch, bitReserve, bitTs, bitId, bitSeq }
  }

  async #release(l: MachineLease): Promise<unknown> {
    // No ID has a later timestamp by now.
    const timestamp = Math.max(this.#now(), this.#last, l.created - 1)
    if (l.expired <= timestamp) return undefined
    try {
      const signature = await signRelease(l.secret, l.id, timestamp)
      const { service } = this.#o
      await (this.#server as Server).send('DELETE', `/v1/machine-ids/lease/${l.id}`, { ...(service !== undefined && { serviceId: service }), signature, timestamp }, 10_000)
      this.#emit({ type: 'released' })
      return undefined
    } catch (error) {
      this.#emit({ type: 'release-failed', error })
      return error
    }
  }
}

const sorted = (leases: readonly Holding[]): Holding[] => [...leases].sort((a, b) => a.id * 2 ** a.bitSeq - b.id * 2 ** b.bitSeq)

/**
 * Whether what the server sent is to be cured by those who run the program or the server: its URL, its rights, its settings. A failure of a proxy is not, nor
 * is a damaged document: IDs go on without a lease.
 */
const isConfiguration = (e: unknown): boolean => e instanceof InvalidResponseError
  ? (e.status < 500 || e.status === 501) && !passes(e.status)
  : isFinal(e) && !(e instanceof DocumentDamagedError)

function leaseOf(l: unknown): MachineLease {
  const got = l as MachineLease | null
  for (const k of ['id', 'created', 'expired', 'customEpoch', 'bitReserve', 'bitTs', 'bitId', 'bitSeq'] as const) {
    if (!Number.isSafeInteger(got?.[k])) throw new InvalidResponseError(`invalid response: its ${k} is ${String(got?.[k])}`)
  }
  if (typeof got?.secret !== 'string') throw new InvalidResponseError('invalid response: a lease has no secret')
  return got
}
