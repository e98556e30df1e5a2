/**
 * One exchange with the server.
 *
 * @module
 */
import { checkFunction, checkObject, checkText, invalid } from './check.js'
import { RequestIdReusedError, apiError } from './codes.gen.js'
import { ApiError, NoResponseError, InvalidResponseError, type Code } from './fault.js'
import { isFinal, isSettled, messageOf, retryAfter } from './judge.js'
import type { AbortSignal, Fetch, Url } from './platform.js'
import { type Clock, Scope, orAborted, pauseBefore, systemClock, tryTime } from './time.js'

/** How a server is reached. */
export interface ServerOptions {
  /** Where the server is: "https://locks.example.com". A path is kept; redirects are not followed. With a token it must be https, unless it is this machine itself. */
  readonly url: string | Url
  /** The tenant whose locks and runs they are. */
  readonly tenant: string
  /**
   * A bearer token, or a function that returns one for each request. After a 401 the function is called once more, with the token that was rejected: if it has another
   * one, the request is sent again. Without a token the request has no Authorization.
   */
  readonly token?: string | ((rejected?: string) => string | Promise<string>)
  /**
   * Who asks, for people and for other programs; it gives no rights. Where the server authenticates, it is the suffix of the token's subject: 1 to 64 letters,
   * digits, ".", "_" and "-". Left out, it is "js-" and random characters.
   */
  readonly owner?: string
  /** What sends requests; `fetch` unless it is given. */
  readonly fetch?: Fetch
  /** The clocks; for tests. */
  readonly clock?: Clock
}

/** The most bytes of a response that are read: far more than any lease has. */
const maxResponse = 16 << 20

const insistTime = 30_000 // for which that is sent again while it is not taken
const wayTime = 2000 // by which a request may come later than its sender waits; what dates of responses may differ by

/** What a response without a body says. */
const nothing: Record<string, unknown> = {}

/** A random ID, unique without a coordinator: 128 bits in hexadecimal digits. */
export const randomID = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('')

/** A segment of a path. ".", ".." and "/" cannot be one: the URL would name another resource. */
export function segment(field: string, s: string, most: number): string {
  if (/^(\.\.?|\/)$/.test(checkText(field, s, most))) throw invalid(field, 'cannot be ".", ".." or "/"')
  return encodeURIComponent(s)
}

/** Checks a token. It is not repeated in the error. */
function checkToken(token: unknown): string {
  if (typeof token !== 'string' || !/^[!-~]+$/.test(token)) throw invalid('token', 'must be a word of ASCII')
  return token
}

/** Reads JSON. A whole number beyond 2^53 would be rounded, and another token than the one that was sent: it is an error. */
export function parseJSON(text: string): unknown {
  for (const [n] of text.matchAll(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g)) {
    if (n.length > 15 && /^-?\d+$/.test(n) && BigInt(n) > 2n ** 53n) {
      throw new Error(`${n} is too large`)
    }
  }
  return JSON.parse(text)
}

/** A connection to a server. */
export class Server {
  readonly clock: Clock
  readonly base: string
  readonly tenant: string
  /** The path of what is the tenant's. */
  readonly root: string
  #owner: string | undefined
  readonly #fetch: Fetch
  readonly #token: ServerOptions['token']
  #ahead = 0 // of the server's time before the wall clock
  #told = false // the store said its time
  #met: unknown // something at this address has answered as a server does

  constructor(o: ServerOptions) {
    checkObject('options', o)
    let url: URL | undefined
    try {
      url = new URL(o.url)
    } catch {
      // it is none
    }
    if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash || url.username || url.password) {
      // It is not repeated: it may have a password.
      throw invalid('url', 'must be like https://locks.example.com, without query or password')
    }
    if (o.token !== undefined) {
      if (typeof o.token !== 'function') checkToken(o.token)
      if (url.protocol === 'http:' && !/^(localhost|127\.[\d.]+|\[::1\])$/.test(url.hostname)) {
        throw invalid('url', 'must be https: it has a token')
      }
    }
    this.base = url.origin + url.pathname.replace(/\/+$/, '')
    this.root = `/v1/tenants/${segment('tenant', o.tenant, 128)}`
    this.tenant = o.tenant
    if (o.owner !== undefined) this.#owner = checkText('owner', o.owner, 256)
    this.clock = o.clock ?? systemClock
    // Not a method of this object: the fetch of browsers must not be called on another one.
    const own = o.fetch ?? fetch
    checkFunction('fetch', own)
    this.#fetch = (input, init) => own(input, init)
    this.#token = o.token
  }

  /** Who asks. It is drawn when it is first asked for: where a client is made as the program is loaded, edge workers forbid chance. */
  get owner(): string {
    return (this.#owner ??= `js-${randomID().slice(0, 12)}`)
  }

  /**
   * Sends a request once and returns the JSON of its response.
   *
   * @param timeout how long the whole exchange may take, in milliseconds
   * @throws the reason of the signal if that is aborted, an ApiError, a NoResponseError, or an InvalidResponseError
   */
  async send(method: string, path: string, body: unknown, timeout: number, signal?: AbortSignal): Promise<Record<string, unknown>> {
    const late = new NoResponseError(`no response within ${timeout} ms`)
    const scope = new Scope(signal).within(this.clock, timeout, () => late)
    try {
      return await orAborted(this.#send(method, path, body, scope.signal), scope.signal)
    } finally {
      scope.abort(late) // a body that is not wanted is not read any more
      scope.end()
    }
  }

  /**
   * Posts a request that grants something. It ends, by the server's time, two seconds after no one waits for it any more. If the response says that it came too
   * late, or that its end is too far away, the clock of this machine was wrong: the request is sent once more, with another end.
   *
   * @param left how long its caller waits for it, if that is less than the timeout
   * @param end the name of the member
   */
  async ask(path: string, body: object, timeout: number, signal?: AbortSignal, left = timeout, end = 'not_after'): Promise<Record<string, unknown>> {
    for (let again = true; ; again = false) {
      const at = new Date(this.clock.wall() + this.#ahead + Math.min(timeout, left) + wayTime)
      try {
        return await this.send('POST', path, { ...body, [end]: at.toISOString() }, timeout, signal)
      } catch (e) {
        if (!again || !(e instanceof ApiError && e.problem.store_time)) throw e
      }
    }
  }

  /**
   * Says that a request that was posted is given up, again and again for half a minute: nothing but success settles it, and that its `request_id` was used. It
   * does not throw.
   *
   * @returns why the server may not know it; undefined if it does
   */
  async giveUp(path: string, body: object): Promise<unknown> {
    const late = new NoResponseError(`no response within ${insistTime} ms`)
    const scope = new Scope().within(this.clock, insistTime, () => late)
    for (let retry = 0; ; retry++) {
      let error: unknown
      try {
        if ((await this.send('POST', path, { ...body, give_up: true }, tryTime(retry), scope.signal)) !== nothing) error = new InvalidResponseError('it was not given up')
      } catch (e) {
        if (!(e instanceof RequestIdReusedError)) error = e
      }
      if (error === undefined || isFinal(error) || !(await pauseBefore(this.clock, retry, isSettled(error) ? 2000 : retryAfter(error), scope))) {
        scope.end()
        return error
      }
    }
  }

  /** Learns the server's time. That of the store, by which ends are judged, is better than a date. */
  #learn(time: string | null | undefined, told: boolean): void {
    const ahead = Date.parse(time!) - this.clock.wall()
    if (told ? ahead === ahead : !this.#told && Math.abs(ahead - this.#ahead) > wayTime) {
      this.#ahead = ahead
      this.#told = told
    }
  }

  /**
   * Whether an error says that the address may be wrong, so that after three tries another one in the next seconds is of no use: nothing there has ever
   * answered. A proxy whose server is away says so by its status, and one that is busy.
   */
  unmet(e: unknown): boolean {
    const { sent, status } = e as { sent?: boolean; status?: number }
    return !this.#met && (sent === false || status! < 408)
  }

  async #send(method: string, path: string, body: unknown, signal: AbortSignal): Promise<Record<string, unknown>> {
    const own = this.#token
    if (typeof own !== 'function') return this.#exchange(method, path, body, signal, own)
    const get = async (rejected?: string) => {
      try {
        return await own(rejected)
      } catch (cause) {
        throw Object.assign(new NoResponseError(`no token: ${messageOf(cause)}`, { cause }), { sent: false })
      }
    }
    const token = checkToken(await get())
    try {
      return await this.#exchange(method, path, body, signal, token)
    } catch (e) {
      const next = (e as ApiError).status === 401 ? checkToken(await get(token)) : token
      if (next === token) throw e
      return this.#exchange(method, path, body, signal, next)
    }
  }

  async #exchange(method: string, path: string, body: unknown, signal: AbortSignal, token?: string): Promise<Record<string, unknown>> {
    const headers: Record<string, string> = { accept: 'application/json' }
    if (body !== undefined) headers['content-type'] = 'application/json'
    // What resolves escapes on the way must not make another name of one.
    const [plain = ''] = path.split('?')
    if (plain.includes('%')) headers['leasehold-path'] = plain
    if (token !== undefined) headers['authorization'] = `Bearer ${token}`
    let response: Response
    let text: string
    try {
      signal.throwIfAborted()
      response = await this.#fetch(this.base + path, {
        method, headers, signal, redirect: 'manual', cache: 'no-store', credentials: 'omit', ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      text = await read(response)
    } catch (cause) {
      if (signal.aborted) throw signal.reason
      if (cause instanceof InvalidResponseError) throw cause
      // Node's fetch says "fetch failed", and the reason in its cause, whose message may be empty. Bun's says the reason itself. Deno's has no code: its text has
      // the URL, in which there is no space, then which part failed, and why: "invalid peer certificate", "received corrupt message".
      cause = (cause as Error).cause ?? cause
      const { code = messageOf(cause) } = cause as { code?: string }
      const untrusted = /^\w*(WRONG|CERT|VERIF)| \(Con.+: (inv|rec)/.test(code)
      const sent = !(untrusted || /^\w*(REFUSED|NOTF)| \(Con/.test(code))
      throw Object.assign(new NoResponseError(`no response of ${this.base}: ${messageOf(cause) || code}`, { cause }), { untrusted, sent })
    }
    const { status } = response
    const after = asksFor(response, this.clock)
    const other = (text: string, options?: ErrorOptions) => Object.assign(new InvalidResponseError(text, options), { status, retryAfter: after })
    if (response.type === 'opaqueredirect' || (status >= 300 && status < 400)) {
      throw other(`${this.base} responded with a redirect: use its own URL`)
    }
    const type = (response.headers.get('content-type') ?? '').split(';')[0]?.trim().toLowerCase()
    if ((status === 200 && type === 'application/json') || type === 'application/problem+json') {
      this.#met = true
      let got: unknown
      try {
        got = parseJSON(text)
      } catch (cause) {
        throw other(`invalid response of ${this.base}: ${messageOf(cause)}`, { cause })
      }
      if (typeof got === 'object' && got !== null && !Array.isArray(got)) {
        const json = got as Record<string, unknown>
        this.#learn(response.headers.get('date'), false)
        if (type === 'application/json') return json
        if (typeof json['code'] === 'string') {
          const error = apiError({ ...json, status, code: json['code'] as Code }, after)
          this.#learn(error.problem.store_time, true)
          throw error
        }
      }
    } else if (text === '' && (status === 204 || (status === 200 && method === 'DELETE'))) {
      return nothing
    }
    throw other(`${this.base} responded ${status} with "${type}", which is not Leasehold`)
  }
}

/** Reads the body as UTF-8 text, up to maxResponse bytes. */
async function read(response: Response): Promise<string> {
  if (!response.body?.getReader) return response.text()
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  for (let size = 0; ;) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    if ((size += value.length) > maxResponse) {
      reader.cancel().catch(() => undefined)
      throw new InvalidResponseError(`a response of more than ${maxResponse} bytes`)
    }
    text += decoder.decode(value, { stream: true })
  }
}

/** The Retry-After of a response in milliseconds, 0 without one. It may be a date, which counts from that of the response if that can be read. */
function asksFor(response: Response, clock: Clock): number {
  const value = response.headers.get('retry-after') ?? ''
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - (Date.parse(response.headers.get('date')!) || clock.wall())
  return ms > 0 ? ms : 0
}
