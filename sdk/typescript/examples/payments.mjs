// A payment that takes effect once: three requests with one key, and one with another amount. node examples/payments.mjs [URL]
import { createServer } from 'node:http'
import { Idempotency, idempotent, node } from '@leasehold-dev/leasehold/idempotency'
import { Runs } from '@leasehold-dev/leasehold/once'

const runs = new Runs({ url: process.argv[2] ?? 'http://127.0.0.1:8080', tenant: 'acme' })
const idempotency = new Idempotency(runs, { name: 'payments', scope: (req) => req.headers['x-account'] })
const middleware = node(idempotency)

let payments = 0
const server = createServer((req, res) => middleware(req, res, () => {
  const { token } = idempotent(req) // pass it on to what the payment writes to
  res.writeHead(201, { 'content-type': 'text/plain' }).end(`payment ${++payments}, under the token ${token}`)
}))
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))

const url = `http://127.0.0.1:${server.address().port}/payments`
const key = `payment-${Date.now()}`
for (const amount of [10, 10, 10, 99]) {
  const headers = { 'idempotency-key': key, 'x-account': 'ann', 'content-type': 'application/json' }
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ amount }) })
  const text = await response.text()
  console.log(amount, response.status, response.ok ? text : JSON.parse(text).code, response.headers.get('idempotency-replayed') ? 'replayed' : '')
}
console.log('not stored:', await idempotency.close())
server.close()
server.closeAllConnections()
