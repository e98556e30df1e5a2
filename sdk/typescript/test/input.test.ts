// What a run is about: fingerprints, against the vectors that all clients share, and names.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { InvalidSettingError } from '../src/index.js'
import { canonical } from '../src/input.js'
import { fingerprint, key } from '../src/once.js'

const path = new URL('../../../../contracts/vectors/fingerprints.json', import.meta.url)

test('fingerprints are those of all clients', { skip: existsSync(path) ? false : 'needs the repository' }, async () => {
  const vectors = JSON.parse(readFileSync(path, 'utf8')) as { fingerprints: { json: string; canonical: string; fingerprint: string }[]; refused: string[] }
  assert.ok(vectors.fingerprints.length > 20 && vectors.refused.length > 3)
  for (const v of vectors.fingerprints) {
    assert.equal(canonical(JSON.parse(v.json)), v.canonical, v.json)
    assert.equal(await fingerprint(JSON.parse(v.json)), v.fingerprint, v.json)
  }
  for (const v of vectors.refused) await assert.rejects(fingerprint(JSON.parse(v)), InvalidSettingError, v)
})

test('what JSON does not have all of is refused with its place: two inputs would be one', async () => {
  const circle: unknown[] = []
  circle.push({ circle })
  for (const [input, place] of [
    [undefined, /input is undefined/], [{ a: [1, undefined] }, /input\.a\[1] is undefined/], [{ a: NaN }, /input\.a is NaN/], [[Infinity], /input\[0] is Infinity/],
    [5n, /is a bigint.*text/], [() => 5, /is a function/], [Symbol('a'), /is a symbol/], [new Map([[1, 2]]), /is a Map/], [{ a: new Uint8Array(2) }, /input\.a is a Uint8Array/],
    [new (class Order { #total = 5; get total() { return this.#total } })(), /is a Order/], [circle, /input\[0]\.circle is within itself/], ['\ud800', /Unicode/],
    [{ '\udc00': 1 }, /a name in input/], [[, 1], /input\[0] is undefined/], // eslint-disable-line no-sparse-arrays
  ] as const) {
    await assert.rejects(fingerprint(input), (e: unknown) => e instanceof InvalidSettingError && e.field === 'input' && place.test(e.message), String(place))
  }
})

test('equal values have one canonical text, and others have another', () => {
  const twice = { a: 1 }
  for (const [one, other] of [
    [{ b: 1, a: 2 }, { a: 2, b: 1, c: undefined }], [[twice, twice], [{ a: 1 }, { a: 1 }]], [new Date(0), '1970-01-01T00:00:00.000Z'], [{ toJSON: (name: string) => [name] }, ['']],
    [Object.assign(Object.create(null) as object, { a: 1 }), { a: 1 }], [-0, 0], [1e21, 1e21],
  ]) assert.equal(canonical(one), canonical(other))
  const values = ['', 'a', '1', 'null', '[]', 1, 0, true, null, [], [[]], {}, { a: 1 }, { a: '1' }, { a: [1] }, { a: 1, b: 2 }, { '': 1 }, ['a', 1], ['a,1'], [{ a: 1 }, 2], [{ a: 1, b: 2 }]]
  assert.equal(new Set(values.map((v) => canonical(v))).size, values.length)
})

test('names of ordinary parts are read as they were written', () => {
  assert.equal(key`nightly`, 'nightly')
  assert.equal(key`invoice-${'c17'}-${'2026-11-29'}`, 'invoice-c17-2026-11-29')
  assert.equal(key`${'2026-11'}/${5}`.replace('/', ':'), '2026-11:5')
  assert.equal(key`${'a b'}:${'ü.1_2+3@x'}:${10n}:${true}`, 'a b:ü.1_2+3@x:10:true')
  assert.equal(key`${'2026-11'}-${'c'}`, '2026~2D11-c')
  assert.equal(key`${'https://x/~me'}`, 'https:~2F~2Fx~2F~7Eme')
  assert.equal(key`${'a→b'}→${'c'}`, 'a~E2~86~92b→c')
})

test('different parts make different names', () => {
  const pieces = ['', 'a', '-', '--', ':', '~', '/', '2', '2D', '~2D', '→', 'x-', '-x']
  const parts = pieces.flatMap((a) => pieces.map((b) => a + b)).filter((p, i, all) => all.indexOf(p) === i)
  const makes: ((a: string, b: string) => string)[] = [(a, b) => key`${a}-${b}`, (a, b) => key`x-${a}--${b}-x`, (a, b) => key`${a}→${b}`, (a, b) => key`-${a}: ${b}-`, (a, b) => key`${a}x${b}`]
  for (const make of makes) {
    const seen = new Set<string>()
    for (const a of parts) for (const b of parts) seen.add(make(a, b))
    assert.equal(seen.size, parts.length ** 2, String(make))
    assert.ok(![...seen].some((k) => k.includes('/')))
  }
})

test('a name that others could make is refused', () => {
  const a = 'a'
  for (const make of [
    () => key`${a}${a}`, () => key`${a}2${a}`, () => key`${a}F-${a}`, () => key`${a}~${a}`, () => key`${NaN}`, () => key`${undefined as never}`, () => key`${null as never}`,
    () => key`${{} as never}`, () => key`${new Date() as never}`, () => key`${'\ud800'}`,
  ]) assert.throws(make, (e: unknown) => e instanceof InvalidSettingError && e.field === 'key', String(make))
})
