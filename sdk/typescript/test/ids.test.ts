// IDs and public IDs against the golden vectors of contracts/vectors, and the generator with a clock that the tests move.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { InvalidArgumentError } from '../src/index.js'
import {
  ClockBackwardError, ConfigurationError, IdGenerator, ImplausibleIdError, LeaseAcquisitionError, MalformedIdError, PublicIds, decodeId, defaultLayout, firstId, formatId,
  idBytes, parseId, type GeneratorOptions, type Layout, type PublicIdKey,
} from '../src/ids.js'
import { checkLayout, signRelease } from '../src/layout.js'
import { deriveKey, fromText, toText } from '../src/publicids.js'
import { FakeClock, json, late, problem, settle } from './world.js'

const path = new URL('../../../../contracts/vectors/kazahana.json', import.meta.url)

interface Vectors {
  layouts: Record<string, Layout & { end: string; maxMachineId: number; throughputPerMs: number }>
  ids: { layout: string; id: string; bytes: string; unixMs: number; time: string; fallback: boolean; machineId: number; sequence: number }[]
  malformedIds: string[]
  releases: { secret: string; id: number; timestamp: number; signature: string }[]
  encodings: { bytes: string; keyNumber: number; text: string }[]
  externalIds: { mode: 'unkeyed' | 'ff1-aes128' | 'ff1-aes256'; entity: string; keyNumber: number; id: string; externalId: string; secret?: string; aesKey?: string }[]
  plausibility: { layout: string; nowUnixMs: number; externalId: string; id: string; accepted: boolean }[]
  malformedExternalIds: { text: string; knownKeys: number[]; reason: string; position?: number; keyNumber?: number }[]
}

const unhex = (s: string) => Uint8Array.from(s.match(/../g) ?? [], (b) => parseInt(b, 16))
const hex = (b: Uint8Array) => Array.from(b, (x) => x.toString(16).padStart(2, '0')).join('')

describe('the golden vectors', { skip: existsSync(path) ? false : 'needs the repository' }, () => {
  const v = (existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : {}) as Vectors
  const layout = (name: string): Layout => {
    const l = v.layouts[name]
    assert.ok(l)
    return l
  }

  test('layouts and IDs', () => {
    assert.ok(v.ids.length > 20)
    for (const l of Object.values(v.layouts)) checkLayout(l)
    for (const e of v.ids) {
      const id = parseId(e.id)
      assert.equal(formatId(id), e.id)
      assert.equal(hex(idBytes(id)), e.bytes)
      const got = decodeId(id, layout(e.layout))
      assert.deepEqual({ ...got, time: got.time.toISOString() }, { time: e.time, fallback: e.fallback, machineId: e.machineId, sequence: e.sequence })
      assert.ok(firstId(new Date(e.unixMs), layout(e.layout)) <= id)
      assert.equal(JSON.parse(JSON.stringify({ id: formatId(id) })).id, e.id) // text in JSON keeps all digits
    }
  })

  test('what is no ID', () => {
    assert.ok(v.malformedIds.length > 10)
    for (const s of v.malformedIds) assert.throws(() => parseId(s), (e: unknown) => e instanceof InvalidArgumentError && e.field === 'id')
    for (const id of [5, 5n, undefined]) assert.throws(() => parseId(id as never), InvalidArgumentError)
    for (const time of [5, new Date(NaN), undefined]) assert.throws(() => firstId(time as never), (e: unknown) => e instanceof InvalidArgumentError && e.field === 'time')
    for (const work of [() => decodeId(5n, {} as never), () => firstId(new Date(), {} as never)]) assert.throws(work, (e: unknown) => e instanceof InvalidArgumentError && e.field === 'customEpoch')
    assert.throws(() => formatId(-1n), InvalidArgumentError)
    assert.throws(() => formatId(2n ** 63n), InvalidArgumentError)
  })

  test('signatures of releases', async () => {
    assert.ok(v.releases.length > 2)
    for (const r of v.releases) assert.equal(await signRelease(r.secret, r.id, r.timestamp), r.signature)
  })

  test('encodings', () => {
    for (const e of v.encodings) {
      assert.equal(toText(BigInt(`0x${e.bytes}`), e.keyNumber), e.text)
      assert.deepEqual(fromText(e.text), { bits: BigInt(`0x${e.bytes}`), number: e.keyNumber })
    }
  })

  test('public IDs', async () => {
    assert.ok(v.externalIds.length > 30)
    for (const e of v.externalIds) {
      const secret = e.secret === undefined ? undefined : unhex(e.secret)
      if (secret) assert.equal(hex(await deriveKey(e.mode, secret)), e.aesKey)
      const ids = await PublicIds.create([{ number: e.keyNumber, mode: e.mode, ...(secret && { secret }) }], { entity: e.entity, anyId: true })
      assert.equal(await ids.encode(BigInt(e.id)), e.externalId)
      assert.equal(await ids.decode(e.externalId), BigInt(e.id))
    }
  })

  test('whether an ID can have been made', async () => {
    for (const e of v.plausibility) {
      const ids = await PublicIds.create([{ mode: 'unkeyed' }], { layout: layout(e.layout), now: () => e.nowUnixMs })
      assert.equal(await ids.encode(BigInt(e.id)), e.externalId)
      if (e.accepted) assert.equal(await ids.decode(e.externalId), BigInt(e.id))
      else await assert.rejects(ids.decode(e.externalId), ImplausibleIdError)
    }
  })

  test('malformed public IDs', async () => {
    for (const e of v.malformedExternalIds) {
      const keys: PublicIdKey[] = e.knownKeys.map((number) => ({ number, secret: new Uint8Array(16).fill(number + 1) }))
      const ids = await PublicIds.create(keys, { anyId: true })
      await assert.rejects(ids.decode(e.text), (error: unknown) => error instanceof MalformedIdError && error.reason === e.reason &&
        (e.reason !== 'character' || error.detail.position === e.position) && (e.reason !== 'keyNumber' || error.detail.number === e.keyNumber))
    }
  })
})

test('keys that cannot work are errors that name the field', async () => {
  const secret = new Uint8Array(16)
  const refused = (field: string, keys: PublicIdKey[], entity?: string) =>
    assert.rejects(PublicIds.create(keys, entity === undefined ? {} : { entity }), (e: unknown) => e instanceof InvalidArgumentError && e.field === field)
  await refused('keys', [])
  await refused('number', [{ number: 4, secret }])
  await refused('number', [{ secret }, { secret: new Uint8Array(17) }])
  await refused('number', [{ number: 1, mode: 'unkeyed' }])
  await refused('secret', [{ mode: 'unkeyed', secret }])
  await refused('secret', [{ secret: new Uint8Array(15) }])
  await refused('secret', [{ secret: 'x'.repeat(32) as never }])
  await refused('secret', [{ number: 0, secret }, { number: 1, secret }])
  await refused('mode', [{ mode: 'none' as never, secret }])
  await refused('entity', [{ secret }], 'a b')
  for (const keys of [undefined, { secret }, 'unkeyed']) await refused('keys', keys as never)
  await assert.rejects(PublicIds.create([{ secret }], { layout: {} as never }), (e: unknown) => e instanceof InvalidArgumentError && e.field === 'customEpoch')
  const ids = await PublicIds.create([{ secret }])
  for (const id of [-1n, 2n ** 63n, 5, '5', undefined]) await assert.rejects(ids.encode(id as never), (e: unknown) => e instanceof InvalidArgumentError && e.field === 'id')
  for (const external of [undefined, null, 5, [], [...'AAAAAAAAAAA']]) {
    await assert.rejects(ids.decode(external as never), (e: unknown) => e instanceof InvalidArgumentError && e.field === 'external')
  }
})

describe('the generator', () => {
  function world(o: Partial<GeneratorOptions> = {}) {
    const clock = new FakeClock()
    clock.time += 1_000_000_000
    const sent: { method: string; path: string; body: Record<string, unknown> }[] = []
    const answers: (() => Response | Error | undefined)[] = []
    const events: string[] = []
    let machine = 4
    const fetch = (async (input: string, init: RequestInit) => {
      const url = new URL(input)
      sent.push({ method: init.method ?? '', path: url.pathname, body: JSON.parse(String(init.body)) })
      const own = answers.shift()?.()
      if (own instanceof Error) throw own
      if (own) return own
      if (init.method === 'DELETE') return new Response(null, { status: 204 })
      const created = Math.floor(clock.time)
      return json({ leases: [{ id: ++machine, created, expired: created + 60_000, secret: `secret-of-${machine}`, ...defaultLayout }] })
    }) as unknown as typeof globalThis.fetch
    const make = () => new IdGenerator({ url: 'https://ids.test', fetch, clock, onEvent: (e) => events.push(e.type), ...o })
    return { clock, sent, answers, events, make }
  }

  test('makes ascending IDs under a lease, 256 in a millisecond, and releases it', async () => {
    const w = world()
    const ids = w.make()
    const got = await w.clock.until(ids.batch(1000), 1)
    assert.ok(got.every((id, i) => i === 0 || id > (got[i - 1] ?? id)))
    const parts = got.map((id) => decodeId(id))
    assert.ok(parts.every((p) => p.machineId === 5 && !p.fallback))
    assert.deepEqual(parts.slice(0, 256).map((p) => p.sequence), Array.from({ length: 256 }, (_, i) => i))
    assert.equal(new Set(parts.map((p) => p.time.getTime())).size, 4)
    await ids.close()
    const release = w.sent.at(-1)
    assert.equal(release?.method, 'DELETE')
    assert.equal(release?.path, '/v1/machine-ids/lease/5')
    assert.equal(release?.body['signature'], await signRelease('secret-of-5', 5, Number(release?.body['timestamp'])))
    await assert.rejects(ids.next())
    assert.equal(w.clock.timers, 0)
  })

  test('replaces its lease before it expires, and never makes an ID twice', async () => {
    const w = world()
    const ids = w.make()
    const all = new Set<bigint>()
    let last = -1n
    for (let s = 0; s < 200; s++) {
      for (const id of await w.clock.until(ids.batch(20), 1)) {
        assert.ok(id > last && !all.has(id))
        assert.equal(decodeId(id).fallback, false)
        all.add((last = id))
      }
      await w.clock.pass(1000)
    }
    assert.ok(w.sent.length >= 4)
    await ids.close()
  })

  test('a lease is asked for with an end; a clock that is wrong costs one request', async () => {
    for (const ahead of [60_000, -7_200_000]) {
      const w = world({ maxSkew: 8_000_000 })
      w.answers.push(() => late(w.clock.time + ahead, ahead > 0 ? 'TOO_LATE' : 'INVALID_ARGUMENT', 'notAfter'))
      const ids = w.make()
      assert.equal(decodeId(await w.clock.until(ids.next(), 1)).fallback, false)
      await w.clock.pass(60_000)
      const ends = w.sent.map((s) => Date.parse(String(s.body['notAfter'])))
      assert.ok(ends.length >= 3)
      const start = w.clock.time - w.clock.mono + 1000
      assert.deepEqual(ends.slice(0, 2).map((end) => Math.round((end - start) / 1000)), [12, 12 + ahead / 1000])
      assert.ok((ends[2] ?? 0) >= start + 12_000 + ahead + 50_000)
      assert.ok(w.sent.every((s) => s.body['not_after'] === undefined && s.body['give_up'] === undefined))
      assert.deepEqual(w.events.slice(0, 2), ['acquired', 'acquired'])
      await ids.close()
    }
  })

  test('uses nothing outside of the interval of a lease', async () => {
    const w = world({ disableFallback: true })
    const ids = w.make()
    await w.clock.until(ids.next(), 1)
    for (let i = 0; i < 100; i++) w.answers.push(() => new TypeError('fetch failed'))
    await w.clock.pass(61_000)
    await assert.rejects(w.clock.until(ids.next(), 10), LeaseAcquisitionError)
    await ids.close()
  })

  test('without a lease it says so in the IDs and as an event', async () => {
    const w = world()
    for (let i = 0; i < 3; i++) w.answers.push(() => new TypeError('fetch failed'))
    const ids = w.make()
    const id = decodeId(await w.clock.until(ids.next(), 1))
    assert.equal(id.fallback, true)
    assert.ok(w.events.includes('fallback'))
    await w.clock.pass(60_000)
    assert.equal(decodeId(await w.clock.until(ids.next(), 1)).fallback, false)
    assert.ok(w.events.includes('recovered'))
    await ids.close()
  })

  test('after a lease its fallback IDs keep the machine ID, and begin at random', async () => {
    const w = world()
    const ids = w.make()
    await w.clock.until(ids.next(), 1)
    for (let i = 0; i < 100; i++) w.answers.push(() => new TypeError('fetch failed'))
    await w.clock.pass(61_000)
    const starts = new Set<number>()
    for (let i = 0; i < 50; i++) {
      const p = decodeId(await w.clock.until(ids.next(), 1))
      assert.ok(p.fallback && p.machineId === 5)
      starts.add(p.sequence)
      await w.clock.pass(1)
    }
    assert.ok(starts.size > 5) // 50 draws of 256: fewer than 6 different ones do not happen
    await ids.close()
  })

  test('a server that has no lease to give is a configuration error', async () => {
    for (const answer of [() => problem('UNKNOWN_SERVICE', 404), () => json({ leases: [] }), () => json({ leases: [{ id: 1 }] }), () => new Response('<html>', { headers: { 'content-type': 'text/html' } })]) {
      const w = world()
      w.answers.push(answer)
      const ids = w.make()
      await assert.rejects(w.clock.until(ids.next(), 1), ConfigurationError)
      await ids.close()
    }
  })

  for (const [name, spoil] of Object.entries<object>({
    'a machine ID that the layout has not': { id: 8192 }, 'an empty interval': { expired: 1 },
    'another width': { bitSeq: 9 }, 'no secret': { secret: 5 }, 'a fraction': { id: 1.5 },
  })) {
    test(`a lease with ${name} is not used`, async () => {
      const w = world()
      w.answers.push(() => {
        const created = Math.floor(w.clock.time)
        return json({ leases: [{ id: 5, created, expired: created + 60_000, secret: 's', ...defaultLayout, ...spoil }] })
      })
      const ids = w.make()
      await assert.rejects(w.clock.until(ids.next(), 1), ConfigurationError)
      await ids.close()
    })
  }

  test('a clock that was set back is waited for, and beyond the limit an error', async () => {
    const w = world()
    const ids = w.make()
    const first = await w.clock.until(ids.next(), 1)
    w.clock.time -= 3000
    await w.clock.pass(1001) // the wall clock is sampled once a second
    const second = await w.clock.until(ids.next(), 1)
    assert.ok(second > first)
    w.clock.time -= 10_000
    await w.clock.pass(1001)
    await assert.rejects(w.clock.until(ids.next(), 1), ClockBackwardError)
    await w.clock.pass(10_000)
    assert.ok((await w.clock.until(ids.next(), 1)) > second)
    await ids.close()
  })

  test('standalone it makes fallback IDs, and settings that cannot work are errors', async () => {
    const clock = new FakeClock()
    clock.time += 1000
    const ids = new IdGenerator({ clock })
    assert.equal(decodeId(await ids.next()).fallback, true)
    await ids.close()
    await settle()
    const refused = (field: string, o: GeneratorOptions) => assert.throws(() => new IdGenerator(o), (e: unknown) => e instanceof InvalidArgumentError && e.field === field)
    refused('url', { disableFallback: true })
    refused('url', { url: 'x' })
    refused('throughputPerMs', { throughputPerMs: 0 })
    refused('maxSkew', { maxSkew: -1 })
    for (const k of ['maxSkew', 'maxBackward', 'retryInterval', 'retryMaxInterval', 'throughputPerMs']) for (const v of ['5', NaN]) refused(k, { [k]: v })
    for (const k of ['retryInterval', 'retryMaxInterval']) for (const v of [0, -5]) refused(k, { [k]: v })
    refused('token', { url: 'https://locks.test', token: '' })
    refused('fetch', { url: 'https://locks.test', fetch: 5 as never })
    refused('onEvent', { onEvent: 5 as never })
    refused('options', null as never)
    refused('service', { service: '' })
    refused('bitTs', { layout: { ...defaultLayout, bitTs: 31 } })
    refused('bitSeq', { layout: { ...defaultLayout, bitSeq: 7 } })
  })
})
