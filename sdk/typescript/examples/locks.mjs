// Two callers want one lock: one after the other. node examples/locks.mjs [URL]
import { LockHeldError, Locks } from '@leasehold-dev/leasehold'

const url = process.argv[2] ?? 'http://127.0.0.1:8080'
const [ann, bob] = ['ann', 'bob'].map((owner) => new Locks({ url, tenant: 'acme', owner }))

await ann.request('deploy-prod', async (lock) => {
  console.log('ann holds the lock:', lock.owned)
  await bob.acquire('deploy-prod', { wait: 0 }).catch((error) => {
    if (!(error instanceof LockHeldError)) throw error
    console.log('bob is refused, the holder is', error.owner)
  })
})
const lock = await bob.acquire('deploy-prod')
console.log('bob holds the lock:', lock.owned)
await lock.release()
