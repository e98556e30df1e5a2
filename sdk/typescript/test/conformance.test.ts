// Every conformance script, against the player. The time is that of a clock that the runner moves; contracts/conformance/README.md says how.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, test } from 'node:test'
import { ApiError, InvalidResponseError, InvalidSettingError, NoResponseError, LeaseholdError, Lock, LockLostError, Locks, NotReleasedError } from '../src/index.js'
import { acquireAll } from '../src/sets.js'
import { ClockBackwardError, ConfigurationError, IdGenerator, LeaseAcquisitionError, decodeId, formatId } from '../src/ids.js'
import { Election, type Leader } from '../src/election.js'
import { Idempotency, idempotent, storeOutcome, storeSuccess } from '../src/idempotency.js'
import { Runs } from '../src/once.js'
import { player as program, start } from './player.js'
import { FakeClock, settle } from './world.js'

interface Step {
  call?: string; cancel?: string; began?: string; return?: string; result?: string; held?: string; lost?: string; pass?: number; freeze?: number; set?: number
  request?: string; deliver?: string; stop?: string
  http?: { method: string; path: string; headers?: [string, string][]; body?: string }
  as?: string; key?: string; keys?: string[]; of?: string; count?: number; options?: Record<string, never>
  fault?: string; hold?: string; repeat?: string; value?: string | Responds; error?: string; within?: number; before?: number; clocks?: string
}
interface Responds { status: number; headers?: [string, string][]; body?: string; times?: number; nothing_done?: boolean }
interface Script {
  name: string; area: string; proves: string; steps: Step[]
  client: { tenant?: string; owner?: string; ttl_seconds?: number; token?: string; middleware?: { name: string; required?: boolean; store?: string; wait?: number; max_body?: number } }
}

/** What this client has; placement is not. */
const areas = ['locks', 'once', 'ids', 'elections', 'middleware']

/** What a call obtained, and how it goes on. */
interface Call {
  stop: AbortController
  over: boolean
  seen?: { value?: unknown; error?: unknown }
  lock?: Lock
  leader?: Leader
  ids?: IdGenerator
  signal?: AbortSignal
  token?: number
  body?: string
  begun: boolean
  end?: (f: { value?: string | Responds; error?: string }) => void
}

class Failed extends Error {}

/** The neutral class of an error. */
function classOf(e: unknown, call: Call): Record<string, unknown> {
  if (e === call.stop.signal.reason && call.stop.signal.aborted) return { class: 'cancelled' }
  if (e instanceof Failed) return { class: 'failed' }
  if (e instanceof ConfigurationError) return { ...(e.cause === undefined ? {} : classOf(e.cause, call)), class: 'rejected' }
  if (e instanceof NotReleasedError && e.message.includes('machine IDs')) return { class: 'unavailable' }
  if (e instanceof LockLostError) return { class: 'lost', code: e.code }
  if (e instanceof NotReleasedError) return { class: 'not_released' }
  if (e instanceof ClockBackwardError) return { class: 'clock' }
  if (e instanceof LeaseAcquisitionError && (e.cause instanceof InvalidResponseError || classOf(e.cause, call)['class'] === 'rejected')) return { ...classOf(e.cause, call), class: 'rejected' }
  if (e instanceof LeaseAcquisitionError) return e.cause instanceof LeaseholdError ? { ...classOf(e.cause, call), class: 'unavailable' } : { class: 'unavailable' }
  if (e instanceof NoResponseError || e instanceof InvalidResponseError) return { class: 'unavailable' }
  if (e instanceof InvalidSettingError) return { class: 'invalid', field: e.field }
  if (e instanceof ApiError) {
    const seen = { code: e.code, field: e.field, owner: e.owner, ...(e.retryAfter > 0 && { retry_after_ms: e.retryAfter }) }
    if (['LOCK_HELD', 'LOCK_DELAYED', 'LOCK_QUEUE_FULL'].includes(e.code)) return { class: 'held', ...seen }
        if (['LEASE_LOST', 'LEASE_EXPIRED', 'LEASE_RELEASED', 'NOT_OWNER'].includes(e.code)) return { class: 'lost', ...seen }
    return { class: e.retryable || e.status >= 500 ? 'unavailable' : 'rejected', ...seen }
  }
  if (e instanceof LeaseholdError) return e.cause === undefined ? { class: 'unavailable' } : classOf(e.cause, call)
  throw e
}

class Runner {
  readonly clock = new FakeClock()
  readonly calls = new Map<string, Call>()
  readonly repeats = new Map<string, Step>()
  /** Requests under way. Those that are stuck get no answer until something happens. */
  readonly sent = new Set<{ what: string; stuck: boolean; hold?: string | undefined }>()
  /** Requests that no step has asked for yet, in their order. One may be over by then, and the next one under way. */
  readonly log: { what: string; stuck: boolean; hold?: string | undefined }[] = []
  begin = 0

  constructor(readonly script: Script, readonly run: string, readonly base: string) {}

  readonly fetch: typeof fetch = async (input, init) => {
    const what = `${init?.method ?? 'GET'} ${String(input).slice(this.base.length)}`
    const one = { what, stuck: [...this.repeats.values()].some((r) => r.request === what && (r.fault === 'hang' || r.hold !== undefined)) }
    this.sent.add(one)
    if (![...this.repeats.values()].some((r) => r.request === what)) this.log.push(one)
    try {
      const response = await fetch(input, init)
      // The body, too, so that nothing of the exchange happens later.
      const body = await response.arrayBuffer()
      const copy = new Response(body.byteLength === 0 ? null : body, { status: response.status, headers: response.headers })
      return copy
    } finally {
      this.sent.delete(one)
    }
  }

  async waiting(arrival = 0): Promise<number> {
    const got = (await (await fetch(`${this.run}${arrival > 0 ? `?arrival=${arrival}` : ''}`)).json()) as { waiting: number }
    return got.waiting
  }

  /** Lets the client do what it does now: until each of its requests has been answered, waits for a step, or is stuck. The result is how many wait. */
  async quiet(): Promise<number> {
    for (;;) {
      await settle()
      const open = [...this.sent].filter((s) => !s.stuck).length
      if (open === 0) return 0
      const waiting = await this.waiting(this.repeats.size > 0 ? 0.02 : 0.2)
      const now = [...this.sent].filter((s) => !s.stuck).length
      if (now > 0 && waiting >= now) {
        await settle()
        return waiting
      }
    }
  }

  /** Moves the clock to the next timer that is due before the end; false if there is none. */
  async step(end: number): Promise<boolean> {
    const next = this.clock.next()
    if (next === undefined || next > end) return false
    await this.clock.fire(end)
    return true
  }

  /** Lets time pass until something has happened, at most until the bound of the step. */
  async wait(s: Step, happened: (waiting: number) => boolean): Promise<void> {
    const now = this.clock.mono
    const end = s.before !== undefined ? this.begin + s.before * 1000 - 0.001 : now + (s.within ?? 0) * 1000
    for (;;) {
      const waiting = await this.quiet()
      if (happened(waiting)) return
      if (s.within === undefined && s.before === undefined) {
        if (this.sent.size === 0 && !(await this.busy(happened))) return
        if (this.sent.size > 0) return
        continue
      }
      if (!(await this.step(end))) {
        if (await this.busy(happened)) return
        this.clock.skip(Math.max(0, end - this.clock.mono))
        await this.quiet()
        return
      }
    }
  }

  /** Waits a little of true time for what runs outside of the event loop, such as a signature. */
  async busy(happened: (waiting: number) => boolean): Promise<boolean> {
    for (let i = 0; i < 20; i++) {
      await new Promise((resolve) => setTimeout(resolve, 5))
      if (happened(await this.quiet())) return true
    }
    return false
  }

  async take(i: number, seen: object): Promise<boolean> {
    const got = (await (await fetch(`${this.run}/steps/${i}`, { method: 'POST', body: JSON.stringify(seen) })).json()) as { ok: boolean }
    return got.ok
  }

  call(name: string): Call {
    const c = this.calls.get(name)
    assert.ok(c, `there is no call ${name}`)
    return c
  }

  begins(s: Step): void {
    const { client } = this.script
    const o = (s.options ?? {}) as Record<string, number> & Record<string, never>
    const ms = (n: number | undefined) => (n === undefined ? undefined : n * 1000)
    const call: Call = { stop: new AbortController(), over: false, begun: false }
    const given = <T extends object>(all: T): T => Object.fromEntries(Object.entries(all).filter(([, v]) => v !== undefined)) as T
    const server = given({
      url: this.base, tenant: client.tenant ?? 'acme', owner: client.owner, token: client.token, fetch: this.fetch, clock: this.clock,
    }) as { url: string; tenant: string; owner: string }
    const { signal } = call.stop
    const lock = given({
      ttl: ms(o['ttl']), wait: ms(o['wait']), mode: o['shared'] ? ('shared' as const) : undefined, permits: o['permits'], fair: o['fair'], maxWaiting: o['max_waiting'],
      replace: o['replace'], lockDelay: ms(o['lock_delay']), maxHold: ms(o['max_hold']), metadata: o['metadata'], signal,
    }) as object
    const key = s.key ?? ''
    const kept = (l: Lock) => {
      call.lock = l
      call.signal = l.signal
      call.token = l.token
      return l
    }
    const work = (given: { token: number; signal: AbortSignal }) => {
      call.begun = true
      call.signal = given.signal
      call.token = given.token
      return new Promise<string>((resolve, reject) => {
        call.end = (f) => (f.error === undefined ? resolve((f.value ?? '') as string) : reject(new Failed(f.error)))
      })
    }
    const idempotency = () => {
      const { name, required, store, wait, max_body } = client.middleware ?? { name: '' }
      return (this.#idempotency ??= new Idempotency(new Runs(server), {
        name, scope: (request) => request.headers.get('x-account') ?? 'ann', store: store === 'success' ? storeSuccess : storeOutcome, onWarning: () => undefined,
        ...(given({ required, wait: ms(wait), maxBody: max_body }) as object),
      }))
    }
    const handler = async (request: Request): Promise<Response> => {
      const run = idempotent(request)
      call.body = await request.text()
      const does = (await work({ token: run?.token as number, signal: run?.signal as AbortSignal })) as unknown as Responds | ''
      if (does === '') return undefined as never
      if (does.nothing_done) run?.nothingDone()
      return new Response(does.body === undefined ? null : does.body.repeat(does.times ?? 1), { status: does.status, headers: does.headers ?? [] })
    }
    const locks = () => (this.#locks ??= new Locks({ ...server, ...(client.ttl_seconds && { ttl: client.ttl_seconds * 1000 }) }))
    const election = () => new Election(locks(), key)
    const does: Record<string, () => Promise<unknown>> = {
      acquire: async () => kept(await locks().acquire(key, lock)),
      try: async () => kept(await locks().acquire(key, { ...lock, wait: 0 })),
      do: async () => ({ result: await locks().request(key, lock, (l: Lock | null) => work(kept(l as Lock))) }),
      acquire_all: async () => {
        const l = kept(await acquireAll(locks(), s.keys ?? [], lock))
        return { tokens: Object.fromEntries(l.tokens) }
      },
      take: async () => {
        const { wait, maxWaiting, metadata } = lock as { wait?: number; maxWaiting?: number; metadata?: Record<string, string> }
        const rate = { limit: o['limit'] ?? 0, window: (o['window'] ?? 0) * 1000 }
        return { token: await locks().take(key, rate, given({ wait, maxWaiting, metadata, signal }) as object) }
      },
      release: async () => {
        await this.call(s.of ?? '').lock?.release()
        return {}
      },
      once: async () => {
        const options = given({
          ttl: ms(o['ttl']), heartbeat: ms(o['heartbeat']), wait: ms(o['wait']), maxFailures: o['max_failures'], maxTakeovers: o['max_takeovers'], fingerprint: o['fingerprint'], signal,
        }) as object
        const got = await new Runs(server).run(key, work, options)
        return given({ status: got.status, result: got.result, token: got.token, retry_after_ms: got.retryAfter })
      },
      campaign: async () => {
        const leader = (call.leader = await election().campaign({ signal }))
        call.signal = leader.signal
        return { token: leader.token }
      },
      lead: async () => ({ result: await election().lead(work, { signal }) }),
      resign: async () => {
        await this.call(s.of ?? '').leader?.resign()
        return {}
      },
      leader: async () => {
        const leader = await election().leader({ signal })
        return { leads: leader !== null, owner: leader?.owner, lease_id: leader?.leaseId }
      },
      observe: async () => {
        const leaders: string[] = []
        for await (const { leader, error } of election().observe({ signal })) {
          leaders.push(error === undefined ? (leader?.owner ?? '') : 'unknown')
          if (leaders.length === s.count) break
        }
        return { leaders }
      },
      generator: async () => {
        const options = given({
          url: this.base, token: client.token, fetch: this.fetch, clock: this.clock, serviceId: o['service'], maxThroughputPerMs: o['throughput_per_ms'],
          disableFallback: o['no_fallback'], maxBackwardMs: o['max_backward_ms'], log: { warn: () => undefined },
        }) as object
        call.ids = new IdGenerator(options)
        await call.ids.ready()
        return {}
      },
      next: async () => {
        const { ids } = this.call(s.of ?? '')
        assert.ok(ids)
        const count = s.count ?? 1
        const got = await ids.batch(count, signal)
        const say = (id: bigint | undefined) => {
          const { time, machineId, sequence, fallback } = decodeId(id ?? 0n, ids.layout)
          return { id: formatId(id ?? 0n), time_ms: time.getTime(), machine_id: machineId, sequence, fallback }
        }
        return { count: got.length, ascending: got.every((id, i) => i === 0 || id > (got[i - 1] ?? 0n)), first: say(got[0]), last: say(got.at(-1)) }
      },
      handle: async () => {
        const { method, path, headers = [], body = null } = s.http ?? { method: '', path: '' }
        const response = await idempotency().wrap(handler)(new Request(`http://pay.example${path}`, { method, headers, body, signal }))
        const text = await response.text()
        const type = response.headers.get('content-type') ?? ''
        return { status: response.status, headers: Object.fromEntries(response.headers), body: text, ...(type.endsWith('json') && { json: JSON.parse(text) as unknown }) }
      },
      close: async () => {
        if (s.of === undefined) return { not_stored: (await idempotency().close(ms(o['wait']))).length > 0 }
        await this.call(s.of ?? '').ids?.close()
        return {}
      },
    }
    const begin = does[s.call ?? '']
    assert.ok(begin, `the runner does not know the call ${s.call}`)
    this.calls.set(s.as ?? s.call ?? '', call)
    void begin().then(
      (value) => {
        call.seen = { value: value instanceof Lock ? { key: value.key, token: value.token, permit: value.permit } : value }
        call.over = true
      },
      (error: unknown) => {
        call.seen = { error }
        call.over = true
      },
    )
  }
  #locks: Locks | undefined
  #idempotency: Idempotency | undefined

  /** Does the runner's part of a step. The result is what it observed. */
  async part(s: Step): Promise<object> {
    if (s.call !== undefined) {
      this.begins(s)
      return {}
    }
    if (s.request !== undefined) {
      if (s.repeat !== undefined) {
        await this.quiet() // what was sent before this step is one of them, too
        this.repeats.set(s.repeat, s)
        for (const one of this.sent) one.stuck ||= one.what === s.request && (s.fault === 'hang' || s.hold !== undefined)
        this.log.splice(0, Infinity, ...this.log.filter((one) => one.what !== s.request))
      }
      else if (s.within !== undefined || s.before !== undefined) await this.wait(s, (waiting) => waiting > 0)
      return {}
    }
    if (s.result !== undefined) {
      const call = this.call(s.result)
      await this.wait(s, () => call.over)
      if (!call.seen) return {}
      return 'error' in call.seen ? { error: classOf(call.seen.error, call) } : { value: call.seen.value }
    }
    if (s.began !== undefined) {
      const call = this.call(s.began)
      await this.wait(s, () => call.begun)
      return call.begun ? { value: { token: call.token, body: call.body } } : {}
    }
    if (s.return !== undefined) {
      const { value, error } = s
      const call = this.call(s.return)
      call.begun = false // a leader may begin anew
      call.end?.({ ...(value !== undefined && { value }), ...(error !== undefined && { error }) })
      return {}
    }
    const name = s.held ?? s.lost
    if (name !== undefined) {
      const { signal } = this.call(name)
      const lost = () => signal?.aborted === true && signal.reason instanceof LockLostError
      if (s.lost !== undefined && (s.within !== undefined || s.before !== undefined)) await this.wait(s, lost)
      return lost() ? { lost: true, code: (signal?.reason as LockLostError).code } : { lost: false }
    }
    if (s.cancel !== undefined) {
      this.call(s.cancel).stop.abort()
      await settle()
    } else if (s.pass !== undefined) {
      const end = this.clock.mono + s.pass * 1000
      while ((await this.quiet()) === 0 && (await this.step(end)));
      this.clock.skip(Math.max(0, end - this.clock.mono))
      await this.quiet()
    } else if (s.freeze !== undefined) {
      this.clock.time += s.freeze * 1000
      if (s.clocks !== 'wall') this.clock.mono += s.freeze * 1000
      // What is due fires after it; the program may look before.
    } else if (s.set !== undefined) {
      this.clock.time += s.set * 1000
    }
    return {}
  }

  async play(): Promise<{ passed: boolean; failures: string[] }> {
    this.begin = this.clock.mono
    for (const [i, s] of this.script.steps.entries()) {
      const seen = await this.part(s)
      if (!(await this.take(i, seen))) break
      if (s.request !== undefined && s.repeat === undefined) {
        // The answer has been written: let the client have it. Without one the request is stuck.
        const at = this.log.findIndex((r) => r.what === s.request)
        const [one] = at < 0 ? [] : this.log.splice(at, 1)
        if (s.fault === 'hang' || s.hold !== undefined) {
          if (one) Object.assign(one, { stuck: true, hold: s.hold })
        } else {
          while (one && this.sent.has(one)) await new Promise((resolve) => setImmediate(resolve))
        }
      }
      if (s.deliver !== undefined) {
        for (const r of this.sent) if (r.hold === s.deliver) r.stuck = false
      }
      if (s.stop !== undefined) this.repeats.delete(s.stop)
      await settle()
    }
    const outcome = (await (await fetch(`${this.run}/end`, { method: 'POST', body: '{}' })).json()) as { passed: boolean; failures: string[] }
    for (const c of this.calls.values()) {
      c.stop.abort()
      void c.ids?.close().catch(() => undefined)
    }
    return outcome
  }
}

if (!existsSync(program)) {
  test('conformance scripts', { skip: 'needs the repository, and go in the PATH' })
} else {
  const player = await start(program, ['-stdin'])
  after(() => player.process.stdin?.end())
  const { start: begin, scripts } = (await (await fetch(`${player.url}/scripts`)).json()) as { start: string; scripts: Script[] }
  assert.ok(scripts.length > 0)
  for (const script of scripts.filter(s => areas.includes(s.area))) {
    test(`${script.name}: ${script.proves}`, { timeout: 120_000 }, async () => {
      const made = (await (await fetch(`${player.url}/runs`, { method: 'POST', body: JSON.stringify({ script: script.name }) })).json()) as { run: string; base_url: string }
      const runner = new Runner(script, made.run, made.base_url)
      runner.clock.time = Date.parse(begin)
      const { passed, failures } = await runner.play()
      assert.ok(passed, failures.join('\n'))
    })
  }
}
