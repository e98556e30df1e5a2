/**
 * 64-bit IDs that sort by the time they were made. In code they are BigInt; in JSON and on their way through other programs they are text, because a number
 * loses digits above 2^53.
 *
 * @module
 */
import { invalid } from './check.js'

/** Where the parts of an ID are, from the highest bit: reserve (0), milliseconds since the epoch, fallback (1 bit), rest of the machine ID, sequence. */
export interface Layout {
  /** Unix milliseconds of the timestamp 0. */
  readonly customEpoch: number
  readonly bitReserve: number
  readonly bitTs: number
  /** With the fallback bit. */
  readonly bitId: number
  readonly bitSeq: number
}

/** 1 reserved bit, 41 bits of milliseconds since 2026, 14 bits of machine ID, 8 bits of sequence. */
export const defaultLayout: Layout = Object.freeze({ customEpoch: 1_767_225_600_000, bitReserve: 1, bitTs: 41, bitId: 14, bitSeq: 8 })

/** An ID taken apart. */
export interface IdParts {
  readonly time: Date
  /** Made without a live lease, and so unique only with high probability. */
  readonly fallback: boolean
  /** Without the fallback bit. */
  readonly machineId: number
  readonly sequence: number
}

const last = (1n << 63n) - 1n

/** Checks a layout, and names the part at fault. */
export function checkLayout(l: Layout): void {
  if (!Number.isInteger(l.customEpoch) || l.customEpoch < 0 || l.customEpoch > 253_402_300_799_999) throw invalid('customEpoch', 'must be a time in Unix milliseconds up to the year 9999')
  const least = { bitReserve: 1, bitTs: 32, bitId: 2, bitSeq: 1 }
  for (const [k, n] of Object.entries(least) as [keyof typeof least, number][]) {
    if (!Number.isInteger(l[k]) || l[k] < n) throw invalid(k, `is ${l[k]}: must be ${n} or more`)
  }
  if (l.bitReserve + l.bitTs + l.bitId + l.bitSeq !== 64) throw invalid('bitSeq', 'and bitReserve, bitTs and bitId must add up to 64')
}

/** Reads the decimal digits of an ID, and nothing else: one ID has one spelling. */
export function parseId(s: string): bigint {
  if (typeof s !== 'string' || !/^(?:0|[1-9][0-9]{0,18})$/.test(s)) throw invalid('id', `${typeof s === 'string' ? JSON.stringify(s) : String(s)} must be decimal digits, without a leading zero`)
  const id = BigInt(s)
  if (id > last) throw invalid('id', `${s} must be at most 2^63 - 1`)
  return id
}

/** The ID in decimal digits, as in JSON. */
export function formatId(id: bigint): string {
  if (typeof id !== 'bigint' || id < 0n || id > last) throw invalid('id', `${String(id)} must be a BigInt from 0 to 2^63 - 1`)
  return id.toString()
}

const base32 = /^[0-7][0-9A-V]{12}$/

/**
 * The ID in 13 digits of base 32 (0 to 9, A to V), with zeros in front: these texts sort as IDs do, which decimal digits do not, as there are more of them from
 * year to year.
 */
export function idToBase32(id: bigint): string {
  formatId(id) // which checks it
  return id.toString(32).toUpperCase().padStart(13, '0')
}

/** Reads what {@link idToBase32} writes, and nothing else. */
export function idFromBase32(s: string): bigint {
  if (typeof s !== 'string' || !base32.test(s)) throw invalid('id', `${typeof s === 'string' ? JSON.stringify(s) : String(s)} must be 13 digits from 0 to 9 and A to V, the first of them 7 at most`)
  let id = 0n
  for (const digit of s) id = (id << 5n) | BigInt(parseInt(digit, 32))
  return id
}

/** The ID in 8 bytes, big-endian: bytes sort as IDs do. */
export function idBytes(id: bigint): Uint8Array<ArrayBuffer> {
  formatId(id)
  const b = new Uint8Array(8)
  new DataView(b.buffer).setBigUint64(0, id)
  return b
}

/** Takes an ID apart. The layout must be the one that it was made with: it is not in the ID. */
export function decodeId(id: bigint, layout: Layout = defaultLayout): IdParts {
  formatId(id)
  checkLayout(layout)
  const field = (shift: number, width: number) => Number(BigInt.asUintN(width, id >> BigInt(shift)))
  const node = layout.bitId + layout.bitSeq
  return {
    time: new Date(field(node, layout.bitTs) + layout.customEpoch),
    fallback: field(node - 1, 1) === 1,
    machineId: field(layout.bitSeq, layout.bitId - 1),
    sequence: field(0, layout.bitSeq),
  }
}

/** The smallest ID of a time: "made since t" is a comparison with it. */
export function firstId(time: Date, layout: Layout = defaultLayout): bigint {
  if (!(time instanceof Date) || Number.isNaN(time.getTime())) throw invalid('time', 'must be a Date')
  checkLayout(layout)
  const ms = BigInt(time.getTime()) - BigInt(layout.customEpoch)
  if (ms < 0n || ms >> BigInt(layout.bitTs) !== 0n) throw invalid('time', `${time.toISOString()} does not fit the layout`)
  return ms << BigInt(layout.bitId + layout.bitSeq)
}

/** The signature of the release of a machine ID: HMAC-SHA256 of "id:timestamp" under the lease's secret, in lower-case hexadecimal digits. */
export async function signRelease(secret: string, id: number, timestamp: number): Promise<string> {
  const text = new TextEncoder()
  const key = await crypto.subtle.importKey('raw', text.encode(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])
  const mac = await crypto.subtle.sign('HMAC', key, text.encode(`${id}:${timestamp}`))
  return Array.from(new Uint8Array(mac), (b) => b.toString(16).padStart(2, '0')).join('')
}
