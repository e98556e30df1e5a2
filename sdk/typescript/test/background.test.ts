// Tabs in real headless Chromium that are hidden behind another one: the browser slows their timers down to once a minute, or freezes them.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Browser, type Tab } from './devtools.js'
import { leasehold, start, withoutGo } from './player.js'
import { executablePath, launch, site, skip } from './site.js'

describe('a hidden tab, in Chromium', { skip: skip || withoutGo, concurrency: true, timeout: 170_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'leasehold-background-'))
  let server: Awaited<ReturnType<typeof start>>
  let web: Awaited<ReturnType<typeof site>>

  before(async () => {
    server = await start(leasehold, ['serve', '--listen', '127.0.0.1:0', '--data', join(folder, 'data')])
    web = await site(server.url)
  })
  after(() => {
    web.server.close()
    server.process.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })

  /** A tab that has `locks`, and takes down in `seen` what happens to them. */
  const open = async (browser: Browser, ttl: number): Promise<Tab> => {
    const tab = await browser.tab(web.url)
    await tab.evaluate(`import('/index.js').then(({ Locks }) => {
      globalThis.seen = []
      globalThis.locks = new Locks({ url: location.origin, tenant: 'acme', ttl: ${ttl}, observe: (e) => seen.push(e.type) })
    })`)
    return tab
  }

  test('its timers come once a minute: it renews all the same', async (t) => {
    // As after five minutes in the background, but at once.
    const browser = new Browser(executablePath ?? '', [...launch.args, '--enable-features=IntensiveWakeUpThrottling:grace_period_seconds/1'])
    t.after(() => browser.close())
    const a = await open(browser, 30_000)
    // A chain of timers, as a program without this package would have, shows what the browser does.
    await a.evaluate(`void (globalThis.tick = () => { globalThis.ticked = performance.now(); setTimeout(tick, 200) })()`)
    await a.evaluate(`locks.acquire('hidden').then((lock) => void (globalThis.lock = lock))`)
    // The project lock's file, which lasts for 30 s, too.
    const refuse = `navigator.locks.request = () => Promise.reject(new DOMException('refused', 'SecurityError'))`
    await a.evaluate(`import('/projectlock.js').then(({ withProjectLock }) => {
      ${refuse}
      void withProjectLock((lease, signal) => new Promise((_, reject) => {
        globalThis.project = signal
        signal.addEventListener('abort', reject)
      }))
    })`)
    await a.until('globalThis.project !== undefined')
    const b = await open(browser, 30_000)
    assert.equal(await a.evaluate('document.visibilityState'), 'hidden')
    await a.until('performance.now() - ticked > 35_000') // both would have expired
    assert.deepEqual(await a.evaluate('[lock.owned, project.aborted]'), [true, false])
    assert.equal(await b.evaluate(`locks.acquire('hidden', { ifAvailable: true }).then((lock) => lock === null)`), true)
    const refused = `import('/projectlock.js').then((project) => {
      ${refuse}
      return project.acquireProjectLock({ retry: { maxAttempts: 1 } }).then(() => 'acquired', (e) => e.code)
    })`
    assert.equal(await b.evaluate(refused), 'lock-unavailable')
  })

  test('it is frozen for longer than its lease: it knows when it goes on, before its next step', async (t) => {
    const browser = new Browser(executablePath ?? '', launch.args)
    t.after(() => browser.close())
    const a = await open(browser, 3000)
    // Work in small steps. `late` is what it would have written under a lock that another tab had by then.
    await a.evaluate(`locks.acquire('frozen').then((lock) => {
      Object.assign(globalThis, { lock, steps: 0, late: 0 })
      const step = () => {
        if (lock.signal.aborted) return void (globalThis.reason = lock.signal.reason.name)
        steps++
        if (Date.now() > globalThis.deadline) late++
        setTimeout(step, 20)
      }
      step()
    })`)
    const b = await open(browser, 3000)
    assert.equal(await a.evaluate('document.visibilityState'), 'hidden')
    await a.state('frozen')
    const steps = await a.evaluate('steps')
    const token = await b.evaluate(`locks.acquire('frozen').then((lock) => lock.token)`)
    await a.evaluate('void (globalThis.deadline = Date.now())')
    assert.equal(await a.evaluate('steps'), steps) // it stood still
    await a.state('active')
    await a.until(`globalThis.reason !== undefined`)
    assert.deepEqual(await a.evaluate('[reason, late, lock.owned]'), ['LockLostError', 0, false])
    assert.ok(Number(token) > Number(await a.evaluate('lock.token')))
  })

  test('it is left, and come back to when its lease is another\'s: it knows before its next step', async (t) => {
    const browser = new Browser(executablePath ?? '', launch.args)
    t.after(() => browser.close())
    const a = await open(browser, 3000)
    // The page is kept as it is (in the back/forward cache), and no timer fires meanwhile.
    await a.evaluate(`locks.acquire('left').then((lock) => {
      globalThis.lock = lock
      addEventListener('pageshow', (e) => { globalThis.back = [e.persisted, lock.signal.aborted, lock.signal.reason?.name] })
    })`)
    await a.evaluate(`void (location.href = '/?elsewhere')`)
    await a.until(`location.search === '?elsewhere' && document.readyState === 'complete'`)
    const b = await open(browser, 3000)
    const token = await b.evaluate(`locks.acquire('left').then((lock) => (globalThis.lock = lock).token)`)
    await a.evaluate('void history.back()')
    await a.until('globalThis.back !== undefined')
    assert.deepEqual(await a.evaluate('back'), [true, true, 'LockLostError'])
    assert.ok(Number(token) > Number(await a.evaluate('lock.token')))
    assert.equal(await b.evaluate('lock.owned'), true)
  })
})
