// A worker for workerd: `workerd test` calls it. What it uses is made at module scope, where neither chance, nor time, nor a timer is allowed; the server is in it.
import { Locks } from '@leasehold-dev/leasehold'
import { Election } from '@leasehold-dev/leasehold/election'
import { Fences } from '@leasehold-dev/leasehold/fences'
import { HttpLeaseProvider, IdGenerator, PublicIds, decodeId } from '@leasehold-dev/leasehold/ids'
import { Idempotency, idempotent } from '@leasehold-dev/leasehold/idempotency'
import { batch, lambda } from '@leasehold-dev/leasehold/lambda'
import { Runs } from '@leasehold-dev/leasehold/once'
import { createProjectLock } from '@leasehold-dev/leasehold/projectlock'
import { requestAll } from '@leasehold-dev/leasehold/sets'

const json = (body) => new Response(JSON.stringify(body), { headers: { 'content-type': 'application/json' } })
const server = async (url, init) => {
  const body = JSON.parse(init.body ?? '{}')
  const [name, what] = new URL(url).pathname.split('/').slice(-2)
  if (name === 'machine-ids') {
    return json({ leases: [{ id: 5, created: Date.now(), expired: Date.now() + 60_000, secret: 's', customEpoch: 1767225600000, bitReserve: 1, bitTs: 41, bitId: 14, bitSeq: 8 }] })
  }
  if (init.method === 'DELETE') return new Response(null, { status: 204 })
  if (what === 'check') return json({ tenant_id: 'acme', resource: name, fencing_token: body.fencing_token, subject: body.subject })
  if (name === 'lock-sets') {
    const leases = body.leases ?? body.lock_keys.map((lock_key, i) => ({ lock_key, fencing_token: i + 1 }))
    return json({ tenant_id: 'acme', owner_id: body.owner_id, state: what === 'release' ? 'RELEASED' : 'ACTIVE', expires_at: new Date(Date.now() + 30_000).toISOString(), remaining_ms: 30_000, leases })
  }
  if (what === 'begin') return json({ run_id: name, acquired: true, owner_id: body.owner_id, fencing_token: 8, remaining_ms: 30_000, runs: 1, failures: 0 })
  if (what === 'finish') return json({ run_id: name, status: body.status, fencing_token: 8 })
  return json({
    tenant_id: 'acme', lock_key: decodeURIComponent(name), owner_id: body.owner_id, fencing_token: 7, state: what === 'release' ? 'RELEASED' : 'ACTIVE', lease_id: 'L7',
    expires_at: new Date(Date.now() + 30_000).toISOString(), remaining_ms: 30_000,
  })
}

function same(got, want) {
  if (got !== want) throw new Error(`${got}, not ${want}`)
}

const options = { url: 'https://locks.test', tenant: 'acme', fetch: server }
const locks = new Locks(options)
const runs = new Runs(options)
const generator = new IdGenerator({ url: options.url, fetch: server })
const provided = new IdGenerator({ provider: new HttpLeaseProvider(options), disableFallback: true })
const project = createProjectLock({ service: options })
const election = new Election(locks, 'scheduler')
const fences = new Fences(options)
const idempotency = new Idempotency(runs, { name: 'payments', scope: () => 'ann' })
const pay = idempotency.wrap(async (request) => new Response(`${await request.text()} under ${idempotent(request).token}`, { status: 201 }))
const consume = batch(runs, (body, run) => same(body.n + run.token, 9))
const invoke = lambda(runs, (event) => event.id, (event, run) => run.token)
const users = new PublicIds([{ secret: new Uint8Array(32) }], { entity: 'user' })

export default {
  async test() {
    same(await locks.request('deploy', (lock) => (lock.check(), lock.token)), 7)
    same(await requestAll(locks, ['a', 'b'], (lock) => lock.tokens.size), 2)
    await election.lead((leader) => fences.check('disk', leader))
    same(/^js-[0-9a-f]{12}$/.test(locks.owner), true)
    same(await runs.once('order', { total: 12 }, () => 'done'), 'done')
    for (const headers of [{}, { 'content-type': 'application/x-www-form-urlencoded' }]) {
      const paid = await pay(new Request('https://pay.test/payments', { method: 'POST', headers: { 'idempotency-key': '"k1"', ...headers }, body: 'amount=10' }))
      same(`${paid.status} ${await paid.text()}`, '201 amount=10 under 8')
    }
    same((await pay(new Request('https://pay.test/payments', { method: 'POST', headers: { 'idempotency-key': 'a b' } }))).status, 400)
    const context = { getRemainingTimeInMillis: () => 30_000 }
    same((await consume({ Records: [{ messageId: 'm1', body: '{"n":1}' }, { messageId: 'm2', body: '' }] }, context)).batchItemFailures[0].itemIdentifier, 'm2')
    same(await invoke({ id: 'i1' }, context), 8)
    for (const g of [generator, provided]) {
      const ids = await g.batch(300)
      same(new Set(ids).size, 300)
      const { machineId, fallback, time } = decodeId(ids[0])
      same(machineId, 5)
      same(fallback, false)
      same(Math.abs(time - Date.now()) < 60_000, true)
      await g.close()
      same(await users.decode(await users.encode(ids[0])), ids[0])
    }
    same(await project.withProjectLock(async (lease) => lease.token), 7)
  },
}
