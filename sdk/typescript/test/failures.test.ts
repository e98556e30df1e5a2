// What a wrong address, a page of a proxy, a mismatch of TLS and an expired token say, at the first try: no test waits for the retries.
import assert from 'node:assert/strict'
import { type RequestListener, createServer } from 'node:http'
import { type AddressInfo, type Server as Listener } from 'node:net'
import { createServer as createTLS } from 'node:tls'
import { after, describe, test } from 'node:test'
import { IdGenerator, decodeId } from '../src/ids.js'
import { NoResponseError, InvalidResponseError, Locks, UnauthenticatedError } from '../src/index.js'
import { messageOf } from '../src/judge.js'
import { Runs } from '../src/once.js'
import { FakeClock, settle } from './world.js'

const open: Listener[] = []
after(() => open.forEach((s) => s.close()))
const listen = async (server: Listener): Promise<number> => {
  open.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}
const http = (answer: RequestListener) => listen(createServer(answer))
const nowhere = async (): Promise<number> => {
  const server = createServer()
  const port = await listen(server)
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** Asks for a lock, a run and an ID. The results are the first errors that callers see or are told of; no clock moves. */
async function first(url: string, fetch?: typeof globalThis.fetch): Promise<unknown[]> {
  const stop = new AbortController()
  const server = { url, tenant: 'acme', token: 'secret', clock: new FakeClock(), ...(fetch && { fetch }) }
  const told = (ask: (tell: (error: unknown) => void) => Promise<unknown>) => new Promise<unknown>((resolve) => void ask(resolve).catch(resolve))
  const made: IdGenerator[] = []
  const got = await Promise.all([
    told((tell) => new Locks({ ...server, observe: (e) => tell(e.error) }).acquire('deploy', { signal: stop.signal })),
    told((tell) => new Runs({ ...server, onWarning: tell }).once('order', null, () => 1, { signal: stop.signal })),
    told((tell) => new Locks(server).get('deploy').then(tell)),
    told(async (tell) => {
      const ids = new IdGenerator({ ...server, log: { warn: () => undefined }, observe: (e) => tell(e.error) })
      made.push(ids)
      await ids.ready()
    }),
  ])
  await made[0]?.close()
  stop.abort()
  return got
}

const says = (got: unknown[], kind: new (...a: never[]) => Error, text: RegExp) => {
  for (const e of got) {
    assert.ok(e instanceof kind, String(e))
    assert.match(e.message, text)
  }
}

describe('at the first try', () => {
  test('an address where nothing listens', async () => {
    const port = await nowhere()
    says(await first(`http://127.0.0.1:${port}`), NoResponseError, new RegExp(`no response of http://127.0.0.1:${port}: .*ECONNREFUSED`))
  })

  test('an address that may be wrong is an error after three tries, within a second', async () => {
    const refused = () => Promise.reject(new TypeError('fetch failed', { cause: Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }) }))
    const page = () => Promise.resolve(new Response('<html>Welcome</html>', { status: 404, headers: { 'content-type': 'text/html' } }))
    const proxy = (status: number) => () => Promise.resolve(new Response('<html>Later</html>', { status, headers: { 'content-type': 'text/html' } }))
    const asks = (answer: () => Promise<Response>, o: { retryFor?: number; answered?: boolean } = {}) => {
      const clock = new FakeClock()
      let requests = 0
      const fetch = () => {
        requests++
        if (!o.answered) return answer()
        o.answered = false
        return Promise.resolve(new Response('{"code":"LOCK_NOT_FOUND","status":404}', { status: 404, headers: { 'content-type': 'application/problem+json' } }))
      }
      const server = { url: 'http://127.0.0.1:1', tenant: 'acme', clock, fetch }
      const locks = new Locks({ ...server, ...(o.retryFor && { retryFor: o.retryFor }) })
      const run = async (ask: () => Promise<unknown>): Promise<[number, number, unknown]> => {
        if (o.answered) await locks.get('first').catch(() => undefined)
        requests = 0
        const begin = clock.now()
        let error: unknown
        void ask().catch((e: unknown) => (error = e))
        for (await settle(); error === undefined; ) assert.ok(await clock.fire(begin + 60_000))
        return [requests, clock.now() - begin, error]
      }
      const five = () => Promise.allSettled(['a', 'b', 'c', 'd', 'e'].map((key) => locks.acquire(key))).then(([first]) => Promise.reject((first as PromiseRejectedResult).reason as Error))
      return { five: () => run(five), lock: () => run(() => locks.acquire('deploy')), once: () => run(() => new Runs(server).once('order', null, () => 1)) }
    }
    assert.equal((await asks(refused).five())[0], 15, 'each of five at once has three tries')
    for (const way of ['lock', 'once'] as const) {
      const [requests, took, error] = await asks(refused)[way]()
      assert.equal(requests, 3, way)
      assert.ok(took <= 1000 && error instanceof NoResponseError && !error.sent && /no response of http:\/\/127.0.0.1:1: .*ECONNREFUSED/.test(error.message), `${way}: ${took} ms: ${error}`)
      const [, soon, other] = await asks(page)[way]()
      assert.ok(soon <= 1000 && other instanceof InvalidResponseError && other.message.startsWith('http://127.0.0.1:1 responded 404'), `${way}: ${soon} ms: ${other}`)
      for (const [what, late] of [
        ['of a proxy whose server is away', asks(proxy(502))],
        ['of a proxy whose server was slow', asks(proxy(408))],
        ['of a proxy that is busy', asks(proxy(429))],
        ...(way === 'lock'
          ? ([['of a server that has answered', asks(refused, { answered: true })], ['with retryFor', asks(refused, { retryFor: 10_000 })]] as const)
          : []),
      ] as const) {
        const [, ms] = await late[way]()
        assert.ok(ms > (way === 'lock' ? 9000 : 4000), `${way}: an error ${what} after ${ms} ms`)
      }
    }
  })

  test('what runtimes say of a connection that was not made, and of one that broke off', async () => {
    const deno = (part: string) => new TypeError('fetch failed', { cause: new TypeError(`error sending request for url (http://a/CERT/REFUSED/(Con): client error (${part}): os error`) })
    const coded = (code: string, cause?: Error) => Object.assign(new TypeError('fetch failed', { cause }), { code })
    for (const [unsent, error] of [
      [true, new TypeError('fetch failed', { cause: coded('ECONNREFUSED') })], [true, coded('ECONNREFUSED')], [true, coded('ENOTFOUND')], [true, deno('Connect')],
      [false, new TypeError('fetch failed', { cause: coded('ECONNRESET') })], [false, coded('ECONNABORTED')], [false, deno('SendRequest')], [false, new TypeError('Failed to fetch')],
    ] as const) {
      const fetch = () => Promise.reject(error)
      await assert.rejects(new Locks({ url: 'http://127.0.0.1:1', tenant: 'acme', fetch }).get('deploy'),
        (e) => e instanceof NoResponseError && e.sent === !unsent && !e.untrusted, `${messageOf(error)}: ${unsent}`)
    }
  })

  test('a name that no one knows', async () => {
    const cause = Object.assign(new Error('getaddrinfo ENOTFOUND locks.test'), { code: 'ENOTFOUND' })
    says(await first('https://locks.test', () => Promise.reject(new TypeError('fetch failed', { cause }))), NoResponseError, /of https:\/\/locks.test: getaddrinfo ENOTFOUND locks.test/)
  })

  test('several addresses of which none responds', async () => {
    const cause = Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' })
    says(await first('https://locks.test', () => Promise.reject(new TypeError('fetch failed', { cause }))), NoResponseError, /of https:\/\/locks.test: ECONNREFUSED/)
  })

  for (const status of [200, 404, 502]) {
    test(`a page of a proxy, ${status}`, async () => {
      const port = await http((_, w) => void w.writeHead(status, { 'content-type': 'text/html' }).end('<html>Welcome</html>'))
      says(await first(`http://127.0.0.1:${port}`), InvalidResponseError, new RegExp(`^http://127.0.0.1:${port} responded ${status} with "text/html", which is not Leasehold`))
    })
  }

  test('a response that does not end', async () => {
    const most = 16 << 20
    for (const [size, bound, more] of [[most, false, false], [most + 1, true, false], [4 * most, true, true]] as const) {
      let sent = 0
      let canceled = false
      const body = new ReadableStream<Uint8Array>({
        pull: (c) => {
          const n = Math.min(1 << 20, size - sent)
          if (n === 0) return c.close()
          const chunk = new Uint8Array(n).fill(32)
          if (sent === 0) chunk[0] = 123 // {
          if ((sent += n) === size) chunk[n - 1] = 125 // }
          c.enqueue(chunk)
        },
        cancel: () => void (canceled = true),
      })
      const fetch = () => Promise.resolve(new Response(body, { headers: { 'content-type': 'application/json' } }))
      const said = await new Locks({ url: 'http://127.0.0.1:1', tenant: 'acme', clock: new FakeClock(), fetch }).get('deploy').then(() => '', (e) => {
        assert.ok(!bound || e instanceof InvalidResponseError, String(e))
        return messageOf(e)
      })
      assert.equal(said === `a response of more than ${most} bytes`, bound, `${size} bytes: ${said}`)
      assert.ok(more === canceled && sent <= most + (2 << 20), `${size} bytes: ${sent} were read, and the rest was ${canceled ? '' : 'not '}given up`)
    }
  })

  test('an expired token', async () => {
    let requests = 0
    const port = await http((_, w) => {
      requests++
      w.writeHead(401, { 'content-type': 'application/problem+json' }).end(JSON.stringify({ code: 'UNAUTHENTICATED', status: 401, detail: 'the token has expired', retryable: false }))
    })
    says(await first(`http://127.0.0.1:${port}`), UnauthenticatedError, /the token has expired/)
    assert.equal(requests, 4) // each once
  })

  test('https at a server without TLS is an error at once', async () => {
    const port = await http((_, w) => void w.end())
    const got = await first(`https://127.0.0.1:${port}`)
    says(got, NoResponseError, new RegExp(`no response of https://127.0.0.1:${port}: .*wrong version number`))
    await assert.rejects(new Locks({ url: `https://127.0.0.1:${port}`, tenant: 'acme', clock: new FakeClock() }).acquire('deploy'), (e) => e instanceof NoResponseError && e.untrusted)
  })

  test('http at a server with TLS', async () => {
    const port = await listen(createTLS({}))
    says(await first(`http://127.0.0.1:${port}`), NoResponseError, new RegExp(`no response of http://127.0.0.1:${port}: .+`))
  })

  const deno = 'error sending request for url (https://locks.test/): client error (Connect): '
  for (const code of [
    'DEPTH_ZERO_SELF_SIGNED_CERT', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'CERT_HAS_EXPIRED', 'ERR_TLS_CERT_ALTNAME_INVALID',
    `${deno}invalid peer certificate: UnknownIssuer`, `${deno}received corrupt message of type InvalidContentType`, // a server without TLS
  ]) {
    test(`a certificate that is not trusted is an error at once, and nothing is given up: ${code}`, async () => {
      let requests = 0
      const fetch = async () => {
        requests++
        throw new TypeError('fetch failed', { cause: code.includes(' ') ? new TypeError(code) : Object.assign(new Error('not trusted'), { code }) })
      }
      const server = { url: 'https://locks.test', tenant: 'acme', clock: new FakeClock(), fetch }
      await assert.rejects(new Locks(server).acquire('deploy'), (e) => e instanceof NoResponseError && e.untrusted && /not trusted|client error/.test(e.message))
      await assert.rejects(new Runs(server).once('order', null, () => 1), NoResponseError)
      assert.equal(requests, 2)
      // A proxy may be in the way: IDs go on.
      const ids = new IdGenerator({ ...server, log: { warn: () => undefined } })
      assert.equal(decodeId(await ids.next()).fallback, true)
      await ids.close()
    })
  }
})
