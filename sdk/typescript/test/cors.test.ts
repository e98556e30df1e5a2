// Pages of other origins than the server's, in real headless Chromium, against a real server that lists one of them.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import type { Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { chromium, type Browser, type Page } from 'playwright-core'
import { NoResponseError, Locks, NotFoundError } from '../src/index.js'
import { leasehold, start, withoutGo } from './player.js'
import { launch, site, skip } from './site.js'

declare const locks: Locks

describe('a page of another origin, in Chromium', { skip: skip || withoutGo, timeout: 170_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'leasehold-cors-'))
  const sites: Server[] = []
  let browser: Browser
  let server: Awaited<ReturnType<typeof start>>
  let listed: string
  let other: string

  before(async () => {
    const [a, b] = [await site(undefined), await site(undefined)]
    sites.push(a.server, b.server)
    listed = a.url
    other = b.url
    server = await start(leasehold, ['serve', '--listen', '127.0.0.1:0', '--data', join(folder, 'data'), '--cors-origins', listed])
    browser = await chromium.launch(launch)
  })
  after(async () => {
    await browser?.close()
    for (const s of sites) s.close()
    server?.process.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })

  /** A page of an origin with a client `locks` of the server, which sends a token; and what the browser asks the server before. */
  const open = async (origin: string): Promise<{ page: Page; preflights: Record<string, string>[] }> => {
    const page = await browser.newPage()
    const preflights: Record<string, string>[] = []
    const devtools = await page.context().newCDPSession(page)
    await devtools.send('Network.enable')
    devtools.on('Network.requestWillBeSent', (e) => {
      if (e.request.method === 'OPTIONS') preflights.push(Object.fromEntries(Object.entries(e.request.headers).map(([k, v]) => [k.toLowerCase(), String(v)])))
    })
    await page.goto(origin)
    await page.evaluate(async (url) => {
      const path = '/index.js'
      const { Locks } = (await import(path)) as typeof import('../src/index.js')
      Object.assign(globalThis, { locks: new Locks({ url, tenant: 'acme', token: 'secret', retryFor: 0 }) })
    }, server.url)
    return { page, preflights }
  }
  const seen = (page: Page, key: string) =>
    page.evaluate((key) => locks.request(key, (lock) => String(lock.owned)).catch((e: Error) => e.name), key)

  test('that the server lists holds locks: the browser asks before, for the token\'s header, too', async () => {
    const { page, preflights } = await open(listed)
    assert.equal(await seen(page, 'listed'), 'true')
    assert.match(preflights[0]?.['access-control-request-headers'] ?? '', /authorization,content-type/)
    assert.equal(preflights[0]?.['access-control-request-method'], 'POST')
    const own = new Locks({ url: server.url, tenant: 'acme' })
    assert.equal((await own.get('listed')).state, 'RELEASED')
    assert.equal(await page.evaluate(() => locks.get('listed').then((l) => l.state)), 'RELEASED')

    // What it must be able to read of a rejection: the problem, and Retry-After.
    const held = await own.acquire('held')
    const got = await page.evaluate(async (url) => {
      const error = (await locks.acquire('held', { wait: 0 }).catch((e: unknown) => e)) as { name: string; retryAfter: number }
      const response = await fetch(`${url}/v1/tenants/acme/locks/held/acquire`, {
        method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ owner_id: 'page', request_id: 'r1', ttl_seconds: 30 }),
      })
      return { name: error.name, asks: error.retryAfter > 0, status: response.status, retryAfter: response.headers.get('retry-after') }
    }, server.url)
    assert.deepEqual({ ...got, retryAfter: Number(got.retryAfter) > 0 }, { name: 'LockHeldError', asks: true, status: 409, retryAfter: true })
    await held.release()
  })

  test('that the server does not list holds none, reads nothing, and changes nothing', async () => {
    const own = new Locks({ url: server.url, tenant: 'acme' })
    await (await own.acquire('known')).release()
    const { page } = await open(other)
    assert.equal(await seen(page, 'other'), NoResponseError.name)
    await assert.rejects(own.get('other'), NotFoundError)
    assert.equal(await page.evaluate(() => locks.get('known').then((l) => l.state, (e: Error) => e.name)), NoResponseError.name)
    // Without anything that the browser asks for before, such as a form's request.
    const plain = await page.evaluate(async (url) => {
      const path = `${url}/v1/tenants/acme/locks/plain/acquire`
      const body = JSON.stringify({ owner_id: 'page', request_id: 'r1', ttl_seconds: 30 })
      const read = await fetch(path, { method: 'POST', body }).then(() => 'read', (e: Error) => e.name)
      return [read, (await fetch(path, { method: 'POST', body, mode: 'no-cors' })).type]
    }, server.url)
    assert.deepEqual(plain, ['TypeError', 'opaque'])
    await assert.rejects(own.get('plain'), NotFoundError)
  })

  test('that is in a sandbox, and so has no origin, is none that the server lists', async () => {
    const { page } = await open(listed)
    const got = await page.evaluate(async (url) => {
      const frame = document.createElement('iframe')
      frame.setAttribute('sandbox', 'allow-scripts')
      frame.srcdoc = `<script type="module">
        import { Locks } from '${location.origin}/index.js'
        new Locks({ url: '${url}', tenant: 'acme', retryFor: 0 }).request('sandbox', () => 'held').catch((e) => e.name).then((r) => parent.postMessage(r, '*'))
      </script>`
      const answer = new Promise((resolve) => addEventListener('message', (e) => resolve(e.data)))
      document.body.append(frame)
      return answer
    }, server.url)
    assert.equal(got, NoResponseError.name)
    await assert.rejects(new Locks({ url: server.url, tenant: 'acme' }).get('sandbox'), NotFoundError)
  })
})
