// A payment server for the storm: node server.mjs FRAMEWORK GATE LEDGER. A payment is a line of the ledger, which has nothing else that would keep it from being written twice.
import { appendFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'

const [framework, url, ledger] = process.argv.slice(2)
const build = process.env.LEASEHOLD_BUILD
const { Idempotency, hono, node } = await import(`${build}/src/idempotency.js`)
const { Runs } = await import(`${build}/src/once.js`)

// Two processes have two ports.
const once = new Idempotency(new Runs({ url, tenant: 'shop' }), { name: 'payments', scope: () => 'ann', ttl: 2000, wait: 60_000, ignoreHost: true, onWarning: () => undefined })

async function pay({ key }) {
  await pause(100 * Math.random())
  appendFileSync(ledger, `${key} ${process.pid}\n`)
  await pause(100 * Math.random())
  return { key, by: process.pid }
}

/** Serves a handler of fetch. */
const bridge = (handler) =>
  createServer(async (req, res) => {
    const chunks = []
    for await (const chunk of req) chunks.push(chunk)
    const response = await handler(new Request(`http://pay.test${req.url}`, { method: req.method, headers: req.headers, body: Buffer.concat(chunks) }))
    res.writeHead(response.status, [...response.headers].flat()).end(Buffer.from(await response.arrayBuffer()))
  })

const servers = {
  express() {
    const app = express()
    app.use(node(once), express.json())
    app.post('/', async (req, res) => res.status(201).json(await pay(req.body)))
    return createServer(app)
  },
  fastify() {
    const middleware = node(once)
    const app = fastify({ serverFactory: (handler) => createServer(handler) })
    app.addHook('onRequest', (request, reply, done) => middleware(request.raw, reply.raw, done))
    app.post('/', async (request, reply) => reply.code(201).send(await pay(request.body)))
    return app.ready().then(() => app.server)
  },
  hono() {
    const app = new Hono()
    app.use(hono(once))
    app.post('/', async (c) => c.json(await pay(await c.req.json()), 201))
    return bridge((request) => app.fetch(request))
  },
  fetch() {
    return bridge(once.wrap(async (request) => Response.json(await pay(await request.json()), { status: 201 })))
  },
}
const server = await servers[framework]()
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`))
process.stdin.on('end', () => process.exit()).resume()
