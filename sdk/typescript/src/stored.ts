/**
 * What a request with an Idempotency-Key is, its response as it is stored, and those of the middleware itself: the same
 * bytes in all languages (contracts/conformance/README.md).
 *
 * @module
 */
import { LeaseholdError } from './fault.js'
import type { Response } from './platform.js'

/** What is compared of a request: by the gate, and with a stored response. */
export interface Print {
  readonly print: string
  readonly parts: Readonly<Record<string, string>>
}

/** A response for later requests. */
export interface Stored {
  readonly status: number
  /** The fields, as in the query of a URL. */
  readonly header: string
  readonly bytes: number
  /** undefined if it is too large. */
  readonly body: Uint8Array | undefined
  readonly parts: Readonly<Record<string, string>>
}

/** The most bytes of a result of a run. */
export const maxStored = 256 << 10

const always = ['cache-control', 'content-disposition', 'content-encoding', 'content-language', 'content-type', 'etag', 'last-modified', 'link', 'location', 'retry-after', 'vary']
const canonical = (name: string): string => name.toLowerCase().replace(/(^|-)[a-z]/g, (c) => c.toUpperCase())
const utf8 = new TextEncoder()
/** The bytes of several pieces in a row. */
export const joined = async (chunks: Uint8Array[]): Promise<Uint8Array<ArrayBuffer>> => new Uint8Array(await new Blob(chunks as BlobPart[]).arrayBuffer())
const base64 = (bytes: Uint8Array): string => btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(''))

const leb128 = (n: number): number[] => (n > 127 ? [(n & 127) | 128, ...leb128(n >>> 7)] : [n])

/** A SHA-256 in base64url. Each part is preceded by its length, so that no two lists of parts are hashed alike. */
export async function hash(...parts: readonly (string | Uint8Array)[]): Promise<string> {
  const chunks = parts.map((p) => (typeof p === 'string' ? utf8.encode(p) : p)).flatMap((c) => [Uint8Array.from(leb128(c.length)), c])
  const sum = await crypto.subtle.digest('SHA-256', await joined(chunks))
  return base64(new Uint8Array(sum)).replaceAll('+', '-').replaceAll('/', '_').replace('=', '')
}

/** Reads the header Idempotency-Key: a string of Structured Fields, "8e03978e", or the same without quotes. Both name the same key. why says what is wrong. */
export function readKey(header: string): { key: string; why?: string } {
  const text = header.trim()
  const inner = /^"((?:[ !#-[\]-~]|\\["\\])*)"$/.exec(text)?.[1]?.replace(/\\(.)/g, '$1')
  const key = inner ?? (/^[!#-+\--:<-[\]-~]*$/.test(text) ? text : undefined)
  if (key === undefined) return { key: '', why: 'must be one string in quotes, or characters of printable ASCII without spaces, quotes, backslashes, commas and semicolons' }
  if (key === '') return { key, why: 'is empty: make up a key, such as a UUID' }
  return key.length > 255 ? { key, why: 'has more than 255 characters' } : { key }
}

/** What a request is. Of a form the fields and files are compared, so that another boundary is no other request. payload is what is compared in place of the body. */
export async function print(
  { method, url, headers }: { method: string; url: string; headers: { get(name: string): string | null } }, body: Uint8Array, o: { headers: readonly string[]; ignoreHost: boolean }, payload?: string | Uint8Array,
): Promise<Print> {
  const { pathname, search, host } = new URL(url)
  const what = payload !== undefined ? ['chosen', payload] : ((await formOf(body, headers.get('content-type') ?? '')) ?? ['bytes', body])
  const parts: Record<string, string> = {}
  for (const name of o.headers) {
    const value = headers.get(name)
    parts[`header ${canonical(name)}`] = await hash(...(value === null ? [] : [value]))
  }
  return { print: `1.${await hash(method, pathname, search.slice(1), o.ignoreHost ? '' : host.replace(/:(80|443)$/, ''), ...what)}`, parts }
}

async function formOf(body: Uint8Array, type: string): Promise<(string | Uint8Array)[] | undefined> {
  if (!/^(application\/x-www-form-urlencoded|multipart\/form-data)\b/i.test(type)) return undefined
  try {
    const form = await new Response(body as BodyInit, { headers: { 'content-type': type } }).formData()
    const names = [...new Set(form.keys())].sort()
    const list: string[] = []
    for (const name of names) {
      const values = form.getAll(name)
      list.push('field', name, String(values.length))
      for (const v of values) list.push(typeof v === 'string' ? v : await hash(v.name, v.type, new Uint8Array(await v.arrayBuffer())))
    }
    return names.length > 0 ? ['form', ...list] : undefined
  } catch {
    return undefined // its bytes are compared
  }
}

/** Whether a request is another one than that of a stored response, as far as this program compares the same fields. */
export const differs = (own: Print, stored: Stored): boolean => Object.entries(stored.parts).some(([name, h]) => (own.parts[name] ?? h) !== h)

/** A response for later requests, and the text that is stored of it. */
export function record(response: Response, body: Uint8Array, names: readonly string[], { parts }: Print): { text: string; stored: Stored } {
  const fields = new URLSearchParams()
  for (const name of [...new Set([...always, ...names].map(canonical))].sort()) {
    const value = response.headers.get(name)
    if (value !== null) fields.append(name, value)
  }
  const { status } = response
  const stored = { status, header: fields.toString(), bytes: body.length, body, parts }
  const more = Object.keys(parts).length > 0 ? { parts } : {}
  const line = (form: string, header = stored.header) => `${JSON.stringify({ v: 1, status, ...(header && { header }), body: form, bytes: body.length, ...more })}\n`
  const none = { text: line('none', ''), stored }
  if (body.length > maxStored) return none
  let text
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)
  } catch {
    // it is no text
  }
  const whole = text === undefined || text.includes('\0') ? line('base64') + base64(body) : line('text') + text
  return utf8.encode(whole).length > maxStored ? none : { text: whole, stored }
}

/** Reads what {@link record} wrote. */
export function readRecord(text: string): Stored {
  const end = text.indexOf('\n')
  const { v, status, header = '', body: form, bytes, parts = {} } = JSON.parse(text.slice(0, end)) as { v: number; status: number; header?: string; body: string; bytes: number; parts?: Record<string, string> }
  const rest = text.slice(end + 1)
  const body = form === 'text' ? utf8.encode(rest) : form === 'base64' ? Uint8Array.from(atob(rest), (c) => c.charCodeAt(0)) : undefined
  if (v !== 1 || !(status >= 200 && status <= 599) || (body ? body.length !== bytes : form !== 'none')) throw new LeaseholdError('the stored text is no response of this middleware, or of a later version of it')
  return { status, header, bytes, body, parts }
}

/** Makes a response, whenever it is needed. */
export type Answer = () => Response

const docs = 'https://github.com/leasehold-dev/leasehold/blob/main/docs/guides/idempotency.md#'
/** A response of the middleware itself (RFC 9457). With retryAfter, in milliseconds, the same request may succeed later. */
export const problem = (status: number, code: string, title: string, detail: string, retryAfter = 0): Answer => () =>
  new Response(`${JSON.stringify({ type: docs + code.toLowerCase(), title, status, code, retryable: retryAfter > 0, detail })}\n`, {
    status, headers: { 'content-type': 'application/problem+json', ...(retryAfter > 0 && { 'retry-after': String(Math.ceil(Math.max(1000, retryAfter) / 1000)) }) },
  })
export const reused = problem(422, 'IDEMPOTENCY_KEY_REUSED', 'idempotency key used before', 'this key was used before for another request: use a new key for a new request')
export const fault = problem(500, 'IDEMPOTENCY_FAULT', 'idempotency cannot be ensured', "the server's log has the reason; this request did not run")
export const unavailable = problem(503, 'IDEMPOTENCY_UNAVAILABLE', 'idempotency cannot be ensured just now', 'this request did not run: send it again, with the same key', 1000)
export const lost = problem(503, 'IDEMPOTENT_REQUEST_INTERRUPTED', 'request was interrupted', 'it began, and its response was not stored: send it again, with the same key', 1000)
export const running = (after: number) => problem(409, 'IDEMPOTENT_REQUEST_RUNNING', 'request is under way', 'send it again, with the same key, and get its response', after)
export const again = (stored: boolean) => (stored ? 'find out what it did before you send it under another key' : 'send it again, with the same key')
export const broken = (stored: boolean) => problem(500, 'IDEMPOTENT_REQUEST_FAILED', 'request failed', `it began and broke off: ${again(stored)}`, stored ? 0 : 1000)
export const missing = (stored: boolean) => problem(500, 'IDEMPOTENT_RESPONSE_MISSING', 'response is missing', `it was carried out and left no response: ${again(stored)}`, stored ? 0 : 1000)

/** A stored response, as later callers get it. */
export function replay({ status, header, bytes, body }: Stored): Response {
  if (!body) return problem(409, 'IDEMPOTENT_RESPONSE_NOT_STORED', 'response was not stored', `the request was carried out before, with the status ${status}; its response of ${bytes} bytes was too large to be stored`)()
  const headers = new Headers({ 'idempotency-replayed': 'true' })
  for (const [name, value] of new URLSearchParams(header)) headers.append(name, value)
  return new Response((body.length > 0 ? body : null) as BodyInit, { status, headers })
}
