// A worker for workerd: `workerd test` calls it. A lock, a run, IDs, and a public ID; the server is in it.
import { Locks } from '@leasehold-dev/leasehold'
import { IdGenerator, PublicIds, decodeId } from '@leasehold-dev/leasehold/ids'
import { Runs } from '@leasehold-dev/leasehold/once'

const json = (body) => new Response(JSON.stringify(body), { headers: { 'content-type': 'application/json' } })
const server = async (url, init) => {
  const body = JSON.parse(init.body)
  const [name, what] = new URL(url).pathname.split('/').slice(-2)
  if (name === 'machine-ids') {
    return json({ leases: [{ id: 5, created: Date.now(), expired: Date.now() + 60_000, secret: 's', customEpoch: 1767225600000, bitReserve: 1, bitTs: 41, bitId: 14, bitSeq: 8 }] })
  }
  if (init.method === 'DELETE') return new Response(null, { status: 204 })
  if (what === 'begin') return json({ run_id: name, acquired: true, owner_id: body.owner_id, fencing_token: 8, remaining_ms: 30_000, runs: 1, failures: 0 })
  if (what === 'finish') return json({ run_id: name, status: body.status, fencing_token: 8 })
  return json({
    tenant_id: 'acme', lock_key: name, owner_id: body.owner_id, fencing_token: 7, state: what === 'release' ? 'RELEASED' : 'ACTIVE', lease_id: 'L7',
    expires_at: new Date(Date.now() + 30_000).toISOString(), remaining_ms: 30_000,
  })
}

function same(got, want) {
  if (got !== want) throw new Error(`${got}, not ${want}`)
}

export default {
  async test() {
    const options = { url: 'https://locks.test', tenant: 'acme', fetch: server }
    same(await new Locks(options).request('deploy', (lock) => (lock.check(), lock.token)), 7)
    same(await new Runs(options).once('order', () => 'done'), 'done')
    const generator = new IdGenerator({ url: options.url, fetch: server })
    const ids = await generator.batch(300)
    same(new Set(ids).size, 300)
    const { machineId, fallback } = decodeId(ids[0])
    same(machineId, 5)
    same(fallback, false)
    await generator.close()
    const users = await PublicIds.create([{ secret: new Uint8Array(32) }], { entity: 'user' })
    same(await users.decode(await users.encode(ids[0])), ids[0])
  },
}
