// What speaks to the API. The bearer token is in a variable of this module, and in the storage of this tab alone, which outlives a reload and not
// the tab: it is put there when the server has accepted it, and taken away by signing out, and when the server accepts it no longer.

const base = new URL('../', document.baseURI)
const place = 'leasehold.token'
const stored = (f) => { try { return f(sessionStorage) } catch { return null } } // only this page knows the token then
let token = stored((s) => s.getItem(place)) || ''

export function setToken(text) {
  token = text
  if (!text) stored((s) => s.removeItem(place))
}
export const keepToken = () => { if (token) stored((s) => s.setItem(place, token)) }
export const hasToken = () => token !== ''

// Problem is a request that was rejected or failed. problem is the body of the response, with a code; of what is no problem document, a code of
// our own: NO_RESPONSE or NO_PROBLEM.
export class Problem extends Error {
  constructor(problem, status, requestID) {
    super(problem.code)
    Object.assign(this, { problem, status, requestID })
  }
}

// clock estimates the store's and the server's time from responses: the one with the shortest way, of the last few, is the best.
class Clock {
  samples = []
  add(iso, sent, got) {
    this.samples.push({ ahead: Date.parse(iso) - (sent + got) / 2, off: (got - sent) / 2 + 0.5 })
    if (this.samples.length > 8) this.samples.shift()
  }
  get best() { return this.samples.reduce((a, b) => (a && a.off <= b.off ? a : b), null) }
}
export const store = new Clock()
export const server = new Clock()

// now is the time by which leases expire, in milliseconds.
export const now = () => Date.now() + ((store.best || server.best || { ahead: 0 }).ahead)

// send sends one request. It resolves to { body, etag, sent, got }; the body is null after 304.
export async function send(method, path, { body, signal, etag } = {}) {
  const headers = {}
  if (token) headers.Authorization = 'Bearer ' + token
  if (body) headers['Content-Type'] = 'application/json'
  if (etag) headers['If-None-Match'] = etag
  const limit = AbortSignal.timeout(20_000)
  const sent = Date.now()
  let r, text
  try {
    r = await fetch(new URL(path, base), {
      method, headers, body: body && JSON.stringify(body), cache: 'no-store', redirect: 'error', signal: signal ? AbortSignal.any([signal, limit]) : limit,
    })
    text = await r.text()
  } catch (e) {
    if (signal?.aborted) throw e
    throw new Problem({ code: 'NO_RESPONSE', retryable: true }, 0, '')
  }
  const got = Date.now()
  if (r.status === 304) return { body: null, etag, sent, got }
  const requestID = r.headers.get('X-Request-Id') || ''
  let json
  try { json = text && JSON.parse(text) } catch { json = undefined }
  if (r.ok && json !== undefined) return { body: json, etag: r.headers.get('ETag'), sent, got }
  throw new Problem(typeof json?.code === 'string' ? json : { code: 'NO_PROBLEM', status: r.status }, r.status, requestID)
}

export const get = (path, options) => send('GET', path, options)
export const post = (path, body) => send('POST', path, { body })

// path joins the segments of a path, escaped.
export const path = (...segments) => 'v1/' + segments.map(encodeURIComponent).join('/')

// query is what follows a path.
export const query = (parameters) => {
  const q = new URLSearchParams(Object.entries(parameters).filter(([, v]) => v !== '' && v !== undefined && v !== null))
  return q.size ? '?' + q : ''
}

// requestID names a command. It works without TLS too, where crypto.randomUUID is missing.
export const requestID = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('')
