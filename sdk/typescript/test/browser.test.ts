// The package in real headless Chromium: two tabs of one browser, Web Locks, the private file system, tabs that are closed. What real time passes here
// is that of the browser; no result depends on how fast the machine is.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import type { Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { chromium, type BrowserContext } from 'playwright-core'
import { type Kept, acquire, launch, once, release, site, skip, tab, types } from './site.js'

declare const kept: Kept

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

  // PRJ-TEST-1
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

  // PRJ-ACQ-2
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
    // PRJ-ACQ-1
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

  // PRJ-ACQ-3
  test('the file of a tab that was closed is an orphan: it is taken over by one tab when it has expired', async () => {
    const url = await own()
    const refused = 'SecurityError'
    const a = await tab(context, url, { refused })
    const first = await acquire(a)
    assert.ok(first.lease)
    // As if the browser had crashed: the page cannot note that its lease is over.
    await a.evaluate(() => void Object.defineProperty(globalThis, 'localStorage', { value: undefined }))
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

  test('the file: a page that is reloaded has the lock again at once, and so has another tab', async () => {
    const url = await own()
    const a = await tab(context, url, { refused: 'SecurityError' })
    assert.ok((await acquire(a)).lease)
    await a.goto(`${url}/?again`)
    const b = await tab(context, url, { refused: 'SecurityError' })
    const got = await acquire(b, once)
    assert.equal(got.lease?.backend, 'fallback', JSON.stringify(got))
    assert.equal(await b.evaluate(() => localStorage.length), 0)
    await release(b, got.lease?.id ?? '')
  })

  // PRJ-FILE
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

  test('the file is gone with the site\'s data: the next tab has the lock, and the first one learns of it and leaves its file alone', async () => {
    const url = await own()
    const refused = 'SecurityError'
    const [a, b] = [await tab(context, url, { refused }), await tab(context, url, { refused })]
    const first = await acquire(a)
    await (await context.newCDPSession(a)).send('Storage.clearDataForOrigin', { origin: url, storageTypes: 'all' })
    const second = await acquire(b, once)
    assert.equal(second.lease?.backend, 'fallback')
    const failed = (what: 'renewProjectLock' | 'releaseProjectLock') =>
      a.evaluate(([what, id]) => kept.lock[what as 'renewProjectLock'](kept.leases[id as string] as never).then(() => '', (e: { code: string }) => e.code), [what, first.lease?.id])
    assert.equal(await failed('renewProjectLock'), 'lock-renewal-failed')
    assert.equal(await failed('releaseProjectLock'), 'lock-release-failed')
    assert.deepEqual(await types(a), ['lock:acquired', 'lock:cleanup-warning'])
    await release(b, second.lease?.id ?? '')
    assert.deepEqual(await types(b), ['lock:acquired', 'lock:released'])
  })

  test('the file cannot be written, because the site has no room left: there is no lease, and one that is held can be released', async () => {
    const url = await own()
    const a = await tab(context, url, { refused: 'SecurityError' })
    const devtools = await context.newCDPSession(a)
    await devtools.send('Storage.overrideQuotaForOrigin', { origin: url, quotaSize: 1 })
    assert.equal((await acquire(a, once)).error?.code, 'lock-unavailable')
    await devtools.send('Storage.overrideQuotaForOrigin', { origin: url })
    const got = await acquire(a, once)
    assert.equal(got.lease?.backend, 'fallback')
    await devtools.send('Storage.overrideQuotaForOrigin', { origin: url, quotaSize: 1 })
    await release(a, got.lease?.id ?? '')
    assert.deepEqual(await types(a), ['lock:error', 'lock:acquired', 'lock:released'])
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
