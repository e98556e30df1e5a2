// A payment server for the tests: node payments.js URL hangs|pays. It ends with its standard input.
import { type IncomingMessage, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Idempotency, node } from '../src/idempotency.js'
import { Runs } from '../src/once.js'

const [url = '', how] = process.argv.slice(2)
// The host has another port in each process.
const middleware = node(new Idempotency<IncomingMessage>(new Runs({ url, tenant: 'shop' }), { name: 'payments', scope: () => 'ann', ttl: 3000, wait: 60_000, ignoreHost: true }))
let payments = 0
const server = createServer((req, res) => middleware(req, res, () => {
  console.log('paying')
  if (how === 'pays') res.writeHead(201).end(`payment ${++payments}`)
}))
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`))
process.stdin.on('end', () => process.exit()).resume()
