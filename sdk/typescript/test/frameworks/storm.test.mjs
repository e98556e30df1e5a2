// Payment servers in each framework, of which one is killed (kill -9) again and again while requests for the same keys come to both. Each key has one payment, but for what no middleware
// can prevent: one more for a process that was killed between its payment and the end of its request. LEASEHOLD_BUILD has the program leasehold, too.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const leasehold = `${process.env.LEASEHOLD_BUILD}/bin/leasehold`
const folder = mkdtempSync(join(tmpdir(), 'leasehold-storm-'))
const children = []
let gate

/** Starts a program that says its URL. */
async function start(program, ...args) {
  const { LEASEHOLD_BUILD, ...env } = process.env // which is no setting of leasehold
  const child = spawn(program, args, { stdio: 'pipe', env: program === leasehold ? env : process.env })
  children.push(child)
  const url = await new Promise((resolve, reject) => {
    let text = ''
    const read = (chunk) => {
      const found = /http:\/\/[\d.:]+(?=\s)/.exec((text += chunk))
      if (found) resolve(found[0])
    }
    child.stdout.on('data', read)
    child.stderr.on('data', (chunk) => (text += chunk))
    child.on('exit', (code) => reject(new Error(`${program} ended with ${code}: ${text}`)))
  })
  return { child, pid: child.pid, url }
}

before(async () => {
  if (existsSync(leasehold)) gate = await start(leasehold, 'serve', '--listen', '127.0.0.1:0', '--data', join(folder, 'data'))
})
after(() => {
  for (const child of children) child.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

for (const framework of ['express', 'fastify', 'hono', 'fetch']) {
  test(framework, { timeout: 300_000 }, async (t) => {
    if (!gate) return t.skip('there is no program leasehold: node scripts/programs.mjs')
    const ledger = join(folder, framework)
    writeFileSync(ledger, '')
    const paid = () => readFileSync(ledger, 'utf8').split('\n').filter(Boolean).map((line) => line.split(' '))
    const serve = () => start(process.execPath, fileURLToPath(new URL('server.mjs', import.meta.url)), framework, gate.url, ledger)
    const servers = await Promise.all([serve(), serve()])
    /** Sends a payment again and again, to one server and the other, until it has a response. */
    const send = async (key, turn) => {
      while (!t.signal.aborted) {
        try {
          const response = await fetch(servers[turn++ % 2].url, { signal: t.signal, method: 'POST', headers: { 'idempotency-key': key, 'content-type': 'application/json' }, body: JSON.stringify({ key }) })
          const text = await response.text()
          if (response.status === 201) return text
          assert.ok([409, 503].includes(response.status), `${response.status} ${text}`)
        } catch (error) {
          if (error instanceof assert.AssertionError) throw error // otherwise its server has died
        }
        await pause(20)
      }
    }
    const keys = []
    const storm = []
    const killed = new Set()
    for (let wave = 0; wave < 4; wave++) {
      const some = Array.from({ length: 8 }, (_, i) => `${framework}-${wave}-${i}`)
      keys.push(...some)
      for (const key of some) for (let caller = 0; caller < 4; caller++) storm.push(send(key, caller))
      const victim = servers[0]
      while (!paid().some(([key, pid]) => some.includes(key) && Number(pid) === victim.pid) && !some.every((key) => paid().some(([k]) => k === key))) await pause(5)
      victim.child.kill('SIGKILL')
      killed.add(victim.pid)
      servers[0] = await serve()
    }
    const got = await Promise.all(storm)
    for (const [i, key] of keys.entries()) {
      const payers = paid().filter(([k]) => k === key).map(([, pid]) => Number(pid))
      const last = payers.at(-1)
      assert.ok(payers.length > 0 && new Set(payers).size === payers.length && payers.slice(0, -1).every((pid) => killed.has(pid)), `${key} was paid by ${payers}, killed were ${[...killed]}`)
      assert.deepEqual(new Set(got.slice(4 * i, 4 * i + 4)), new Set([JSON.stringify({ key, by: last })]))
    }
    t.diagnostic(`${keys.length} keys, ${storm.length} callers, ${killed.size} processes killed, ${paid().length} payments`)
  })
}
