// Pages of this package in headless Chromium, and what the tests do in them.
import { existsSync, readFileSync } from 'node:fs'
import { type Server, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type BrowserContext, type Page } from 'playwright-core'

export const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((p) => existsSync(p))
export const skip = executablePath ? false : 'needs Chromium: apt-get install chromium'

export const launch = {
  ...(executablePath && { executablePath }), headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
}

/** Serves the compiled package, and passes /v1 on to a server of Leasehold, so that a page needs no other origin. */
export async function site(leasehold: string | undefined): Promise<{ url: string; server: Server }> {
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
export interface Held { id: string; backend: string; reach: string; ttlExpiresAt: number }
export interface Kept { lock: import('../src/projectlock.js').ProjectLock; events: Record<string, unknown>[]; leases: Record<string, never>; lost?: string; module: typeof import('../src/projectlock.js') }
declare const kept: Kept

/** Prepares a tab: with `refused`, Web Locks are refused as the browser does, with `ahead` its clock is ahead. */
export async function tab(context: BrowserContext, url: string, o: { refused?: string; ahead?: number } = {}): Promise<Page> {
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

export const acquire = (page: Page, options: object = {}) =>
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

export const release = (page: Page, id: string) => page.evaluate((id) => kept.lock.releaseProjectLock(kept.leases[id] as never), id)
export const types = (page: Page) => page.evaluate(() => kept.events.map((e) => e['type']))
export const once = { retry: { maxAttempts: 1 } }

