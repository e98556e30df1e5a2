// The clients against a real server, through a proxy that loses requests and answers, with the server killed and processes stopped for longer than the ttl.
import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { type Server, createServer } from 'node:http'
import { type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { LockHeldError, LockLostError, Locks, type LockEvent } from '../src/index.js'
import { acquireAll, requestAll } from '../src/sets.js'
import { Election } from '../src/election.js'
import { Fences, OtherSubjectError, StaleTokenError } from '../src/fences.js'
import { IdGenerator, decodeId } from '../src/ids.js'
import { Runs } from '../src/once.js'
import { systemClock } from '../src/time.js'
import { bounded, leasehold, start, withoutGo } from './player.js'

/** A proxy. Each request takes the next of the faults: `request` is lost, `answer` is carried out and lost, `twice` is sent twice, `garbage` gets one. */
class FaultProxy {
  readonly faults: ('request' | 'answer' | 'twice' | 'garbage' | 'pass')[] = []
  count = 0
  target = ''
  readonly #server: Server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (c: Buffer) => chunks.push(c))
    request.on('end', () => {
      this.count++
      const fault = this.faults.shift() ?? 'pass'
      if (fault === 'request') return void request.socket.destroy()
      const send = () => fetch(this.target + (request.url ?? ''), {
        method: request.method ?? 'GET', headers: { 'content-type': 'application/json' }, ...(chunks.length > 0 && { body: Buffer.concat(chunks) }),
      })
      void (async () => {
        if (fault === 'twice') await (await send()).arrayBuffer()
        const r = await send()
        const body = Buffer.from(await r.arrayBuffer())
        if (fault === 'answer') return void request.socket.destroy()
        if (fault === 'garbage') return void response.writeHead(200, { 'content-type': 'application/json' }).end('{"lock_key":')
        response.writeHead(r.status, Object.fromEntries([...r.headers].filter(([k]) => !['connection', 'transfer-encoding', 'content-length', 'content-encoding'].includes(k)))).end(body)
      })().catch(() => request.socket.destroy())
    })
  })

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  close() {
    this.#server.close()
    this.#server.closeAllConnections()
  }
}

describe('against leasehold serve', { skip: withoutGo, timeout: 170_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'leasehold-serve-'))
  let server: { url: string; process: ChildProcess }
  const proxies: FaultProxy[] = []
  const serve = (listen = '127.0.0.1:0') => start(leasehold, ['serve', '--listen', listen, '--data', join(folder, 'data')])
  const proxied = async () => {
    const proxy = new FaultProxy()
    proxies.push(proxy)
    proxy.target = server.url
    return { proxy, url: await proxy.listen() }
  }

  before(async () => {
    server = await serve()
  })
  after(() => {
    for (const p of proxies) p.close()
    server.process.kill('SIGKILL') // a test that failed may have left it stopped
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })

  test('elections, fences, and which locks there are', async () => {
    const options = { url: server.url, tenant: 'elected', ttl: 30_000 }
    const [ann, bob] = [new Locks({ ...options, owner: 'ann' }), new Locks({ ...options, owner: 'bob' })]
    const fences = new Fences(options)
    const led: string[] = []
    const lead = (locks: Locks) => new Election(locks, 'scheduler', { metadata: { owner: locks.owner } }).lead(async (leader) => {
      led.push(locks.owner)
      await fences.check('disk', leader)
      const seen = await new Election(locks, 'scheduler').leader()
      assert.deepEqual([seen?.owner, seen?.metadata], [locks.owner, { owner: locks.owner }])
      return leader.token
    })
    const terms = await Promise.all([lead(ann), lead(bob)])
    assert.deepEqual(led.sort(), ['ann', 'bob'])
    assert.equal(await fences.get('disk'), Math.max(...terms))
    await assert.rejects(fences.check('disk', { subject: 'lock/scheduler', token: Math.min(...terms) }), StaleTokenError)
    await assert.rejects(ann.request('another', (lock) => fences.check('disk', lock)), OtherSubjectError)
    await ann.request('pool', { permits: 1 }, (lock) => fences.check('pool', lock))
    await assert.rejects(fences.check('pool', { subject: 'lock/pool', token: terms[0] ?? 0 }), OtherSubjectError)
    await new Runs(options).run('invoice-7', async (run) => void (await fences.check('invoices', run)))
    assert.ok(await fences.get('invoices'))
    assert.equal(await fences.get('tape'), undefined)
    for await (const { leader } of new Election(bob, 'scheduler').observe()) {
      assert.equal(leader, null)
      break
    }
    const held = await Promise.all(Array.from({ length: 60 }, (_, i) => ann.acquire(`many:${i}`)))
    const keys: string[] = []
    for await (const l of bob.list({ prefix: 'many:' })) keys.push(l.lock_key)
    assert.deepEqual(keys, held.map((l) => l.key).sort())
    assert.deepEqual([await bob.locked('many:0'), await bob.locked('none')], [true, false])
    await Promise.all(held.map((l) => l.release()))
    assert.equal(await bob.locked('many:0'), false)
  })

  test('all modes', async () => {
    const locks = new Locks({ url: server.url, tenant: 'acme', ttl: 30_000 })
    await locks.request('mutex', async (lock) => {
      assert.ok(lock.token > 1e15)
      assert.equal(await locks.acquire('mutex', { ifAvailable: true }), null)
      await assert.rejects(locks.acquire('mutex', { wait: 0 }), (e: unknown) => e instanceof LockHeldError && e.owner === locks.owner && e.retryAfter > 0)
      assert.equal((await locks.get('mutex')).state, 'ACTIVE')
    })
    assert.equal((await locks.get('mutex')).state, 'RELEASED')
    const readers = await Promise.all([locks.acquire('shared', { mode: 'shared' }), locks.acquire('shared', { mode: 'shared' })])
    assert.equal(await locks.acquire('shared', { ifAvailable: true }), null)
    await Promise.all(readers.map((r) => r.release()))
    const permits = await Promise.all([locks.acquire('pool', { permits: 2 }), locks.acquire('pool', { permits: 2 })])
    assert.deepEqual(permits.map((p) => p.permit).sort(), [1, 2])
    assert.equal(await locks.acquire('pool', { permits: 2, ifAvailable: true }), null)
    await Promise.all(permits.map((p) => p.release()))
    const first = await locks.take('rate', { limit: 2, window: 3_600_000 })
    assert.ok(((await locks.take('rate', { limit: 2, window: 3_600_000 })) ?? 0) > (first ?? 0))
    assert.equal(await locks.take('rate', { limit: 2, window: 3_600_000 }, { ifAvailable: true }), null)
    await requestAll(locks, ['x', 'y'], async (lock) => {
      assert.deepEqual([...lock.tokens.keys()], ['x', 'y'])
      assert.equal(await acquireAll(locks, ['y', 'z'], { ifAvailable: true }), null)
    })
    const replaced = await locks.acquire('latest', { replace: true })
    const latest = await locks.acquire('latest', { replace: true })
    assert.ok(latest.token > replaced.token)
    await latest.release()
    await locks.close()
  })

  test('who waits in line has the lock in its turn', async () => {
    const locks = new Locks({ url: server.url, tenant: 'acme' })
    const first = await locks.acquire('line', { fair: true })
    const order: number[] = []
    const waiting = [1, 2].map(async (n) => {
      const one = new Locks({ url: server.url, tenant: 'acme' })
      await new Promise((resolve) => setTimeout(resolve, 1))
      while (((await locks.get('line')).waiting ?? []).length < n - 1) await new Promise((resolve) => setTimeout(resolve, 20))
      await one.request('line', { fair: true }, () => void order.push(n))
    })
    while (((await locks.get('line')).waiting ?? []).length < 2) await new Promise((resolve) => setTimeout(resolve, 20))
    await first.release()
    await Promise.all(waiting)
    assert.deepEqual(order, [1, 2])
  })

  for (const fault of ['request', 'answer', 'twice', 'garbage'] as const) {
    test(`each command with the fault: ${fault}`, async () => {
      const { proxy, url } = await proxied()
      const locks = new Locks({ url, tenant: 'acme', ttl: 3000 })
      proxy.faults.push(fault)
      const lock = await locks.acquire(`fault-${fault}`)
      proxy.faults.push(fault)
      const renewed = proxy.count
      while (proxy.count < renewed + 2) await new Promise((resolve) => setTimeout(resolve, 20)) // a renewal, and its retry or the next one
      assert.equal(lock.owned, true)
      proxy.faults.push(fault)
      await lock.release()
      const next = await locks.acquire(`fault-${fault}`, { ifAvailable: true })
      assert.equal(next?.token, lock.token + 1) // nothing was acquired twice
      await next?.release()
    })
  }

  test('a clock that is wrong by hours costs one request', async () => {
    for (const off of [-7_200_000, -60_000, 60_000, 7_200_000]) {
      const { proxy, url } = await proxied()
      const clock = { ...systemClock, wall: () => Date.now() + off }
      const locks = new Locks({ url, tenant: 'acme', clock })
      await (await locks.acquire(`clock${off}`)).release()
      assert.equal(proxy.count, off === 60_000 ? 2 : 3, `${off}`) // a minute ahead is an end that is a minute later
      await (await locks.acquire(`clock${off}`)).release()
      await (await acquireAll(locks, [`clock${off}`, `clock${off}b`])).release()
      assert.equal(proxy.count, off === 60_000 ? 6 : 7, `${off}`)
      assert.equal((await new Runs({ url, tenant: 'acme', clock }).run(`clock${off}`, () => 'ok')).status, 'ready')
    }
  })

  // The proxy does not pass on that its caller has hung up, as front ends of functions do not.
  for (const [name, options] of Object.entries({ plain: {}, fair: { fair: true }, replace: { replace: true }, permits: { permits: 1 }, shared: { mode: 'shared' } } as const)) {
    test(`an acquire that is given up while it waits obtains nothing: ${name}`, async () => {
      const { url } = await proxied()
      const holder = new Locks({ url: server.url, tenant: 'acme' })
      const first = await holder.acquire(`gone-${name}`, name === 'shared' || name === 'replace' ? {} : options)
      const seen: LockEvent[] = []
      const one = new Locks({ url, tenant: 'acme', observe: (e) => seen.push(e) })
      const stop = new AbortController()
      const waiting = assert.rejects(one.acquire(`gone-${name}`, { ...options, signal: stop.signal }), RangeError)
      while (!seen.some((e) => e.type === 'waiting')) await new Promise((resolve) => setTimeout(resolve, 20))
      await new Promise((resolve) => setTimeout(resolve, 200)) // it is sent again, and waits
      stop.abort(new RangeError('enough'))
      await waiting
      while (seen.at(-1)?.type !== 'abandoned') await new Promise((resolve) => setTimeout(resolve, 20))
      assert.equal(seen.at(-1)?.error, undefined)
      assert.equal(first.owned, true)
      await first.release()
      const next = await holder.acquire(`gone-${name}`, { ...options, ifAvailable: true })
      assert.equal(next?.token, first.token + 1) // no one else had it meanwhile
      await next?.release()
    })
  }

  test('counts right under contention and faults', async () => {
    const { proxy, url } = await proxied()
    let inside = 0
    let most = 0
    const tokens: number[] = []
    await Promise.all(Array.from({ length: 4 }, async (_, i) => {
      const locks = new Locks({ url, tenant: 'acme', ttl: 30_000 })
      for (let n = 0; n < 5; n++) {
        proxy.faults.push(...(['answer', 'pass', 'request', 'pass', 'pass'] as const).slice((i + n) % 3))
        await locks.request('counter', { fair: true }, async (lock) => {
          most = Math.max(most, ++inside)
          tokens.push(lock.token)
          await new Promise((resolve) => setImmediate(resolve))
          inside--
        })
      }
    }))
    assert.equal(most, 1)
    assert.equal(tokens.length, 20)
    assert.deepEqual(tokens, [...new Set(tokens)].sort((a, b) => a - b))
  })

  test('the server is killed and comes again: the lease lives on, the token goes on', async () => {
    const { proxy, url } = await proxied()
    const locks = new Locks({ url, tenant: 'acme', ttl: 30_000 })
    const lock = await locks.acquire('killed')
    server.process.kill('SIGKILL')
    await new Promise((resolve) => server.process.once('exit', resolve))
    server = await serve()
    proxy.target = server.url
    assert.equal(lock.owned, true)
    await lock.release()
    const next = await locks.acquire('killed')
    assert.equal(next.token, lock.token + 1)
    await next.release()
  })

  test('the server is stopped for longer than the ttl: the signal is aborted before, and what waits is not stuck', async () => {
    const { url } = await proxied()
    const locks = new Locks({ url, tenant: 'acme', ttl: 2000 })
    const lock = await locks.acquire('stopped')
    const begin = performance.now()
    server.process.kill('SIGSTOP')
    await new Promise((resolve) => lock.signal.addEventListener('abort', resolve))
    const took = performance.now() - begin
    assert.ok(lock.signal.reason instanceof LockLostError)
    await assert.rejects(lock.release(), LockLostError)
    server.process.kill('SIGCONT')
    const next = await locks.acquire('stopped')
    assert.ok(next.token > lock.token, `after ${took} ms`)
    await next.release()
  })

  test('a process that is stopped for longer than the ttl knows at its next step', async (t) => {
    const worker = join(folder, 'holder.mjs')
    const { writeFileSync } = await import('node:fs')
    const lib = new URL('../src/index.js', import.meta.url).href
    // The step after the freeze is synchronous: no timer can have fired. It says what it saw before it looked at the event loop. The time of the
    // step before is taken before the test can stop the process, and between two steps that are a ttl apart the lease has ended.
    writeFileSync(worker, `import { Locks } from ${JSON.stringify(lib)}
      const locks = new Locks({ url: ${JSON.stringify(server.url)}, tenant: 'acme', ttl: 2000 })
      const lock = await locks.acquire('frozen')
      process.stdin.resume().on('end', () => process.exit(1)) // the test is gone
      let last = performance.now()
      console.log('token ' + lock.token)
      const spin = () => {
        const now = performance.now()
        if (now - last > 2000) {
          console.log('thawed ' + lock.signal.aborted + ' ' + lock.signal.reason?.name)
          process.exit(0)
        }
        last = now
        setImmediate(spin)
      }
      spin()`)
    const child = bounded(spawn(process.execPath, [worker], { stdio: ['pipe', 'pipe', 'inherit'] }))
    t.after(() => child.kill('SIGKILL'))
    let text = ''
    child.stdout.on('data', (c: Buffer) => (text += c.toString()))
    while (!text.includes('token')) await new Promise((resolve) => setTimeout(resolve, 10))
    child.kill('SIGSTOP')
    const locks = new Locks({ url: server.url, tenant: 'acme' })
    const lock = await locks.acquire('frozen') // when the lease has expired
    await new Promise((resolve) => setTimeout(resolve, 2500)) // so that the child notices the gap
    child.kill('SIGCONT')
    await new Promise((resolve) => child.once('exit', resolve))
    assert.match(text, /thawed true LockLostError/)
    assert.ok(lock.token > Number(/token (\d+)/.exec(text)?.[1]))
    await lock.release()
  })

  test('work that runs once, with each answer lost', async () => {
    const { proxy, url } = await proxied()
    const runs = new Runs({ url, tenant: 'acme', owner: 'w1' })
    let ran = 0
    proxy.faults.push('answer', 'pass', 'answer')
    const order = { id: 'o-1', total: 12 }
    const pay = async () => (ran++, order)
    assert.deepEqual(await runs.once('pay-1', null, pay), order)
    assert.deepEqual(await runs.once('pay-1', null, pay), order)
    assert.deepEqual(await new Runs({ url, tenant: 'acme' }).once('pay-1', null, pay), order)
    assert.equal(ran, 1)
    const busy = runs.run('pay-2', async (run) => {
      assert.equal((await new Runs({ url, tenant: 'acme' }).run('pay-2', () => '')).status, 'locked')
      return String(run.runs)
    })
    assert.deepEqual((await busy).status, 'ready')
    const failing = await runs.run('pay-3', () => Promise.reject(new Error('no money')))
    assert.equal(failing.status, 'attempt_failed')
    const again = await runs.run('pay-3', (run) => String(run.failures))
    assert.equal(again.result, '1')
    await assert.rejects(runs.once('pay-4', order, pay).then(() => runs.once('pay-4', { ...order, total: 13 }, pay)), { name: 'RunDiffersError' })
    // They are in one list with those of shells and of other languages.
    execFileSync(leasehold, ['once', 'pay-5', '--tenant', 'acme', '--server', server.url, '-q', '--', process.execPath, '-e', ''])
    const list = execFileSync(leasehold, ['run', 'list', '--tenant', 'acme', '--server', server.url, '--prefix', 'pay-', '--json'], { encoding: 'utf8' })
    const listed = list.trim().split('\n').map((line) => JSON.parse(line) as { run_id: string, status: string })
    assert.deepEqual(listed.map((r) => `${r.run_id} ${r.status}`),
      ['pay-1', 'pay-2', 'pay-3', 'pay-4', 'pay-5'].map((id) => `${id} READY`))
  })

  test('analyses: each answer lost, the server killed, and stopped for longer than the ttl', async () => {
    const { proxy, url } = await proxied()
    const create = async (id: string) => assert.equal((await fetch(`${server.url}/v1/analyses/${id}`, { method: 'PUT' })).status, 200)
    await create('a-1')
    const runs = new Runs({ url, tenant: 'acme', owner: 'w1', analyses: true })
    assert.equal((await runs.run('a-0', () => assert.fail('it ran'))).status, 'unknown')
    let ran = 0
    proxy.faults.push('answer', 'pass', 'answer')
    assert.deepEqual(await runs.once('a-1', null, () => ({ times: ++ran })), { times: 1 })
    assert.deepEqual(await new Runs({ url, tenant: 'acme', analyses: true }).once('a-1', null, () => ({ times: ++ran })), { times: 1 })

    // Killed while the work runs: the run lives on.
    await create('a-2')
    const killed = await runs.once('a-2', null, async (run) => {
      server.process.kill('SIGKILL')
      await new Promise((resolve) => server.process.once('exit', resolve))
      server = await serve()
      proxy.target = server.url
      return { times: ++ran, aborted: run.signal.aborted }
    })
    assert.deepEqual(killed, { times: 2, aborted: false })

    // Stopped for longer than the ttl: the signal is aborted meanwhile. If another worker takes over, the late result is not stored; if none does, it is.
    for (const id of ['a-3', 'a-4']) {
      await create(id)
      let next: Awaited<ReturnType<typeof runs.run>> | undefined
      const late = await runs.run(id, async (run) => {
        server.process.kill('SIGSTOP')
        await new Promise((resolve) => run.signal.addEventListener('abort', resolve))
        server.process.kill('SIGCONT')
        if (id === 'a-3') {
          const other = new Runs({ url, tenant: 'acme', owner: 'w2', analyses: true })
          next = await other.run(id, (another) => String(another.token > run.token), { wait: 60_000 })
        }
        return 'late'
      }, { ttl: 2000 })
      if (id === 'a-3') {
        assert.equal(late.status, 'lock_lost')
        assert.ok(late.error instanceof LockLostError)
        assert.deepEqual([next?.status, next?.result], ['ready', 'true'])
      } else assert.deepEqual([late.status, late.result], ['ready', 'late'])
    }
  })

  test('IDs of two processes differ', async () => {
    const all = new Set<bigint>()
    const makers = [new IdGenerator({ url: server.url }), new IdGenerator({ url: server.url })]
    for (const ids of makers) {
      for (const id of await ids.batch(2000)) {
        assert.equal(decodeId(id, ids.layout).fallback, false)
        all.add(id)
      }
    }
    assert.equal(all.size, 4000)
    await Promise.all(makers.map((m) => m.close()))
  })

  test('events say what happened', async () => {
    const seen: LockEvent['type'][] = []
    await using locks = new Locks({ url: server.url, tenant: 'acme', observe: (e) => seen.push(e.type) })
    {
      await using lock = await locks.acquire('using')
      assert.equal(lock.owned, true)
    }
    assert.deepEqual(seen, ['acquired', 'released'])
  })
})
