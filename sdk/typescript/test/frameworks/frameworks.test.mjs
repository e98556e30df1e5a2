// The middleware in frameworks: what comes of their handlers, of their errors, of exceptions and of unknown routes is stored as it is sent, and replayed. LEASEHOLD_BUILD is the
// folder in which the package and its tests are compiled.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import { HTTPException } from 'hono/http-exception'

const build = process.env.LEASEHOLD_BUILD
const { Idempotency, hono, idempotent, node } = await import(`${build}/src/idempotency.js`)
const { Runs } = await import(`${build}/src/once.js`)
const { Gate } = await import(`${build}/test/gate.js`)

function made() {
  const gate = new Gate({ mono: 0, get time() { return Date.now() } })
  const once = new Idempotency(new Runs({ url: 'https://locks.test', tenant: 'acme', fetch: gate.fetch }), { name: 'payments', scope: () => 'ann', onWarning: () => undefined })
  return { once, ran: [] }
}

const frameworks = {
  async express() {
    const { once, ran } = made()
    const app = express()
    app.use('/pay', node(once), express.json())
    app.post('/pay/ok', (req, res) => {
      ran.push(idempotent(req).token)
      res.status(201).cookie('a', 'b').json({ paid: req.body.amount })
    })
    app.post('/pay/declined', (_, res) => void ran.push(1) ?? res.status(402).send('declined'))
    app.post('/pay/throws', async () => {
      ran.push(1)
      throw new Error('no ink')
    })
    app.use((error, _req, res, _next) => void res.status(500).send(error.message))
    const server = app.listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    after(() => (server.close(), server.closeAllConnections()))
    return { ran, post: (path, init) => fetch(`http://127.0.0.1:${server.address().port}${path}`, init) }
  },
  async fastify() {
    const { once, ran } = made()
    const app = fastify()
    const middleware = node(once)
    app.addHook('onRequest', (request, reply, done) => middleware(request.raw, reply.raw, done))
    app.post('/pay/ok', async (request, reply) => {
      ran.push(idempotent(request.raw).token)
      return reply.code(201).header('set-cookie', 'a=b').send({ paid: request.body.amount })
    })
    app.post('/pay/declined', (_, reply) => void ran.push(1) ?? reply.code(402).send('declined'))
    app.post('/pay/throws', async () => {
      ran.push(1)
      throw new Error('no ink')
    })
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    after(() => app.close())
    return { ran, post: (path, init) => fetch(url + path, init) }
  },
  async hono() {
    const { once, ran } = made()
    const app = new Hono()
    app.use('/pay/*', hono(once))
    app.post('/pay/ok', async (c) => {
      ran.push(idempotent(c).token)
      c.header('set-cookie', 'a=b')
      return c.json({ paid: (await c.req.json()).amount }, 201)
    })
    app.post('/pay/declined', () => {
      ran.push(1)
      throw new HTTPException(402, { message: 'declined' })
    })
    app.post('/pay/throws', () => {
      ran.push(1)
      throw new Error('no ink')
    })
    app.onError((error) => (error instanceof HTTPException ? error.getResponse() : new Response(error.message, { status: 500 })))
    return { ran, post: (path, init) => app.request(`http://pay.test${path}`, init) }
  },
}

for (const [name, framework] of Object.entries(frameworks)) {
  test(name, async () => {
    const { ran, post } = await framework()
    const send = async (path, key, body = '{"amount":10}') => {
      const headers = { 'content-type': 'application/json', ...(key && { 'idempotency-key': key }) }
      const response = await post(path, { method: 'POST', headers, body })
      return { status: response.status, body: await response.text(), type: response.headers.get('content-type'), cookie: response.headers.get('set-cookie') !== null, replayed: response.headers.get('idempotency-replayed') === 'true' }
    }
    for (const [path, status, contains, runs] of [['/pay/ok', 201, '{"paid":10}', 1], ['/pay/declined', 402, 'declined', 1], ['/pay/throws', 500, 'no ink', 1], ['/pay/none', 404, '', 0]]) {
      ran.length = 0
      const first = await send(path, path)
      const again = await send(path, path)
      assert.deepEqual([first.status, first.body.includes(contains), first.replayed, first.cookie], [status, true, false, status === 201], `${path}: ${first.body}`)
      assert.deepEqual(again, { ...first, replayed: true, cookie: false }, path)
      assert.equal(ran.length, runs, path)
      assert.equal((await send(path, path, '{"amount":1000}')).status, 422)
    }
    ran.length = 0
    const all = await Promise.all(Array.from({ length: 32 }, () => send('/pay/ok', 'storm')))
    assert.deepEqual([new Set(all.map((r) => r.body)).size, all.filter((r) => !r.replayed).length, ran.length], [1, 1, 1])
    ran.length = 0
    assert.equal((await send('/pay/declined', undefined)).replayed, false)
    assert.equal((await send('/pay/declined', undefined)).replayed, false)
    assert.equal(ran.length, 2) // without a key each one runs
  })
}
