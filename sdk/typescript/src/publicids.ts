/**
 * Public IDs: 64-bit IDs as 11 characters that show neither their time nor their order.
 *
 * @module
 */
import { checkFunction, checkObject, invalid } from './check.js'
import { LeaseholdError } from './fault.js'
import { type Layout, checkLayout, defaultLayout, formatId } from './layout.js'

/** A text that cannot be a public ID of the converter. */
export class MalformedIdError extends LeaseholdError {
  override readonly name = 'MalformedIdError'
  constructor(
    /** What is wrong. */
    readonly reason: 'length' | 'character' | 'keyNumber',
    message: string,
    /** With `character`: where, from 1. With `keyNumber`: the number of the key. */
    readonly detail: { readonly position?: number; readonly number?: number } = {},
  ) {
    super(message)
  }
}

/** A well-formed public ID of no ID that can have been made: respond as for an ID that does not exist. */
export class ImplausibleIdError extends LeaseholdError {
  override readonly name = 'ImplausibleIdError'
}

/** One way to convert IDs. The number is in every public ID made with it, so that number, mode and secret never change. */
export interface PublicIdKey {
  /** 0 to 3; 0 if left out. */
  readonly number?: number
  /** `ff1-aes256` if left out. `unkeyed` hides, and does not protect. */
  readonly mode?: 'ff1-aes256' | 'ff1-aes128' | 'unkeyed'
  /** 16 random bytes or more; none with `unkeyed`. */
  readonly secret?: Uint8Array<ArrayBuffer>
}

/** Settings of {@link PublicIds}. */
export interface PublicIdOptions {
  /** What the IDs name, "user" or "order": 64 characters of printable ASCII without spaces at most. It must never change. */
  readonly entity?: string
  /** That of the IDs. */
  readonly layout?: Layout
  /** Turns off the check whether an ID can have been made, for numbers that are not kazahana's. */
  readonly anyId?: boolean
  /** The time in ms since 1970; Date.now unless it is given. */
  readonly now?: () => number
}

interface Permutation {
  forward(x: bigint): Promise<bigint>
  inverse(x: bigint): Promise<bigint>
}

/** Converts IDs. */
export class PublicIds {
  readonly #keys = new Map<number, Permutation>()
  readonly #current: number
  readonly #o: PublicIdOptions

  /** Makes a converter. The first key encodes; a public ID names the key that decodes it. */
  constructor(keys: readonly PublicIdKey[], options: PublicIdOptions = {}) {
    checkObject('options', options)
    const { entity = '' } = options
    const [first] = Array.isArray(keys) ? (keys as readonly PublicIdKey[]) : []
    if (!first) throw invalid('keys', "must be a list of at least one; { mode: 'unkeyed' } is the one without a secret")
    if (typeof entity !== 'string' || !/^[!-~]{0,64}$/.test(entity)) throw invalid('entity', 'must be at most 64 characters of printable ASCII without spaces')
    if (options.layout) checkLayout(options.layout)
    if (options.now) checkFunction('now', options.now)
    const made = this.#keys
    for (const { number = 0, mode = 'ff1-aes256', secret } of keys) {
      if (![0, 1, 2, 3].includes(number)) throw invalid('number', `is ${number}: must be from 0 to 3`)
      if (made.has(number)) throw invalid('number', `${number} is that of two keys`)
      if (mode === 'unkeyed') {
        if (number !== 0) throw invalid('number', 'must be 0: the unkeyed mode has no key')
        if (secret !== undefined) throw invalid('secret', 'must be left out: the unkeyed mode has none')
        made.set(number, unkeyed)
        continue
      }
      if (mode !== 'ff1-aes256' && mode !== 'ff1-aes128') throw invalid('mode', `is ${String(mode)}: must be ff1-aes256, ff1-aes128 or unkeyed`)
      if (!(secret instanceof Uint8Array) || secret.length < 16) throw invalid('secret', 'must be a Uint8Array of at least 16 random bytes')
      for (const k of keys) if (k.secret && (k.number ?? 0) !== number && same(k.secret, secret)) throw invalid('secret', 'is that of two keys: give each its own')
      made.set(number, ff1(mode, secret.slice(), new TextEncoder().encode(entity)))
    }
    this.#current = first.number ?? 0
    this.#o = options
  }

  /** The public ID of an ID. */
  async encode(id: bigint): Promise<string> {
    const key = this.#keys.get(this.#current) as Permutation
    formatId(id) // which checks it
    return toText(await key.forward(id), this.#current)
  }

  /**
   * The ID of a public ID.
   *
   * @throws MalformedIdError for a text that is none; ImplausibleIdError if no such ID can have been made
   */
  async decode(external: string): Promise<bigint> {
    const { bits, number } = fromText(external)
    const key = this.#keys.get(number)
    if (!key) throw new MalformedIdError('keyNumber', `public ID names key ${number}, known are ${[...this.#keys.keys()].sort().join(', ')}`, { number })
    const id = await key.inverse(bits)
    const { customEpoch, bitTs, bitId, bitSeq } = this.#o.layout ?? defaultLayout
    const timestamp = id >> BigInt(bitId + bitSeq)
    const soon = BigInt((this.#o.now ?? Date.now)() + 60_000 - customEpoch)
    if (id >> 63n !== 0n || (!this.#o.anyId && (timestamp >> BigInt(bitTs) !== 0n || timestamp > soon))) {
      throw new ImplausibleIdError('public ID belongs to no ID that can have been made: treat it as not found')
    }
    return id
  }
}

const same = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && a.every((x, i) => x === b[i])

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

/** 64 bits and the 2 of the key number: 11 characters of 6 bits. */
export function toText(bits: bigint, number: number): string {
  const all = (bits << 2n) | BigInt(number)
  return Array.from({ length: 11 }, (_, i) => alphabet[Number((all >> BigInt(60 - 6 * i)) & 63n)]).join('')
}

/** The inverse of toText: one text for each ID. */
export function fromText(external: string): { bits: bigint; number: number } {
  if (typeof external !== 'string') throw invalid('external', 'must be a text')
  const bad = /[^A-Za-z0-9_-]/u.exec(external.slice(0, 12))
  if (bad) throw new MalformedIdError('character', `public ID has ${JSON.stringify(bad[0])} at position ${bad.index + 1}`, { position: bad.index + 1 })
  if (external.length !== 11) throw new MalformedIdError('length', `public ID has ${external.length} characters: must have exactly 11`)
  let all = 0n
  for (const c of external) all = (all << 6n) | BigInt(alphabet.indexOf(c))
  return { bits: all >> 2n, number: Number(all & 3n) }
}

const mask64 = (1n << 64n) - 1n
const salt = 0x9e3779b97f4a7c15n

/** fmix64 of MurmurHash3 over the ID exclusive-or a constant. */
const unkeyed: Permutation = {
  async forward(x) {
    x ^= salt
    x ^= x >> 33n
    x = (x * 0xff51afd7ed558ccdn) & mask64
    x ^= x >> 33n
    x = (x * 0xc4ceb9fe1a85ec53n) & mask64
    return x ^ (x >> 33n)
  },
  async inverse(x) {
    x ^= x >> 33n
    x = (x * 0x9cb4b2f8129337dbn) & mask64
    x ^= x >> 33n
    x = (x * 0x4f74430c22a54005n) & mask64
    x ^= x >> 33n
    return x ^ salt
  },
}

/** The AES key of a secret: HKDF-SHA256, empty salt, the mode in the info. */
export async function deriveKey(mode: string, secret: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const from = await crypto.subtle.importKey('raw', secret, 'HKDF', false, ['deriveBits'])
  const info = new TextEncoder().encode(`leasehold extid ${mode}`)
  return new Uint8Array(await crypto.subtle.deriveBits({ name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info }, from, mode === 'ff1-aes128' ? 128 : 256))
}

/** FF1 of NIST SP 800-38G for radix 2 and 64 digits: 10 rounds over two halves of 32 bits. */
function ff1(mode: string, secret: Uint8Array<ArrayBuffer>, tweak: Uint8Array): Permutation {
  // Made when it is first used, and kept itself, not its promise: in edge workers that is of one request.
  let made: CryptoKey | undefined
  const key = async () => (made ??= await crypto.subtle.importKey('raw', await deriveKey(mode, secret), 'AES-CBC', false, ['encrypt']))
  const head = [1, 2, 1, 0, 0, 2, 10, 32, 0, 0, 0, 64, 0, 0, 0, tweak.length, ...tweak, ...Array<number>((16 - ((tweak.length + 5) % 16)) % 16).fill(0)]
  // What a round adds to the other half: bytes 4 to 7 of the CBC-MAC. The cipher appends a block of padding, which is left out.
  const round = async (i: number, half: number) => {
    const block = new Uint8Array([...head, i, half >>> 24, half >>> 16, half >>> 8, half])
    const out = await crypto.subtle.encrypt({ name: 'AES-CBC', iv: new Uint8Array(16) }, await key(), block)
    return new DataView(out).getUint32(block.length - 16 + 4)
  }
  return {
    async forward(x) {
      let a = Number(x >> 32n)
      let b = Number(x & 0xffffffffn)
      for (let i = 0; i < 10; i++) [a, b] = [b, (a + (await round(i, b))) >>> 0]
      return (BigInt(a) << 32n) | BigInt(b)
    },
    async inverse(x) {
      let a = Number(x >> 32n)
      let b = Number(x & 0xffffffffn)
      for (let i = 9; i >= 0; i--) [a, b] = [(b - (await round(i, a))) >>> 0, a]
      return (BigInt(a) << 32n) | BigInt(b)
    },
  }
}
