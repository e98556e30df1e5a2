// The same fault is the same class of error, whatever is asked for.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RequestIdReusedError } from '../src/errors.js'
import { HttpLeaseProvider, IdGenerator, LeaseAcquisitionError, PublicIds } from '../src/ids.js'
import { ClosedError, InvalidResponseError, InvalidSettingError, LeaseholdError, LockLostError, Locks, NoResponseError } from '../src/index.js'
import { acquireAll } from '../src/sets.js'
import { tokenFile } from '../src/node.js'
import { Runs } from '../src/once.js'
import { FakeClock, json, problem } from './world.js'

type Ask = (server: { url: string; tenant: string; clock: FakeClock; fetch: typeof fetch }) => Promise<unknown>

const asks: Record<string, Ask> = {
  'a lock': (server) => new Locks(server).acquire('deploy', { wait: 0 }),
  'several locks': (server) => acquireAll(new Locks(server), ['a', 'b'], { wait: 0 }),
  'a grant of a rate': (server) => new Locks(server).take('mails', { limit: 1, window: 1000 }, { wait: 0 }),
  'who holds a lock': (server) => new Locks(server).get('deploy'),
  'a run': (server) => new Runs(server).once('order', null, () => 1),
  'a machine ID': (server) => new HttpLeaseProvider(server).acquire({}),
  'an ID': async ({ url, fetch, clock }) => {
    const ids = new IdGenerator({ url, fetch, clock, disableFallback: true, log: { warn: () => undefined } })
    try {
      return await ids.next()
    } catch (e) {
      throw e instanceof LeaseAcquisitionError || (e as Error).name === 'ConfigurationError' ? (e as Error).cause : e
    } finally {
      await ids.close()
    }
  },
}

const broken = (code: string) => () => Promise.reject(new TypeError('fetch failed', { cause: Object.assign(new Error(code), { code }) }))
const page = (status: number) => async () => new Response('<html>', { status, headers: { 'content-type': 'text/html' } })

const faults: [string, typeof fetch, (e: unknown) => boolean][] = [
  ['the server hangs', () => new Promise(() => undefined), (e) => e instanceof NoResponseError && e.sent],
  ['the connection breaks off', broken('ECONNRESET'), (e) => e instanceof NoResponseError && e.sent],
  ['the connection is refused', broken('ECONNREFUSED'), (e) => e instanceof NoResponseError && !e.sent],
  ['a page of a proxy', page(502), (e) => e instanceof InvalidResponseError && e.status === 502],
  ['a page of another server', page(200), (e) => e instanceof InvalidResponseError && e.status === 200],
  ['something else', async () => json({ hello: 'world' }), (e) => e instanceof InvalidResponseError],
  ['a redirect', async () => new Response(null, { status: 302, headers: { location: 'https://login.test' } }), (e) => e instanceof InvalidResponseError && e.status === 302],
]
for (const [fault, answer, right] of faults) {
  for (const [what, ask] of Object.entries(asks)) {
    test(`${fault}: ${what}`, async () => {
      const clock = new FakeClock()
      const got = await clock.until(ask({ url: 'https://locks.test', tenant: 'acme', clock, fetch: answer }).then(() => 'nothing', (e: unknown) => e))
      assert.ok(got instanceof LeaseholdError && right(got), String(got))
    })
  }
}

test('a request_id that is used, whatever the client draws', async () => {
  for (const what of ['a lock', 'several locks', 'a grant of a rate', 'a run'] as const) {
    const clock = new FakeClock()
    const got = await clock.until((asks[what] as Ask)({ url: 'https://locks.test', tenant: 'acme', clock, fetch: async () => problem('REQUEST_ID_REUSED', 422) }).then(() => 'nothing', (e: unknown) => e))
    assert.ok(got instanceof RequestIdReusedError, `${what}: ${String(got)}`)
  }
})

/** A server that grants, and knows nothing of it afterwards. */
const forgetful = (async (url: string, init: RequestInit) => {
  const { owner_id } = JSON.parse(String(init.body)) as Record<string, unknown>
  const [name, what] = new URL(url).pathname.split('/').slice(-2)
  if (what === 'begin') return json({ run_id: name, acquired: true, owner_id, fencing_token: 8, remaining_ms: 30_000, runs: 1, failures: 0 })
  if (what !== 'acquire') return problem('LEASE_LOST', 409)
  return json({ tenant_id: 'acme', lock_key: name, owner_id, fencing_token: 7, state: 'ACTIVE', lease_id: 'L7', expires_at: new Date(0).toISOString(), remaining_ms: 30_000 })
}) as unknown as typeof fetch

test('what was lost while the work ran', async () => {
  for (const [what, run] of [
    ['a lock', (s: never, work: () => Promise<string>) => new Locks(s).request('deploy', work)],
    ['a run', (s: never, work: () => Promise<string>) => new Runs(s).once('order', null, work, { ttl: 30_000 })],
  ] as const) {
    const clock = new FakeClock()
    const got = run({ url: 'https://locks.test', tenant: 'acme', clock, fetch: forgetful } as never, async () => (await clock.pass(25_000), 'done'))
    await assert.rejects(clock.until(got), (e: unknown) => e instanceof LockLostError && e.code === 'LEASE_LOST', what)
  }
})

test('an argument that cannot work', async () => {
  const server = { url: 'https://locks.test', tenant: 'acme', fetch: (() => assert.fail('it was sent')) as never }
  for (const work of [
    () => new Locks(server).acquire(''), () => new Runs(server).once('', null, () => 1), () => new IdGenerator(server).batch(-1), () => new Locks({ ...server, tenant: '' }),
    () => new Runs({ ...server, tenant: '' }), () => new IdGenerator({ ...server, url: 'ftp://ids.test' }), () => new HttpLeaseProvider({ ...server, url: '' }),
  ]) await assert.rejects(async () => work(), (e: unknown) => e instanceof InvalidSettingError && e instanceof LeaseholdError && e.field !== '', String(work))
  // Where it is said: when the client is made, or by the call itself.
  const locks = new Locks(server)
  const runs = new Runs(server)
  const bad = undefined as never
  for (const [field, work] of Object.entries({
    options: () => new Locks(bad), tenant: () => new Runs({ ...server, tenant: 5 as never }), token: () => new Locks({ ...server, token: '' }), observe: () => new Locks({ ...server, observe: 5 as never }),
    path: () => tokenFile(''), entity: () => new PublicIds([{ mode: 'unkeyed' }], { entity: 5 as never }), now: () => new PublicIds([{ mode: 'unkeyed' }], { now: 5 as never }),
    work: () => locks.request('deploy', bad), metadata: () => locks.acquire('deploy', { metadata: null as never }), wait: () => locks.acquire('deploy', { wait: null as never }),
    fair: () => locks.acquire('deploy', { fair: 'yes' as never }), ifAvailable: () => locks.acquire('deploy', { ifAvailable: 'no' as never }), mode: () => locks.acquire('deploy', { mode: null as never }),
    signal: () => locks.get('deploy', { signal: {} as never }), prefix: () => locks.list({ prefix: 5 as never }).next(), key: () => locks.locked(5 as never), limit: () => locks.take('mails', bad),
    locks: () => acquireAll(bad, ['a']), keys: () => acquireAll(locks, bad), id: () => runs.once(5 as never, null, () => 1), input: () => runs.once('order', undefined, () => 1),
    maxFailures: () => runs.run('order', () => 'x', { maxFailures: 1.5 }), count: () => new IdGenerator().batch('5' as never), meta: () => new IdGenerator({ meta: Object.fromEntries(Array.from({ length: 33 }, (_, i) => [i, 'x'])) }),
  })) await assert.rejects(async () => work(), (e: unknown) => e instanceof InvalidSettingError && e.field === field, field)
})

test('a client that is closed', async () => {
  const clock = new FakeClock()
  const server = { url: 'https://locks.test', tenant: 'acme', clock, fetch: (() => assert.fail('it was sent')) as never }
  const locks = new Locks(server)
  const ids = new IdGenerator({ url: server.url, clock, fetch: server.fetch })
  await Promise.all([locks.close(), ids.close()])
  for (const work of [() => locks.acquire('deploy'), () => locks.get('deploy'), () => locks.take('mails', { limit: 1, window: 1000 }), () => acquireAll(locks, ['a']), () => ids.next()]) {
    await assert.rejects(work(), ClosedError, String(work))
  }
})
