// The package in real headless Chromium: two tabs of one browser, Web Locks, the private file system, tabs that are closed and frozen. What real time passes here
// is that of the browser; no result depends on how fast the machine is.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { type Server, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, normalize } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { chromium, type BrowserContext, type Page } from 'playwright-core'
import { build, start, withoutGo } from './player.js'

const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((p) => existsSync(p))
const skip = executablePath ? false : 'needs Chromium: apt-get install chromium'

const launch = {
  ...(executablePath && { executablePath }), headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
}

/** Serves the compiled package, and passes /v1 on to a server of Leasehold, so that a page needs no other origin. */
async function site(leasehold: string | undefined): Promise<{ url: string; server: Server }> {
  const src = fileURLToPath(new URL('../src/', import.meta.url))
  const server = createServer((request, response) => {
    const path = (request.url ?? '/').split('?')[0] ?? '/'
    if (path.startsWith('/v1/') && leasehold) {
      const chunks: Buffer[] = []
      request.on('data', (c: Buffer) => chunks.push(c))
      request.on('end', () => {
        void fetch(leasehold + (request.url ?? ''), { method: request.method ?? 'GET', headers: { 'content-type': 'application/json' }, body: Buffer.concat(chunks) }).then(
          async (r) => {
            response.writeHead(r.status, { 'content-type': r.headers.get('content-type') ?? '' })
            response.end(await r.text())
          },
          () => response.destroy(),
        )
      })
      return
    }
    if (path === '/') return void response.setHeader('content-type', 'text/html').end('<!doctype html><title>test</title>')
    const file = join(src, normalize(path))
    if (!file.startsWith(src) || !existsSync(file)) return void response.writeHead(404).end()
    // A page in a sandbox has no origin: it may read the modules all the same.
    response.writeHead(200, { 'content-type': 'text/javascript', 'access-control-allow-origin': '*' }).end(readFileSync(file))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server }
}

// What runs in the page. The module is /projectlock.js; `lock` is its project lock, `events` what it announced.
interface Held { id: string; backend: string; reach: string; ttlExpiresAt: number }
interface Kept { lock: import('../src/projectlock.js').ProjectLock; events: Record<string, unknown>[]; leases: Record<string, never>; lost?: string; module: typeof import('../src/projectlock.js') }
declare const kept: Kept

/** Prepares a tab: with `refused`, Web Locks are refused as the browser does, with `ahead` its clock is ahead. */
async function tab(context: BrowserContext, url: string, o: { refused?: string; ahead?: number } = {}): Promise<Page> {
  const page = await context.newPage()
  await page.goto(url)
  await page.evaluate(async ({ refused, ahead }) => {
    if (refused) navigator.locks.request = () => Promise.reject(new DOMException('refused', refused)) as never
    const path = '/projectlock.js'
    const module = (await import(path)) as typeof import('../src/projectlock.js')
    const clock = {
      now: () => performance.now(),
      wall: () => Date.now() + (ahead ?? 0),
      after: (ms: number, call: () => void) => {
        const timer = setTimeout(call, ms)
        return () => clearTimeout(timer)
      },
    }
    // Without a clock of its own the tab uses the module's five functions.
    const lock = ahead ? module.createProjectLock({ clock }) : (module as Kept['lock'])
    const events: Record<string, unknown>[] = []
    lock.subscribeLockEvents((e) => events.push({ ...e, ...('error' in e && { error: { code: e.error.code, retryable: e.error.retryable } }) }))
    Object.assign(globalThis, { kept: { lock, events, leases: {}, module } })
  }, o)
  return page
}

const acquire = (page: Page, options: object = {}) =>
  page.evaluate(async (options) => {
    try {
      const lease = await kept.lock.acquireProjectLock(options)
      kept.leases[lease.id] = lease as never
      return { lease: lease as Held }
    } catch (e) {
      const { code, retryable, message } = e as { code: string; retryable: boolean; message: string }
      return { error: { code, retryable, message } }
    }
  }, options)

const release = (page: Page, id: string) => page.evaluate((id) => kept.lock.releaseProjectLock(kept.leases[id] as never), id)
const types = (page: Page) => page.evaluate(() => kept.events.map((e) => e['type']))
const once = { retry: { maxAttempts: 1 } }

describe('in Chromium', { skip, concurrency: true, timeout: 170_000 }, () => {
  let context: BrowserContext
  const folder = mkdtempSync(join(tmpdir(), 'leasehold-browser-'))

  // Each test has a site of its own, so that nothing of it is shared with another one: neither Web Locks nor files.
  const sites: Server[] = []
  const own = async () => {
    const s = await site(undefined)
    sites.push(s.server)
    return s.url
  }

  before(async () => {
    context = await chromium.launchPersistentContext(join(folder, 'profile'), launch)
  })
  after(async () => {
    await context?.close()
    for (const s of sites) s.close()
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })

  test('Web Locks: one tab at a time, and the events in their order', async () => {
    const url = await own()
    const [a, b] = [await tab(context, url), await tab(context, url)]
    const first = await acquire(a)
    assert.equal(first.lease?.backend, 'web')
    assert.equal(first.lease?.reach, 'browser')
    assert.equal(await a.evaluate(() => navigator.locks.query().then((q) => q.held?.map((l) => l.name).join())), 'imgponic:project:autosave')
    const waiting = acquire(b)
    await b.waitForFunction(() => navigator.locks.query().then((q) => q.pending?.length === 1))
    assert.equal((await acquire(a, { scope: 'history' })).lease?.backend, 'web') // another lock
    await release(a, first.lease?.id ?? '')
    const second = await waiting
    assert.equal(second.lease?.backend, 'web')
    await release(b, second.lease?.id ?? '')
    assert.deepEqual(await types(a), ['lock:acquired', 'lock:acquired', 'lock:released'])
    assert.deepEqual(await types(b), ['lock:acquired', 'lock:released'])
    const at = await b.evaluate(() => kept.events.map((e) => Number(e['at'])))
    assert.deepEqual(at, [...at].sort((x, y) => x - y))
  })

  test('Web Locks: a tab that is closed has nothing left', async () => {
    const url = await own()
    const [a, b] = [await tab(context, url), await tab(context, url)]
    assert.ok((await acquire(a)).lease)
    await a.close()
    assert.equal((await acquire(b)).lease?.backend, 'web')
  })

  test('Web Locks: a try is aborted after 10 s', async () => {
    const url = await own()
    const [a, b] = [await tab(context, url), await tab(context, url)]
    assert.ok((await acquire(a)).lease)
    const got = await b.evaluate(async () => {
      const begin = performance.now()
      const error = await kept.lock.acquireProjectLock({ retry: { maxAttempts: 1 } }).then(() => undefined, (e: { code: string; retryable: boolean; cause: { code: string } }) => e)
      return { took: performance.now() - begin, code: error?.code, retryable: error?.retryable, cause: error?.cause.code }
    })
    assert.deepEqual({ ...got, took: 0 }, { took: 0, code: 'lock-unavailable', retryable: false, cause: 'lock-timeout' })
    assert.ok(got.took >= 9990, `after ${got.took} ms`)
    assert.deepEqual(await types(b), ['lock:error'])
    assert.equal(await b.evaluate(() => navigator.locks.query().then((q) => q.pending?.length)), 0)
  })

  for (const refused of ['SecurityError', 'NotSupportedError']) {
    test(`the file where Web Locks are refused: one tab at a time: ${refused}`, async () => {
      const url = await own()
      const [a, b] = [await tab(context, url, { refused }), await tab(context, url, { refused })]
      const first = await acquire(a)
      assert.equal(first.lease?.backend, 'fallback')
      const file = await b.evaluate(async () => {
        const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle('project')
        return JSON.parse(await (await (await folder.getFileHandle('.lock')).getFile()).text()) as { id: string }
      })
      assert.equal(file.id, first.lease?.id)
      const refusal = await acquire(b, once)
      assert.equal(refusal.error?.code, 'lock-unavailable')
      const renewed = await a.evaluate(async (id) => (await kept.lock.renewProjectLock(kept.leases[id] as never)).ttlExpiresAt, first.lease?.id ?? '')
      assert.ok(renewed >= (first.lease?.ttlExpiresAt ?? Infinity))
      await release(a, first.lease?.id ?? '')
      const second = await acquire(b)
      assert.equal(second.lease?.backend, 'fallback')
      await release(b, second.lease?.id ?? '')
      assert.deepEqual(await types(a), ['lock:acquired', 'lock:renewed', 'lock:released'])
      assert.deepEqual(await types(b), ['lock:error', 'lock:acquired', 'lock:released'])
      const left = await b.evaluate(async () => {
        const names: string[] = []
        for await (const name of (await (await navigator.storage.getDirectory()).getDirectoryHandle('project')).keys()) names.push(name)
        return names
      })
      assert.deepEqual(left, [])
    })
  }

  test('the file of a tab that was closed is an orphan: it is taken over by one tab when it has expired', async () => {
    const url = await own()
    const refused = 'SecurityError'
    const a = await tab(context, url, { refused })
    const first = await acquire(a)
    assert.ok(first.lease)
    await a.close()
    const early = await tab(context, url, { refused })
    assert.equal((await acquire(early, once)).error?.code, 'lock-unavailable')
    // Tabs whose clocks show what it will be in half a minute.
    const late = [await tab(context, url, { refused, ahead: 30_500 }), await tab(context, url, { refused, ahead: 30_500 }), await tab(context, url, { refused, ahead: 30_500 })]
    const got = await Promise.all(late.map((page) => acquire(page, once)))
    assert.equal(got.filter((g) => g.lease).length, 1, JSON.stringify(got))
    // Whose file it was does not touch the next one's.
    assert.equal((await acquire(early, once)).error?.code, 'lock-unavailable')
  })

  test('the file: many tabs at once, one after the other in the critical section', async () => {
    const url = await own()
    const pages = await Promise.all([1, 2, 3].map(() => tab(context, url, { refused: 'SecurityError' })))
    const counts = await Promise.all(pages.map((page) => page.evaluate(async () => {
      let inside = 0
      for (let i = 0; i < 5; i++) {
        await kept.lock.withProjectLock(async () => {
          // Read, wait, write: what another tab does in between would be lost.
          const root = await navigator.storage.getDirectory()
          const handle = await root.getFileHandle('count', { create: true })
          const n = Number(await (await handle.getFile()).text())
          await new Promise((resolve) => setTimeout(resolve, 5))
          const writer = await handle.createWritable()
          await writer.write(String(n + 1))
          await writer.close()
          inside++
        }, { retry: { initialDelayMs: 20, maxDelayMs: 40, maxAttempts: 100_000 } })
      }
      return inside
    })))
    assert.deepEqual(counts, [5, 5, 5])
    const total = await pages[0]?.evaluate(async () => (await (await (await navigator.storage.getDirectory()).getFileHandle('count')).getFile()).text())
    assert.equal(total, '15')
  })

  test('in a worker, where the file has synchronous access', async () => {
    const url = await own()
    const page = await tab(context, url)
    const got = await page.evaluate(async (url) => {
      const code = `
        const { createProjectLock } = await import('${url}/projectlock.js')
        const make = () => createProjectLock({ locks: null })
        const [a, b] = [make(), make()]
        const lease = await a.acquireProjectLock()
        const refusal = await b.acquireProjectLock({ retry: { maxAttempts: 1 } }).catch((e) => e.code)
        const renewed = await a.renewProjectLock(lease)
        await a.releaseProjectLock(renewed)
        const next = await b.acquireProjectLock()
        await b.releaseProjectLock(next)
        postMessage([lease.backend, refusal, renewed.id === lease.id, next.backend])`
      const worker = new Worker(URL.createObjectURL(new Blob([code], { type: 'text/javascript' })), { type: 'module' })
      return new Promise((resolve, reject) => {
        worker.onmessage = (e) => resolve(e.data)
        worker.onerror = (e) => reject(new Error(e.message))
      })
    }, url)
    assert.deepEqual(got, ['fallback', 'lock-unavailable', true, 'fallback'])
  })

  test('a page in a sandbox, which the browser refuses both, gets no lock', async () => {
    const url = await own()
    const page = await tab(context, url)
    const got = await page.evaluate(async (url) => {
      const frame = document.createElement('iframe')
      frame.setAttribute('sandbox', 'allow-scripts')
      frame.srcdoc = `<script type="module">
        import { acquireProjectLock } from '${url}/projectlock.js'
        acquireProjectLock().then((l) => 'acquired', (e) => e.code + ' ' + e.retryable).then((r) => parent.postMessage(r, '*'))
      </script>`
      const answer = new Promise((resolve) => addEventListener('message', (e) => resolve(e.data)))
      document.body.append(frame)
      return answer
    }, url)
    assert.ok(got === 'lock-unavailable false' || got === 'web-lock-unsupported false', String(got))
  })
})

/** A browser of its own with two tabs, the processes of which are known: the first one can be stopped. */
async function twoTabs(prepare: (context: BrowserContext) => Promise<Page>) {
  const browser = await chromium.launch(launch) // with a profile of its own
  const context = await browser.newContext()
  const devtools = await browser.newBrowserCDPSession()
  const a = await prepare(context)
  const b = await prepare(context)
  // Which process is the first tab's: the one that uses the processor while that tab counts for a second.
  const times = async () =>
    new Map((await devtools.send('SystemInfo.getProcessInfo')).processInfo.filter((p) => p.type === 'renderer').map((p) => [p.id, p.cpuTime]))
  const busiest = async (page: Page) => {
    const before = await times()
    await page.evaluate(() => {
      const end = performance.now() + 1000
      while (performance.now() < end);
    })
    const after = [...(await times())].map(([id, used]) => ({ id, used: used - (before.get(id) ?? 0) }))
    return after.sort((x, y) => y.used - x.used)[0]?.id ?? 0
  }
  const [own, other] = [await busiest(a), await busiest(b)]
  assert.ok(own > 0 && own !== other, 'both tabs are in one process')
  const close = async () => {
    await browser.close()
  }
  return { a, b, close, stop: () => process.kill(own, 'SIGSTOP'), go: () => process.kill(own, 'SIGCONT') }
}

describe('a tab that is stopped (SIGSTOP) for longer than its lease, in Chromium', { skip, concurrency: true, timeout: 170_000 }, () => {
  test('the file: it knows before its next step, and leaves the next one\'s file alone', async () => {
    const { url, server } = await site(undefined)
    const { a, b, stop, go, close } = await twoTabs((context) => tab(context, url, { refused: 'SecurityError' }))
    await a.evaluate(() => {
      void kept.lock.withProjectLock(async (_, signal) => {
        // Work in small steps: what it does last before it looks is counted.
        while (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, 50))
        Object.assign(kept, { lost: String(Date.now()) })
        throw signal.reason
      }).catch((e: { code: string }) => Object.assign(kept, { code: e.code }))
    })
    await a.waitForFunction(() => kept.events.length === 1)
    stop()
    const got = await acquire(b, { retry: { initialDelayMs: 1000, maxDelayMs: 1000, maxAttempts: 120 } })
    assert.equal(got.lease?.backend, 'fallback')
    go()
    await a.waitForFunction(() => 'code' in kept)
    assert.equal(await a.evaluate(() => (kept as unknown as { code: string }).code), 'lock-renewal-failed')
    assert.deepEqual(await types(a), ['lock:acquired', 'lock:cleanup-warning']) // the next one's file was left alone
    await release(b, got.lease?.id ?? '')
    assert.equal((await types(b)).at(-1), 'lock:released')
    await close()
    server.close()
  })

  test('locks of a server: two tabs of which one is stopped', { skip: withoutGo }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'leasehold-serve-'))
    const leasehold = await start(build('./cmd/leasehold', join(folder, 'leasehold')), ['serve', '--listen', '127.0.0.1:0', '--data', join(folder, 'data')])
    const web = await site(leasehold.url)
    const { a, b, stop, go, close } = await twoTabs(async (context) => {
      const page = await context.newPage()
      await page.goto(web.url)
      await page.evaluate(async () => {
        const path = '/index.js'
        const { Locks } = (await import(path)) as typeof import('../src/index.js')
        Object.assign(globalThis, { locks: new Locks({ url: location.origin, tenant: 'acme', ttl: 2000 }) })
      })
      return page
    })
    await a.evaluate(async () => {
      const { locks } = globalThis as unknown as { locks: import('../src/index.js').Locks }
      const lock = await locks.acquire('page')
      Object.assign(globalThis, { lock, token: lock.token })
    })
    await a.waitForTimeout(3000) // it is renewed
    assert.equal(await a.evaluate(() => (globalThis as unknown as { lock: import('../src/index.js').Lock }).lock.held), true)
    const busy = await b.evaluate(async () => (await (globalThis as unknown as { locks: import('../src/index.js').Locks }).locks.acquire('page', { ifAvailable: true })) === null)
    assert.equal(busy, true)
    stop()
    const token = await b.evaluate(async () => (await (globalThis as unknown as { locks: import('../src/index.js').Locks }).locks.acquire('page')).token)
    go()
    const seen = await a.evaluate(() => {
      const { lock, token } = globalThis as unknown as { lock: import('../src/index.js').Lock; token: number }
      return { held: lock.held, name: (lock.signal.reason as Error).name, token }
    })
    assert.equal(seen.held, false)
    assert.equal(seen.name, 'LockLostError')
    assert.ok(token > seen.token)
    await close()
    web.server.close()
    leasehold.process.kill()
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })
})
