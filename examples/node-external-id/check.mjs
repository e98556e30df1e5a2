// Holds extid.mjs to the test vectors: node check.mjs [kazahana.json]
// Prints how many of each kind held, as JSON, and ends with 1 at the first that does not.

import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Converter, ImplausibleError, deriveKey, fromText, parts, toText } from './extid.mjs'

const file = process.argv[2] ?? new URL('../../contracts/vectors/kazahana.json', import.meta.url)
const vectors = JSON.parse(readFileSync(file, 'utf8'))
const secretOf = (hex) => Buffer.from(hex, 'hex')

for (const v of vectors.ids) {
  const { unixMs, fallback, machineId, sequence, node } = v
  const id = BigInt(v.id)
  assert.deepEqual(parts(id, vectors.layouts[v.layout]), { unixMs, fallback, machineId, sequence, node })
  assert.equal(new Date(unixMs).toISOString(), v.time)
  assert.equal(id.toString(16).padStart(16, '0'), v.bytes)
}

for (const v of vectors.malformedIds) {
  assert.ok(!/^(0|[1-9][0-9]{0,18})$/.test(v) || BigInt(v) >= 1n << 63n, v)
}

for (const v of vectors.releases) {
  assert.equal(createHmac('sha256', v.secret).update(`${v.id}:${v.timestamp}`).digest('hex'), v.signature)
}

for (const v of vectors.encodings) {
  const bits = BigInt(`0x${v.bytes}`)
  assert.equal(toText(bits, v.keyNumber), v.text)
  assert.deepEqual(fromText(v.text), { bits, number: v.keyNumber })
}

for (const v of vectors.externalIds) {
  const key = { number: v.keyNumber, mode: v.mode }
  if (v.mode !== 'unkeyed') {
    key.secret = secretOf(v.secret)
    assert.equal(deriveKey(v.mode, key.secret).toString('hex'), v.aesKey)
  }
  const converter = new Converter([key], { entity: v.entity, anyId: true })
  assert.equal(converter.encode(BigInt(v.id)), v.externalId)
  assert.equal(converter.decode(v.externalId), BigInt(v.id))
}

for (const v of vectors.plausibility) {
  const converter = new Converter([{ mode: 'unkeyed' }], { layout: vectors.layouts[v.layout], now: () => v.nowUnixMs })
  assert.equal(converter.encode(BigInt(v.id)), v.externalId)
  if (v.accepted) assert.equal(converter.decode(v.externalId), BigInt(v.id))
  else assert.throws(() => converter.decode(v.externalId), ImplausibleError)
}

for (const v of vectors.malformedExternalIds) {
  const keys = v.knownKeys.map((number) => ({ number, secret: Buffer.alloc(16, number + 1) }))
  const want = { name: 'MalformedError', reason: v.reason }
  if (v.reason === 'character') want.position = v.position
  if (v.reason === 'keyNumber') want.number = v.keyNumber
  assert.throws(() => new Converter(keys, { anyId: true }).decode(v.text), want)
}

const counts = Object.entries(vectors).filter(([, v]) => Array.isArray(v)).map(([name, v]) => [name, v.length])
console.log(JSON.stringify(Object.fromEntries(counts)))
