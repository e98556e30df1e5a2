// Three deliveries of one task: the work runs once, and all get its result. node examples/once.mjs [URL]
import { Runs, key } from '@leasehold-dev/leasehold/once'

const url = process.argv[2] ?? 'http://127.0.0.1:8080'
const order = { id: Date.now(), total: 12 }
let ran = 0
for (let i = 0; i < 3; i++) {
  const result = await new Runs({ url, tenant: 'acme' }).once(key`invoice-${order.id}`, order, () => ({ paid: order.total, times: ++ran }))
  console.log('result:', result)
}
console.log('the work ran', ran, 'time')
