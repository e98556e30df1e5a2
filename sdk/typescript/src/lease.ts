/**
 * Whether a response is the lease that was asked for: a cache, a proxy that mixes up connections, or a server of another kind may send anything.
 *
 * @module
 */
import { InvalidResponseError } from './fault.js'
import type { components } from './types.gen.js'

export type Lease = components['schemas']['Lease']
export type AcquireRequest = components['schemas']['AcquireRequest']
export type Json = Record<string, unknown>

export function bad(detail: string): never {
  throw new InvalidResponseError(`invalid response: ${detail}`)
}

function wrong(name: string, got: unknown, asked?: unknown): never {
  bad(`its ${name} is ${String(got)}${asked === undefined ? '' : `, not ${String(asked)}`}`)
}

/** A fencing token. 2^53 is the largest one, and every token below is exact as a number. */
export function token(n: unknown, asked?: number): number {
  if (typeof n !== 'number' || !Number.isInteger(n) || n < 1 || n > 2 ** 53 || (asked !== undefined && n !== asked)) wrong('fencing_token', n, asked)
  return n
}

/** The owner of a response is that of the request, or ends with it after the subject of the token. */
export function owner(got: unknown, asked: string): string {
  if (typeof got !== 'string' || (got !== asked && !got.endsWith(`#${asked}`))) wrong('owner_id', got, asked)
  return got
}

export function text(got: unknown, name: string, asked?: string): string {
  if (typeof got !== 'string' || got === '' || (asked !== undefined && got !== asked)) wrong(name, got, asked)
  return got
}

export function count(got: unknown, name: string, least = 0): number {
  if (typeof got !== 'number' || !Number.isInteger(got) || got < least) wrong(name, got)
  return got
}

/** What a lock is asked for. The tenant is checked by the text of the path, which servers repeat. */
export interface Asked {
  readonly tenant: string
  readonly owner: string
}

function checkState(got: Json, a: Asked, key: string, state: string, of?: number): void {
  text(got['tenant_id'], 'tenant_id', a.tenant)
  text(got['lock_key'], 'lock_key', key)
  owner(got['owner_id'], a.owner)
  token(got['fencing_token'], of)
  text(got['state'], 'state', state)
}

/** Checks a lease that was released. */
export function checkReleased(got: Json, a: Asked, key: string, of: number): void {
  checkState(got, a, key, 'RELEASED', of)
}

/** Checks a lease that was granted or renewed. */
export function checkLease(got: Json, a: Asked, key: string, r: AcquireRequest, of?: number): Lease {
  checkState(got, a, key, 'ACTIVE', of)
  text(got['lease_id'], 'lease_id')
  text(got['expires_at'], 'expires_at')
  count(got['remaining_ms'], 'remaining_ms', 1)
  text(got['mode'] ?? 'exclusive', 'mode', r.mode ?? 'exclusive')
  const permits = r.mode === 'permits' ? (r.limit ?? 1) : 0
  const permit = count(got['permit'] ?? 0, 'permit', Math.min(1, permits))
  if (permit > permits) bad(`it has the permit ${permit} of ${permits}`)
  return got as unknown as Lease
}
