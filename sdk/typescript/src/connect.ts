/**
 * The middleware in servers of Node.
 *
 * @module
 */
import { LeaseholdError } from './fault.js'
import type { Idempotency, Incoming } from './idempotency.js'
import type { Response } from './platform.js'

/** A request of Node, with its frameworks' additions: Express has originalUrl, and rawBody is what a parser outside has kept. */
export interface NodeRequest {
  readonly method?: string | undefined
  readonly url?: string | undefined
  readonly originalUrl?: string
  readonly rawBody?: Uint8Array | string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly complete: boolean
  readonly readableDidRead: boolean
  read(): unknown
  unshift(chunk: Uint8Array): void
  on(event: string, call: () => void): unknown
  off(event: string, call: () => void): unknown
}

/** A response of Node. */
export interface NodeResponse {
  statusCode: number
  getHeaders(): Readonly<Record<string, number | string | readonly string[] | undefined>>
  setHeader(name: string, value: string | readonly string[]): unknown
  removeHeader(name: string): void
  on(event: string, call: () => void): unknown
  end(body: Uint8Array): unknown
}

/**
 * A middleware of Node. In Express: app.use('/payments', node(idempotency)), before what reads bodies. In Fastify, with a middleware that was made once:
 * fastify.addHook('onRequest', (request, reply, done) => middleware(request.raw, reply.raw, done)).
 */
export function node<Q extends NodeRequest>(m: Idempotency<Q>): (req: Q, res: NodeResponse, next: (error?: unknown) => void) => void {
  return (req, res, next) => {
    const { url, originalUrl = url, headers } = req
    const left = new AbortController()
    res.on('close', () => left.abort())
    let own: Captured | undefined
    const get = (name: string) => (headers[name.toLowerCase()] === undefined ? null : String(headers[name.toLowerCase()]))
    const incoming: Incoming = { method: req.method ?? '', url: `http://${get('host')}${originalUrl}`, headers: { get }, signal: left.signal, read: (most) => readNode(req, most) }
    const answer = async () => {
      const response = (await m.handle(incoming, async (run) => (run ? (own = await capture(res, next)).response : void next()), req)) as Response | undefined
      own?.restore()
      if (!response || response === own?.response) return own?.send()
      for (const name of Object.keys(res.getHeaders())) res.removeHeader(name) // of what was another's in the end
      response.headers.forEach((value, name) => void res.setHeader(name, value))
      res.statusCode = response.status
      res.end(new Uint8Array(await response.arrayBuffer()))
    }
    answer().catch(next)
  }
}

const bodies = new WeakMap<object, Uint8Array>()

/** Reads a body, and puts it back before the end of the stream is told. */
async function readNode(req: NodeRequest, most: number): Promise<Uint8Array | undefined | null> {
  const before = bodies.get(req) ?? (typeof req.rawBody === 'string' ? new TextEncoder().encode(req.rawBody) : req.rawBody)
  if (before) return before
  if (!req.headers['transfer-encoding'] && !Number(req.headers['content-length'])) return new Uint8Array()
  if (req.readableDidRead) return null
  const chunks: Uint8Array[] = []
  let size = 0
  return new Promise((resolve, reject) => {
    const over = () => void [req.off('readable', look), req.off('close', broke)]
    const broke = () => (over(), reject(new LeaseholdError('the body ended before it was whole')))
    const look = () => {
      for (let chunk; (chunk = req.read() as Uint8Array | null); size += chunk.length) chunks.push(chunk)
      if (size > most) return over(), resolve(undefined)
      if (!req.complete) return
      over()
      const body = Buffer.concat(chunks)
      if (size > 0) req.unshift(body)
      bodies.set(req, body)
      resolve(body)
    }
    req.on('readable', look)
    req.on('close', broke)
  })
}

interface Captured { response: Response; restore(): void; send(): void }

/** Runs the rest of the program, and keeps what it writes until it ends. */
function capture(res: NodeResponse, next: () => void): Promise<Captured> {
  type Writes = Record<'writeHead' | 'write' | 'end' | 'flushHeaders', unknown>
  const { writeHead, write, end, flushHeaders } = res as unknown as Writes
  const chunks: Uint8Array[] = []
  const push = (...[chunk, encoding, done]: unknown[]) => {
    if (typeof chunk === 'string') chunks.push(Buffer.from(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8'))
    else if (chunk instanceof Uint8Array) chunks.push(chunk)
    return [chunk, encoding, done].find((f) => typeof f === 'function') as (() => void) | undefined
  }
  const set = (name: string, value: unknown) => value === undefined || res.setHeader(name, typeof value === 'number' ? String(value) : (value as string | string[]))
  return new Promise((resolve) => {
    Object.assign(res, {
      flushHeaders: () => undefined,
      writeHead(status: number, ...rest: unknown[]) {
        res.statusCode = status
        const fields = rest.at(-1)
        if (Array.isArray(fields)) for (let i = 0; i + 1 < fields.length; i += 2) set(String(fields[i]), fields[i + 1])
        else if (typeof fields === 'object') for (const [name, value] of Object.entries(fields ?? {})) set(name, value)
        return res
      },
      write: (...args: unknown[]) => (push(...args)?.(), true),
      end(...args: unknown[]) {
        const done = push(...args)
        const body = Buffer.concat(chunks)
        const headers = new Headers()
        for (const [name, value] of Object.entries(res.getHeaders())) for (const v of [value].flat()) headers.append(name, String(v))
        const bare = body.length === 0 || [204, 205, 304].includes(res.statusCode)
        const response = new Response(bare ? null : body, { status: res.statusCode, headers })
        const send = () => void (res.end as (...args: unknown[]) => void)(body, done)
        resolve({ response, restore: () => void Object.assign(res, { writeHead, write, end, flushHeaders }), send })
        return res
      },
    })
    next()
  })
}
