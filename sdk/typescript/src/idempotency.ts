/**
 * HTTP requests with the header Idempotency-Key take effect once: a middleware for handlers of `fetch` (Next, Workers, Deno, Bun), Hono, Express and Fastify, on {@link Runs}. What is
 * stored, and in which form, is the same in all languages: docs/guides/idempotency.md.
 *
 * @packageDocumentation
 */
import { checkFunction, checkNumber, checkText } from './check.js'
import { RunDiffersError } from './codes.gen.js'
import { LeaseholdError } from './fault.js'
import { isFinal } from './judge.js'
import { type Outcome, type Run, type Runs, UncountedError } from './once.js'
import type { AbortSignal, Request, Response } from './platform.js'
import { type Print, type Stored, again, broken, differs, fault, hash, joined, lost, missing, print, problem, readKey, readRecord, record, replay, reused, running, unavailable } from './stored.js'
import { Scope, add, callTime, moment, until } from './time.js'

export { node } from './connect.js'
export type { NodeRequest, NodeResponse } from './connect.js'

/** Which responses are stored; the others leave the key free for another run of the handler. It is asked with 500 if the handler threw, or had no response. */
export type StoreRule = (status: number, headers: { get(name: string): string | null }) => boolean

/** What came of a handler that began, failures too: no one knows what it did before. Not stored is what says that nothing was done: 425, 429, and 409 and 503 with Retry-After. */
export const storeOutcome: StoreRule = (status, headers) => !(status === 425 || status === 429 || ((status === 409 || status === 503) && headers.get('retry-after')))

/** For handlers that have no effect when they fail: also after 401, 408, and 5xx the key is free. */
export const storeSuccess: StoreRule = (status, headers) => status < 500 && status !== 401 && status !== 408 && storeOutcome(status, headers)

/** Settings of {@link Idempotency}. Q is what the framework calls a request. Times are in milliseconds. */
export interface IdempotencyOptions<Q> {
  /** What it is in front of, such as "payments". Keys belong to one name; processes of one service have the same. */
  readonly name: string
  /** Whose request it is, such as the account that authentication found: keys of different scopes are different keys. */
  readonly scope: (request: Q) => string | Promise<string>
  /** Requests without a key are refused; otherwise they reach the handler as they are. */
  readonly required?: boolean
  /** Those whose requests can have a key: POST and PATCH if left out. */
  readonly methods?: readonly string[]
  /** Fields of the request that are compared, too. */
  readonly headers?: readonly string[]
  /** Leaves the host out of what is compared. */
  readonly ignoreHost?: boolean
  /** What of the body is compared; all of it if left out. */
  readonly payload?: (body: Uint8Array, request: Q) => Uint8Array | string
  /** Fields of the response that are stored beside those that always are. */
  readonly replay?: readonly string[]
  /** {@link storeOutcome} if left out. */
  readonly store?: StoreRule
  /** How long a run outlives its process: whole seconds; 30 000 if left out. */
  readonly ttl?: number
  /** How long a request waits for the one that is under way with its key, before it gets 409; 10 000 if left out. */
  readonly wait?: number
  /** The most bytes of a body, which is held in memory; 1 MiB if left out. */
  readonly maxBody?: number
  /** Receives what callers are not told: a response that could not be stored, a gate that fails. `console.warn` if left out. */
  readonly onWarning?: (error: unknown, request: Q) => void
  /** Is given what goes on after the response, where the platform asks for it: `(work, c) => c.executionCtx.waitUntil(work)`. */
  readonly background?: (work: Promise<unknown>, request: Q) => void
}

/** What a handler knows of the run that it is in. */
export interface Idempotent {
  /** The fencing token: pass it on to whatever the handler writes to. */
  readonly token: number
  /** What the token is one of, for fences: see `Run.subject`. */
  readonly subject: string
  /** Is aborted when the lock of the run is lost: stop then. */
  readonly signal: AbortSignal
  /** Says that the handler has no effect and will have none: its response is sent and not stored. */
  nothingDone(): void
}

/** A request, as the middleware needs it. */
export interface Incoming {
  readonly method: string
  readonly url: string
  readonly headers: { get(name: string): string | null }
  readonly signal?: AbortSignal | undefined
  /** The body, which the handler can still read; undefined if it is larger, null if it is not there any more. */
  read(most: number): Promise<Uint8Array | undefined | null>
}

interface Made { response: Response; text: string; stored: Stored; keep: boolean; thrown?: { error: unknown } }

/** Why a run is free again: its handler responded, and that is not stored. Requests that have waited get it all the same. */
class NotKept extends LeaseholdError {
  constructor(readonly made: Made) {
    super(`the handler responded ${made.stored.status}, which is not stored`)
  }
}

const silence = 1500 // for which a gate is asked again that does not respond, before the handler begins
const inside = new WeakMap<object, { run: Idempotent; ids: readonly string[] }>()

/** What a handler knows of the run that it is in; undefined for a request without a key. The argument is what the framework calls a request: a Request, the context of Hono. */
export const idempotent = (request: object): Idempotent | undefined => inside.get(request)?.run

/** Makes requests take effect once. It may be in front of several handlers. */
export class Idempotency<Q extends object = Request> {
  readonly #runs: Runs
  readonly #o: Required<Omit<IdempotencyOptions<Q>, 'payload' | 'background'>> & IdempotencyOptions<Q>

  constructor(runs: Runs, options: IdempotencyOptions<Q>) {
    this.#runs = runs
    this.#o = {
      required: false, methods: ['POST', 'PATCH'], headers: [], ignoreHost: false, replay: [], store: storeOutcome, ttl: 30_000, wait: 10_000, maxBody: 1 << 20,
      onWarning: (error) => console.warn('idempotency:', error), ...options,
    }
    checkText('name', options.name, 255)
    for (const field of ['scope', 'store', 'onWarning'] as const) checkFunction(field, this.#o[field])
    for (const field of ['wait', 'maxBody'] as const) checkNumber(field, this.#o[field], 0, Infinity)
    checkNumber('ttl', this.#o.ttl, 1000, 86_400_000, 1000)
    new Headers([...this.#o.headers, ...this.#o.replay].map((name): [string, string] => [name, ''])) // throws for what is no name
  }

  /** A handler of `fetch` that runs another one once for each key. */
  wrap<R extends unknown[]>(handler: (request: Request, ...rest: R) => Response | Promise<Response>): (request: Request, ...rest: R) => Promise<Response> {
    return async (request, ...rest) => (await this.handle(fromFetch(request), () => handler(request, ...rest), request as unknown as Q)) as Response
  }

  /** For a process that ends: waits for what is to be stored, and says which keys' responses are not: the IDs of their runs. */
  close(most = callTime): Promise<string[]> {
    return this.#runs.close(most)
  }

  /** Serves one request; for adapters. next runs the handler, without an argument where there is no key, and its response is returned then as it is. */
  async handle(incoming: Incoming, next: (run?: Idempotent) => unknown, of: Q): Promise<unknown> {
    const o = this.#o
    const end = add(moment(this.#runs.clock), o.wait)
    if (!o.methods.includes(incoming.method)) return next()
    const given = incoming.headers.get('idempotency-key')
    if (given === null) return o.required ? problem(400, 'IDEMPOTENCY_KEY_REQUIRED', 'idempotency key is missing', 'this request needs the header Idempotency-Key: make up a key, such as a UUID, and send it again with each retry')() : next()
    const { key, why } = readKey(given)
    if (why) return problem(400, 'IDEMPOTENCY_KEY_INVALID', 'invalid idempotency key', `Idempotency-Key ${why}`)()
    let body
    try {
      body = await incoming.read(o.maxBody)
    } catch {
      return problem(400, 'BODY_INCOMPLETE', 'body is incomplete', 'the body ended before it was whole')()
    }
    if (body === undefined) return problem(413, 'PAYLOAD_TOO_LARGE', 'body too large', `a request with Idempotency-Key has at most ${o.maxBody} bytes`)()
    if (body === null) return this.#warn(of, 'the body was read before, by middleware outside', problem(500, 'IDEMPOTENCY_BODY_CONSUMED', 'body was read before', 'this request did not run'))()
    const scope = await o.scope(of)
    if (!scope) return this.#warn(of, 'the scope of a request is empty', problem(500, 'IDEMPOTENCY_SCOPE_EMPTY', 'caller is not known', 'this request did not run'))()
    const id = await hash(o.name, scope, key)
    if (inside.get(of)?.ids.includes(id)) return this.#warn(of, 'a middleware is behind another one of the same name: the inner one does nothing', next)()
    const mine = await print(incoming, body, o, o.payload?.(body, of))
    for (let spent = false; ; spent = true) {
      const before = new Scope(incoming.signal) // a caller that leaves once the handler has begun does not stop it
      let own: Made | undefined
      let got: Outcome<Made>
      try {
        got = await this.#runs.run(id, async (run) => {
          if (spent || before.signal.aborted) throw new UncountedError('the handler does not run')
          before.end()
          own = await this.#perform(of, id, mine, run, next)
          if (!own.keep) throw new NotKept(own)
          return own
        }, { shared: true, text: ({ text }) => text, ttl: o.ttl, wait: Math.max(0, until(this.#runs.clock, end)), retryFor: silence, fingerprint: mine.print, signal: before.signal })
      } catch (e) {
        if (e instanceof RunDiffersError) return reused()
        return this.#warn(of, e, spent ? lost : isFinal(e) ? fault : unavailable)()
      } finally {
        before.end()
      }
      if (own) {
        const taken = own.keep && got.status === 'lock_lost' // another process took over: what became of the request is with that one
        if (own.keep && got.status !== 'ready') this.#warn(of, got.error)
        if (got.storing) o.background?.(got.storing.done, of)
        if (own.thrown) throw own.thrown.error
        if (taken) continue
        return own.response
      }
      const made = got.error instanceof NotKept ? got.error.made : got.value
      if (made) return differs(mine, made.stored) ? reused() : replay(made.stored)
      switch (got.status) {
        case 'already_finished':
          try {
            const stored = readRecord(got.result ?? '')
            return differs(mine, stored) ? reused() : replay(stored)
          } catch (e) {
            return this.#warn(of, e, fault)()
          }
        case 'already_failed':
          return this.#warn(of, got.error, problem(500, 'IDEMPOTENT_REQUEST_GIVEN_UP', 'request was given up', `the processes that carried it out died again and again: ${again(true)}`))()
        case 'locked':
          return running(Math.min(got.retryAfter ?? 0, 5000))()
        default:
          if (got.status !== 'stopped' && !spent) this.#warn(of, got.error)
          return (spent ? lost : unavailable)()
      }
    }
  }

  /** Runs the handler, and says what came of it. */
  async #perform(of: Q, id: string, mine: Print, { token, subject, signal }: Run, next: (run?: Idempotent) => unknown): Promise<Made> {
    let nothing = false
    const run = { token, subject, signal, nothingDone: () => void (nothing = true) }
    inside.set(of, { run, ids: [...(inside.get(of)?.ids ?? []), id] })
    let response: Response | undefined
    let body = new Uint8Array()
    let thrown: { error: unknown } | undefined
    try {
      response = ((await next(run)) ?? undefined) as Response | undefined
      if (response) body = new Uint8Array(await response.clone().arrayBuffer())
      else this.#warn(of, 'the handler ended without a response: that is not taken for a success')
    } catch (error) {
      thrown = { error }
      response = undefined
      this.#warn(of, error)
    }
    let keep = !nothing
    try {
      keep &&= this.#o.store(response?.status ?? 500, response?.headers ?? new Headers())
    } catch (e) {
      this.#warn(of, e) // the handler ran all the same
    }
    if (!response) {
      response = (thrown ? broken : missing)(keep)()
      body = new Uint8Array(await response.clone().arrayBuffer())
    }
    const { text, stored } = record(response, body, this.#o.replay, mine)
    if (keep && text.length < body.length) this.#warn(of, `the response of ${body.length} bytes is too large to be stored: callers that send the request again get 409`)
    return { response, keep, text, stored, ...(thrown && { thrown }) }
  }

  #warn<T>(of: Q, error: unknown, then?: T): T {
    try {
      this.#o.onWarning(typeof error === 'string' ? new LeaseholdError(error) : error, of)
    } catch {
      // it disturbs no request
    }
    return then as T
  }
}

/** A Request, as the middleware needs it. The handler reads the same one. */
function fromFetch(request: Request): Incoming {
  const { method, url, headers, signal } = request
  return { method, url, headers, signal, read: async (most) => (request.bodyUsed ? null : collect(request.clone().body, most)) }
}

async function collect(stream: ReadableStream<Uint8Array> | null, most: number): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = []
  let size = 0
  const reader = stream?.getReader()
  for (let next; reader && !(next = await reader.read()).done; ) {
    chunks.push(next.value)
    if ((size += next.value.length) > most) return void reader.cancel().catch(() => undefined)
  }
  return joined(chunks)
}

/** A middleware of Hono: app.use('/payments', hono(idempotency)). Its request is the context. */
export function hono<C extends { req: { raw: Request }; res: Response | undefined }>(m: Idempotency<C>): (c: C, next: () => Promise<void>) => Promise<void> {
  return async (c, next) => {
    let own: unknown
    const response = await m.handle(fromFetch(c.req.raw), async (run) => (await next(), run && (own = c.res)), c)
    if (!response || response === own) return
    c.res = undefined // whose fields would be kept
    c.res = response as Response
  }
}
