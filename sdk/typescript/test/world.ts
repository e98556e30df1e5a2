// A clock that tests move, and a server of locks in this process: what the tests of the clients stand on. No test waits for real time.
import type { Clock } from '../src/time.js'

/** Digests that are being made, outside of the event loop. */
let digests = 0
const { subtle } = crypto
const digest = subtle.digest.bind(subtle)
subtle.digest = (...args) => (digests++, digest(...args).finally(() => digests--))

/** Lets everything run that is ready: promises, callbacks of the event loop, and digests. */
export async function settle(): Promise<void> {
  do for (let i = 0; i < 8; i++) await new Promise<void>((resolve) => setImmediate(resolve))
  while (digests > 0)
}

/** A clock that stands still until it is moved. */
export class FakeClock implements Clock {
  mono = 1000
  time = Date.UTC(2026, 0, 1)
  readonly #timers = new Map<number, { at: number; call: () => void }>()
  #last = 0

  now() {
    return this.mono
  }

  wall() {
    return this.time
  }

  after(ms: number, call: () => void) {
    const id = ++this.#last
    this.#timers.set(id, { at: this.mono + Math.max(0, ms), call })
    return () => void this.#timers.delete(id)
  }

  /** How many timers are set. */
  get timers() {
    return this.#timers.size
  }

  /** When the next timer is due. */
  next(): number | undefined {
    return this.#next(Infinity)?.at
  }

  #next(end: number) {
    let next: { id: number; at: number } | undefined
    for (const [id, t] of this.#timers) if (t.at <= end && (!next || t.at < next.at)) next = { id, at: t.at }
    return next
  }

  /** Moves to the next timer that is due until the end, and fires it. The result is false if there is none. */
  async fire(end: number): Promise<boolean> {
    const next = this.#next(end)
    if (!next) return false
    const timer = this.#timers.get(next.id)
    this.#timers.delete(next.id)
    this.skip(Math.max(0, next.at - this.mono))
    timer?.call()
    await settle()
    return true
  }

  /** Lets time pass: timers fire in their order, each at its time. */
  async pass(ms: number): Promise<void> {
    const end = this.mono + ms
    do await settle()
    while (await this.fire(end))
    this.skip(end - this.mono)
    await settle()
  }

  /** Moves both clocks without a timer: the process was stopped. */
  skip(ms: number) {
    this.mono += ms
    this.time += ms
  }

  /** Lets time pass until a promise is settled, and returns it. It fails after an hour. */
  async until<T>(work: Promise<T>, step = 100): Promise<T> {
    let over = false
    const watched = work.finally(() => (over = true))
    watched.catch(() => undefined)
    for (let passed = 0; !over; passed += step) {
      if (passed > 3_600_000) throw new Error('nothing happened in an hour')
      await settle()
      if (!over) await this.pass(step)
    }
    return watched
  }
}

export interface Sent {
  readonly method: string
  readonly path: string
  readonly body: Record<string, unknown>
  readonly at: number
}

type Answer = Response | Error | undefined | Promise<Response | Error | undefined>

export const json = (body: unknown, status = 200, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': status === 200 ? 'application/json' : 'application/problem+json', ...headers } })

export const problem = (code: string, status: number, more: Record<string, unknown> = {}) =>
  json({ type: 'about:blank', title: code, status, code, retryable: ['LOCK_HELD', 'UNAVAILABLE', 'LEASE_CHANGED', 'LOCK_DELAYED'].includes(code), ...more }, status)

/** The refusal of a request that came after its end, by a store whose time it is. */
export const late = (time: number, code = 'TOO_LATE', field = 'not_after') =>
  problem(code, code === 'TOO_LATE' ? 409 : 400, { field, store_time: new Date(time).toISOString() })

/** A server with one lock. A test changes its answers. */
export class FakeServer {
  readonly sent: Sent[] = []
  token = 100
  holder: { owner: string; request: string; token: number; until: number; ttl: number; renewal?: string } | undefined
  /** By how many milliseconds its clock is ahead of that of the client. */
  ahead = 0
  /** Requests that were given up, in their order. */
  readonly gone: string[] = []
  /** Requests that came after their end. */
  readonly late: Sent[] = []
  /** The next answers, one for each request; undefined answers as the server does. */
  readonly answers: ((r: Sent) => Answer)[] = []

  constructor(readonly clock: FakeClock) {}

  readonly fetch = (async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const url = new URL(String(input))
    const body = init?.body ? (JSON.parse(String(init.body)) as Record<string, unknown>) : {}
    const sent = { method: init?.method ?? 'GET', path: url.pathname, body, at: this.clock.mono }
    this.sent.push(sent)
    const own = this.answers.shift()
    const answer = own ? await own(sent) : undefined
    if (answer instanceof Error) throw answer
    return answer ?? this.answer(sent)
  }) as typeof fetch

  /** The paths' last segments. */
  get did() {
    return this.sent.map((s) => s.path.split('/').at(-1))
  }

  lease(more: Record<string, unknown> = {}) {
    const h = this.holder
    if (!h) throw new Error('not held')
    return {
      tenant_id: 'acme', lock_key: 'deploy', lease_id: `L${h.token}`, owner_id: h.owner, fencing_token: h.token, state: 'ACTIVE',
      acquired_at: new Date(this.clock.time).toISOString(), expires_at: new Date(h.until).toISOString(), remaining_ms: h.until - Math.floor(this.clock.time),
      ttl_seconds: h.ttl / 1000, metadata: {}, replayed: false, ...more,
    }
  }

  answer(sent: Sent): Response {
    const { path, body } = sent
    const now = Math.floor(this.clock.time)
    const time = now + this.ahead
    const owner = String(body['owner_id'])
    const request = String(body['request_id'])
    const ttl = Number(body['ttl_seconds']) * 1000
    const held = this.holder && this.holder.until > now ? this.holder : undefined
    switch (path.split('/').at(-1)) {
      case 'acquire':
        if (body['give_up']) {
          this.gone.push(request)
          if (held?.request === request) this.holder = undefined
          return new Response(null, { status: 204 })
        }
        if (this.gone.includes(request)) return problem('REQUEST_ID_REUSED', 422)
        if (time > Date.parse(String(body['not_after']))) return this.late.push(sent), late(time)
        if (held?.request === request) return json(this.lease({ replayed: true }))
        if (held) return problem('LOCK_HELD', 409, { owner_id: held.owner, retry_after_ms: held.until - now })
        this.holder = { owner, request, token: ++this.token, until: now + ttl, ttl }
        return json(this.lease())
      case 'renew':
        if (!held || held.token !== body['fencing_token']) return problem(held ? 'LEASE_LOST' : 'LEASE_EXPIRED', 409)
        if (held.renewal === request) return json(this.lease({ replayed: true }))
        if (body['expires_at'] !== new Date(held.until).toISOString()) {
          return problem('LEASE_CHANGED', 409, { expires_at: new Date(held.until).toISOString() })
        }
        held.until = now + ttl
        held.renewal = request
        return json(this.lease())
      case 'release': {
        if (!held || held.token !== body['fencing_token']) return problem('LEASE_LOST', 409)
        const { remaining_ms: _, ...ended } = this.lease({ state: 'RELEASED' })
        this.holder = undefined
        return json(ended)
      }
      default:
        return problem('NOT_FOUND', 404)
    }
  }
}
