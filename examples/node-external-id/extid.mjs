// Public IDs of kazahana in Node, without dependencies: 64-bit IDs to 11 characters and back, as Leasehold's Go package
// kazahana/extid does it. IDs are BigInts: a Number cannot hold them.
//
// What each mode protects, and what not, is in docs/guides/ids.md. Copy the file, and check.mjs with it.

import { createCipheriv, hkdfSync } from 'node:crypto'

/** A string that cannot be a public ID of the converter. `reason` is 'length', 'character' or 'keyNumber'. */
export class MalformedError extends Error {
  constructor (reason, message, details = {}) {
    super(message)
    Object.assign(this, { name: 'MalformedError', reason }, details)
  }
}

/** A well-formed public ID of no ID that can have been made: answer it as one that does not exist. */
export class ImplausibleError extends Error {
  constructor () {
    super('public ID belongs to no ID that can have been made: treat it as not found')
    this.name = 'ImplausibleError'
  }
}

export const defaultLayout = { customEpoch: 1_767_225_600_000, bitReserve: 1, bitTs: 41, bitId: 14, bitSeq: 8 }

const aheadMs = 60_000
const mask64 = (1n << 64n) - 1n

/**
 * Converts IDs. The first key encodes; a public ID names the key that decodes it.
 *
 * keys: { number: 0 to 3, mode: 'unkeyed' | 'ff1-aes128' | 'ff1-aes256' (default), secret: Buffer of 16 bytes or more }
 * options: entity (a short name in ASCII), layout, anyId (true for numbers that are not kazahana's), now (() => Unix ms)
 */
export class Converter {
  constructor (keys, { entity = '', layout = defaultLayout, anyId = false, now = Date.now } = {}) {
    if (keys.length === 0) throw new TypeError("no key: give at least one; { mode: 'unkeyed' } is the one without a secret")
    if (!/^[!-~]{0,64}$/.test(entity)) throw new TypeError('entity must be at most 64 characters of ASCII without spaces')
    this.keys = new Map()
    for (const { number = 0, mode = 'ff1-aes256', secret } of keys) {
      if (![0, 1, 2, 3].includes(number)) throw new RangeError(`key number ${number}: must be from 0 to 3`)
      if (this.keys.has(number)) throw new TypeError(`two keys have the number ${number}`)
      if (mode === 'unkeyed' && number !== 0) throw new RangeError('the unkeyed mode has no key, its number must be 0')
      this.keys.set(number, mode === 'unkeyed' ? unkeyed : ff1(deriveKey(mode, secret), Buffer.from(entity)))
    }
    this.current = keys[0].number ?? 0
    Object.assign(this, { layout, anyId, now })
  }

  encode (id) {
    return toText(this.keys.get(this.current).forward(BigInt.asUintN(64, id)), this.current)
  }

  decode (external) {
    const { bits, number } = fromText(external)
    const key = this.keys.get(number)
    if (key === undefined) {
      throw new MalformedError('keyNumber', `public ID names key ${number}, known are ${[...this.keys.keys()].sort()}`, { number })
    }
    const id = key.inverse(bits)
    if (!this.#plausible(id)) throw new ImplausibleError()
    return id
  }

  #plausible (id) {
    if (id >> 63n !== 0n) return false
    if (this.anyId) return true
    const { customEpoch, bitTs, bitId, bitSeq } = this.layout
    const timestamp = id >> BigInt(bitId + bitSeq)
    return timestamp >> BigInt(bitTs) === 0n && timestamp <= BigInt(this.now() + aheadMs - customEpoch)
  }
}

/** The parts of an ID. */
export function parts (id, { customEpoch, bitTs, bitId, bitSeq } = defaultLayout) {
  const field = (shift, width) => Number(BigInt.asUintN(width, id >> BigInt(shift)))
  return {
    unixMs: field(bitId + bitSeq, bitTs) + customEpoch,
    fallback: field(bitId + bitSeq - 1, 1) === 1,
    machineId: field(bitSeq, bitId - 1),
    sequence: field(0, bitSeq),
    node: field(0, bitId + bitSeq)
  }
}

/** 64 bits and the 2 of the key number as 11 characters. With 6 zero bits they are 9 bytes, whose 12th character says nothing. */
export function toText (bits, number) {
  const b = Buffer.alloc(9)
  b.writeBigUInt64BE(bits)
  b[8] = number << 6
  return b.toString('base64url').slice(0, 11)
}

/** The inverse of toText. Node's own decoder skips what it does not know, so characters and length are looked at first. */
export function fromText (external) {
  const bad = /[^A-Za-z0-9_-]/u.exec(external.slice(0, 12))
  if (bad !== null) {
    throw new MalformedError('character', `public ID has ${JSON.stringify(bad[0])} at position ${bad.index + 1}`, { position: bad.index + 1 })
  }
  if (external.length !== 11) {
    throw new MalformedError('length', `public ID has ${external.length} characters: must have exactly 11`)
  }
  const b = Buffer.from(external + 'A', 'base64url')
  return { bits: b.readBigUInt64BE(), number: b[8] >> 6 }
}

/** fmix64 of MurmurHash3 over the ID exclusive-or a constant. It hides and does not protect. */
const salt = 0x9e3779b97f4a7c15n
const unkeyed = {
  forward (x) {
    x ^= salt
    x ^= x >> 33n
    x = (x * 0xff51afd7ed558ccdn) & mask64
    x ^= x >> 33n
    x = (x * 0xc4ceb9fe1a85ec53n) & mask64
    return x ^ (x >> 33n)
  },
  inverse (x) {
    x ^= x >> 33n
    x = (x * 0x9cb4b2f8129337dbn) & mask64
    x ^= x >> 33n
    x = (x * 0x4f74430c22a54005n) & mask64
    x ^= x >> 33n
    return x ^ salt
  }
}

/** The AES key of a secret: HKDF-SHA256, empty salt, the mode in the info. */
export function deriveKey (mode, secret) {
  const size = { 'ff1-aes128': 16, 'ff1-aes256': 32 }[mode]
  if (size === undefined) throw new TypeError(`mode ${mode}: must be unkeyed, ff1-aes128 or ff1-aes256`)
  if (!(secret?.length >= 16)) throw new RangeError('the secret must have at least 16 random bytes')
  return Buffer.from(hkdfSync('sha256', secret, Buffer.alloc(0), `leasehold extid ${mode}`, size))
}

/** FF1 of NIST SP 800-38G for radix 2 and 64 digits: 10 rounds over two halves of 32 bits. */
function ff1 (key, tweak) {
  // What a round adds to the other half: bytes 4 to 7 of the CBC-MAC of P, the tweak, zeros, the round and the half.
  const p = Buffer.from([1, 2, 1, 0, 0, 2, 10, 32, 0, 0, 0, 64, 0, 0, 0, tweak.length])
  const zeros = Buffer.alloc((16 - (tweak.length + 5) % 16) % 16)
  const round = (i, half) => {
    const last = Buffer.alloc(5)
    last[0] = i
    last.writeUInt32BE(half, 1)
    const cbc = createCipheriv(`aes-${key.length * 8}-cbc`, key, Buffer.alloc(16)).setAutoPadding(false)
    return cbc.update(Buffer.concat([p, tweak, zeros, last])).subarray(-16).readUInt32BE(4)
  }
  const halves = (x) => [Number(x >> 32n), Number(x & 0xffffffffn)]
  const joined = (a, b) => (BigInt(a) << 32n) | BigInt(b)
  return {
    forward (x) {
      let [a, b] = halves(x)
      for (let i = 0; i < 10; i++) [a, b] = [b, (a + round(i, b)) >>> 0]
      return joined(a, b)
    },
    inverse (x) {
      let [a, b] = halves(x)
      for (let i = 9; i >= 0; i--) [a, b] = [(b - round(i, a)) >>> 0, a]
      return joined(a, b)
    }
  }
}
