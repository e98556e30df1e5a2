// The table of outages: the gate is away for a while at each step of a payment that takes five seconds. No process dies. Time is that of a clock that the tests move.
import assert from 'node:assert/strict'
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { describe, test } from 'node:test'
import { Idempotency, node } from '../src/idempotency.js'
import { RunNotStoredError, Runs } from '../src/once.js'
import { Gate } from './gate.js'
import { FakeClock } from './world.js'

/** A program that takes payments. ask tries once to make the payment, and says which one it was, or why there is none now. */
interface Program { ask(): Promise<string>; close(): Promise<string[]> }

type Make = (runs: Runs, pay: () => Promise<string>, ttl: number) => Program

const settings = (ttl: number) => ({ name: 'payments', scope: () => 'ann', onWarning: () => undefined, ttl })

const programs: Record<string, Make> = {
  'Runs.once': (runs, pay, ttl) => ({
    ask: () => runs.once('k1', null, pay, { ttl, wait: 10_000 }).catch((e: unknown) => (e instanceof RunNotStoredError ? String(e.value) : (e as Error).name)),
    close: () => runs.close(),
  }),
  'Runs.once, shared': (runs, pay, ttl) => ({
    ask: () => runs.once('k1', null, pay, { ttl, wait: 10_000, shared: true }).catch((e: unknown) => (e instanceof RunNotStoredError ? String(e.value) : (e as Error).name)),
    close: () => runs.close(),
  }),
  'a handler of fetch': (runs, pay, ttl) => {
    const once = new Idempotency(runs, settings(ttl))
    const handler = once.wrap(async () => new Response(await pay(), { status: 201 }))
    return {
      async ask() {
        const response = await handler(new Request('http://pay.test/', { method: 'POST', headers: { 'idempotency-key': 'k1' } }))
        return response.status === 201 ? response.text() : String(response.status)
      },
      close: () => once.close(),
    }
  },
  'a handler of Node': (runs, pay, ttl) => {
    const once = new Idempotency<IncomingMessage>(runs, settings(ttl))
    const middleware = node(once)
    return {
      ask: () => new Promise((resolve, reject) => {
        const request = Object.assign(new IncomingMessage(new Socket()), { method: 'POST', url: '/', headers: { host: 'pay.test', 'idempotency-key': 'k1' } })
        const response = new ServerResponse(request)
        response.end = ((body: Uint8Array) => resolve(response.statusCode === 201 ? Buffer.from(body).toString() : String(response.statusCode))) as never
        middleware(request, response, (e) => (e === undefined ? void pay().then((text) => response.writeHead(201).end(text), reject) : reject(e as Error)))
      }),
      close: () => once.close(),
    }
  },
}

const steps = { claim: 0, renew: 2000, finish: 5000 }
/** How long a retry must come after the gate is back, if connections were refused: the longest pause between two tries to store the end of a run. */
const window = 5000

for (const [name, make] of Object.entries(programs)) {
  for (const ttl of [3000, 30_000]) {
    describe(`${name}, ttl ${ttl / 1000} s, the gate is away`, () => {
      for (const [step, from] of Object.entries(steps)) {
        for (const away of [15_000, 40_000, 90_000, 300_000]) {
          const outage = async (after: number) => {
            const clock = new FakeClock()
            const gate = new Gate(clock)
            let payments = 0
            const pay = async () => {
              const n = ++payments
              await new Promise<void>((resolve) => clock.after(5000, resolve))
              return `payment ${n}`
            }
            const program = () => make(new Runs({ url: 'https://locks.test', tenant: 'acme', fetch: gate.fetch, clock }), pay, ttl)
            const [here, other] = [program(), program()]
            gate.away = from === 0
            clock.after(from - 1, () => (gate.away = true))
            const asked: Promise<string>[] = [here.ask()]
            // What is asked again in its own process, and is shared, is what came of it, also while it is not stored.
            for (let retry = 0; retry < 10; retry++) {
              await clock.pass((from + away) / 10)
              if (name !== 'Runs.once') asked.push(here.ask())
            }
            gate.away = false
            await clock.pass(after)
            asked.push(other.ask())
            await clock.pass(20_000)
            const got = new Set(await clock.until(Promise.all(asked)))
            const later = await clock.until(Promise.all([here.ask(), other.ask()]))
            return { payments, paid: [...got].filter((text) => text.startsWith('payment')).sort(), later: new Set(later), left: (await clock.until(Promise.all([here.close(), other.close()]))).flat() }
          }

          test(`${step}, for ${away / 1000} s: one payment`, async () => {
            assert.deepEqual(await outage(window), { payments: 1, paid: ['payment 1'], later: new Set(['payment 1']), left: [] })
          })

          const held = from + away < ttl // the lock is still that of the first one
          const twice = step !== 'claim' && !held
          test(`${step}, for ${away / 1000} s, and another process is asked the moment it is back: ${twice ? 'two payments, which is the window' : 'one payment'}`, async () => {
            const last = `payment ${twice ? 2 : 1}`
            assert.deepEqual(await outage(0), { payments: twice ? 2 : 1, paid: twice ? ['payment 1', last] : [last], later: new Set([last]), left: [] })
          })
        }
      }
    })
  }
}
