// Three deliveries of one task: the work runs once, and all get its result. node examples/once.mjs [URL]
import { Runs } from '@leasehold-dev/leasehold/once'

const url = process.argv[2] ?? 'http://127.0.0.1:8080'
const id = `invoice-${Date.now()}`
let ran = 0
for (let i = 0; i < 3; i++) {
  const result = await new Runs({ url, tenant: 'acme' }).once(id, () => ({ paid: 12, times: ++ran }))
  console.log('result:', result)
}
console.log('the work ran', ran, 'time')
