// Tabs in real headless Chromium whose process is stopped for longer than their lease.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, describe, test } from 'node:test'
import { chromium, type BrowserContext, type Page } from 'playwright-core'
import { leasehold, start, withoutGo } from './player.js'
import { type Kept, acquire, launch, release, site, skip, tab, types } from './site.js'

declare const kept: Kept

/** A browser of its own with two tabs, the processes of which are known: the first one can be stopped. It ends with the test, whatever that comes to. */
async function twoTabs(t: TestContext, prepare: (context: BrowserContext) => Promise<Page>) {
  const browser = await chromium.launch(launch) // with a profile of its own
  const stopped = new Set<number>()
  const go = () => {
    for (const pid of stopped) process.kill(pid, 'SIGCONT')
    stopped.clear()
  }
  const stop = (pid: number) => {
    process.kill(pid, 'SIGSTOP')
    stopped.add(pid)
  }
  t.after(async () => {
    go() // a browser does not end while it waits for a tab
    await browser.close()
  })
  const context = await browser.newContext()
  const devtools = await browser.newBrowserCDPSession()
  const a = await prepare(context)
  const b = await prepare(context)
  // Which process is the first tab's: the one without which it does not answer. A tab that answers proves that another process was stopped, however slow the
  // machine is; the wrong process would be taken only if an answer took longer than this.
  const longest = 10_000
  const { processInfo } = await devtools.send('SystemInfo.getProcessInfo')
  for (const { id } of processInfo.filter((p) => p.type === 'renderer').sort((x, y) => y.cpuTime - x.cpuTime)) {
    stop(id)
    const answer = a.evaluate(() => true)
    const answered = await Promise.race([answer, new Promise<false>((resolve) => setTimeout(resolve, longest, false))])
    if (!answered) {
      await b.evaluate(() => true) // which has a process of its own
      go()
      await answer
      return { a, b, stop: () => stop(id), go }
    }
    go()
  }
  throw new Error('no process is that of the first tab')
}

describe('a tab that is stopped (SIGSTOP) for longer than its lease, in Chromium', { skip, concurrency: true, timeout: 170_000 }, () => {
  test('the file: it knows before its next step, and leaves the next one\'s file alone', async (t) => {
    const { url, server } = await site(undefined)
    t.after(() => server.close())
    const { a, b, stop, go } = await twoTabs(t, (context) => tab(context, url, { refused: 'SecurityError' }))
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
  })

  test('locks of a server: two tabs of which one is stopped', { skip: withoutGo }, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'leasehold-serve-'))
    t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
    const server = await start(leasehold, ['serve', '--listen', '127.0.0.1:0', '--data', join(folder, 'data')])
    t.after(() => server.process.kill())
    const web = await site(server.url)
    t.after(() => web.server.close())
    const { a, b, stop, go } = await twoTabs(t, async (context) => {
      const page = await context.newPage()
      await page.goto(web.url)
      await page.evaluate(async () => {
        const path = '/index.js'
        const { Locks } = (await import(path)) as typeof import('../src/index.js')
        Object.assign(globalThis, { locks: new Locks({ url: location.origin, tenant: 'acme', ttl: 10_000 }) })
      })
      return page
    })
    await a.evaluate(async () => {
      const { locks } = globalThis as unknown as { locks: import('../src/index.js').Locks }
      const lock = await locks.acquire('page')
      Object.assign(globalThis, { lock, token: lock.token })
    })
    await a.waitForTimeout(11_000) // it is renewed
    assert.equal(await a.evaluate(() => (globalThis as unknown as { lock: import('../src/index.js').Lock }).lock.owned), true)
    const busy = await b.evaluate(async () => (await (globalThis as unknown as { locks: import('../src/index.js').Locks }).locks.acquire('page', { ifAvailable: true })) === null)
    assert.equal(busy, true)
    stop()
    const token = await b.evaluate(async () => (await (globalThis as unknown as { locks: import('../src/index.js').Locks }).locks.acquire('page')).token)
    go()
    const seen = await a.evaluate(() => {
      const { lock, token } = globalThis as unknown as { lock: import('../src/index.js').Lock; token: number }
      return { held: lock.owned, name: (lock.signal.reason as Error).name, token }
    })
    assert.equal(seen.held, false)
    assert.equal(seen.name, 'LockLostError')
    assert.ok(token > seen.token)
  })
})
