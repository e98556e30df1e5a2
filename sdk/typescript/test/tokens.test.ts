// Tokens that are replaced while locks are held: none waits for real time, and the file is a real one.
import assert from 'node:assert/strict'
import { mkdtempSync, renameSync, rmSync, symlinkSync, truncateSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Locks, UnauthenticatedError, type LockEvent, type ServerOptions } from '../src/index.js'
import { tokenFile } from '../src/node.js'
import { FakeClock, FakeServer, problem, settle } from './world.js'

const folder = mkdtempSync(join(tmpdir(), 'token-'))
after(() => rmSync(folder, { recursive: true }))
let files = 0
const file = (text?: string) => {
  const path = join(folder, `token-${++files}`)
  if (text !== undefined) writeFileSync(path, text)
  return path
}

const life = 8000
const every = 4000

/** A server that accepts tokens of so many milliseconds: "T" and when they were issued. */
function world(token: (clock: FakeClock) => NonNullable<ServerOptions['token']>) {
  const clock = new FakeClock()
  const server = new FakeServer(clock)
  const rejected: string[] = []
  const events: LockEvent[] = []
  const fetch: typeof globalThis.fetch = async (url, init) => {
    const bearer = new Headers(init?.headers).get('authorization')?.replace('Bearer ', '') ?? ''
    const age = clock.mono - Number(bearer.slice(1))
    if (!/^T\d+$/.test(bearer) || !(age >= 0 && age < life)) return rejected.push(bearer), problem('UNAUTHENTICATED', 401)
    return server.fetch(url, init)
  }
  const locks = new Locks({ url: 'https://locks.test', tenant: 'acme', clock, fetch, ttl: 3000, token: token(clock), observe: (e) => events.push(e) })
  return { clock, server, rejected, events, locks }
}
const lostOf = (events: LockEvent[]) => events.filter((e) => e.type === 'lost' || e.type === 'renewal-failed').map((e) => e.type)

test('a lock is held over tokens that last 8 s and are replaced every 4 s, in a file', async () => {
  const path = file()
  const token = tokenFile(path)
  let reads = 0 // under way: the file is read outside of the clock
  const { clock, rejected, events, locks } = world(() => async (old) => {
    reads++
    return token(old).finally(() => reads--)
  })
  const replace = () => {
    writeFileSync(`${path}.next`, `T${clock.mono}\n`)
    renameSync(`${path}.next`, path)
  }
  replace()
  await locks.request('deploy', async (lock) => {
    for (let i = 0; i < 20; i++) {
      for (let passed = 0; passed < every; passed += 100) {
        await clock.pass(100)
        while (reads > 0) await new Promise((resolve) => setTimeout(resolve, 1))
        await settle()
      }
      replace()
    }
    lock.check()
  })
  assert.deepEqual([rejected, lostOf(events)], [[], []])
  assert.ok(events.filter((e) => e.type === 'renewed').length > 60)
})

test('a function that keeps a token is called again after a 401, with it, and once', async () => {
  const asked: (string | undefined)[] = []
  let kept = ''
  const { clock, rejected, events, locks } = world((clock) => (old) => {
    asked.push(old)
    if (!kept || old === kept) kept = `T${clock.mono}`
    return kept
  })
  await locks.request('deploy', async () => clock.pass(60_000))
  assert.deepEqual(lostOf(events), [])
  assert.ok(rejected.length >= 6 && rejected.length <= 8, String(rejected))
  assert.deepEqual(asked.filter((old) => old !== undefined), rejected)
})

test('a token that is rejected, and is the one that there is, is an error at once', async () => {
  for (const token of ['T99999', () => 'T99999', async () => 'T99999']) {
    const { rejected, locks } = world(() => token)
    await assert.rejects(locks.acquire('deploy'), UnauthenticatedError)
    assert.equal(rejected.length, 1)
  }
  let n = 0
  const { rejected, locks } = world(() => () => `wrong-${++n}`)
  await assert.rejects(locks.acquire('deploy'), UnauthenticatedError)
  assert.deepEqual(rejected, ['wrong-1', 'wrong-2'])
})

test('the last good token is used while the file is missing, empty or half written', async () => {
  const path = file('good\n')
  const token = tokenFile(path)
  assert.equal(await token(), 'good')
  for (const spoil of [() => truncateSync(path), () => writeFileSync(path, '\n'), () => writeFileSync(path, 'two words'), () => rmSync(path)]) {
    spoil()
    assert.equal(await token(), 'good', String(spoil))
    assert.equal(await token('good'), 'good', String(spoil))
  }
  writeFileSync(path, 'nex')
  assert.equal(await token(), 'nex') // nothing tells it from a whole one,
  assert.equal(await token('nex'), 'good') // but the server
  assert.equal(await token(), 'good')
  writeFileSync(path, 'next')
  assert.equal(await token(), 'next')
})

test('the file is read again when its time, its size or what is behind its name has changed', async () => {
  const path = file('one')
  const old = new Date(1_000_000_000_000)
  utimesSync(path, old, old)
  const token = tokenFile(path)
  assert.equal(await token(), 'one')
  writeFileSync(path, 'two')
  utimesSync(path, old, new Date(1_000_000_001_000))
  assert.equal(await token(), 'two')
  writeFileSync(path, 'three')
  utimesSync(path, old, new Date(1_000_000_001_000))
  assert.equal(await token(), 'three')
  writeFileSync(path, 'thr3e')
  utimesSync(path, old, new Date(1_000_000_001_000))
  assert.equal(await token(), 'three') // nothing says that it has changed
  assert.equal(await token('three'), 'thr3e')
  const other = file('other')
  rmSync(path)
  symlinkSync(other, path) // as Kubernetes replaces it
  assert.equal(await token(), 'other')
})

test('a file that never had a token is an error that names it', async () => {
  for (const text of [undefined, '', 'two words']) await assert.rejects(tokenFile(file(text))(), /token-\d/)
})
