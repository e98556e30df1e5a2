// Tabs in real headless Chromium whose process is stopped for longer than their lease.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { chromium, type BrowserContext, type Page } from 'playwright-core'
import { leasehold, start, withoutGo } from './player.js'
import { type Kept, acquire, launch, release, site, skip, tab, types } from './site.js'

declare const kept: Kept

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
    const server = await start(leasehold, ['serve', '--listen', '127.0.0.1:0', '--data', join(folder, 'data')])
    const web = await site(server.url)
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
    server.process.kill()
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })
})
