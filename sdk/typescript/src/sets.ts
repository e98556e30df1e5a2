/**
 * Several locks at once, which are acquired, renewed and released in one step, all or none. Their order has no meaning, so that no two programs wait for each other.
 *
 * @packageDocumentation
 */
import { checkObject, invalid } from './check.js'
import { type Server, segment } from './http.js'
import { type AcquireRequest, type Asked, type Json, bad, count, owner, text, token } from './lease.js'
import type { Granted, Lock, LockOptions, Locks, Subject } from './locks.js'
import type { AbortSignal } from './platform.js'
import type { components } from './types.gen.js'

/** What several locks can be asked for with: they have one holder each, and no line. */
export type LockSetOptions = Pick<LockOptions, 'ifAvailable' | 'wait' | 'poll' | 'metadata' | 'signal' | 'ttl' | 'maxHold' | 'margin'>

/** {@link Locks.request} for 1 to 20 locks of one holder each, which are acquired and renewed in one step, all or none. */
export function requestAll<T>(locks: Locks, keys: readonly string[], work: (lock: Lock) => T | Promise<T>): Promise<T>
export function requestAll<T>(locks: Locks, keys: readonly string[], options: LockSetOptions & { readonly ifAvailable?: false }, work: (lock: Lock) => T | Promise<T>): Promise<T>
export function requestAll<T>(locks: Locks, keys: readonly string[], options: LockSetOptions, work: (lock: Lock | null) => T | Promise<T>): Promise<T>
export async function requestAll<T>(locks: Locks, keys: readonly string[], options: LockSetOptions | ((lock: Lock) => T | Promise<T>), work?: (lock: never) => T | Promise<T>): Promise<T> {
  if (typeof options === 'function') return requestAll(locks, keys, {}, options)
  return of(locks).run(() => acquireAll(locks, keys, options), work as (lock: Lock | null) => T)
}

/** {@link Locks.acquire} for 1 to 20 locks: see {@link requestAll}. If one of them is lost, the signal is aborted. */
export function acquireAll(locks: Locks, keys: readonly string[], options?: LockSetOptions & { readonly ifAvailable?: false }): Promise<Lock>
export function acquireAll(locks: Locks, keys: readonly string[], options: LockSetOptions): Promise<Lock | null>
export async function acquireAll(locks: Locks, keys: readonly string[], options: LockSetOptions = {}): Promise<Lock | null> {
  const { server, acquire } = of(locks)
  checkObject('options', options)
  for (const o of ['mode', 'permits', 'fair', 'maxWaiting', 'replace', 'lockDelay']) {
    if ((options as Record<string, unknown>)[o] !== undefined) throw invalid(o, 'is for one lock')
  }
  return acquire(several(server, keys), options)
}

function of(locks: Locks): Locks['inner'] {
  checkObject('locks', locks?.inner)
  return locks.inner
}

function several(server: Server, list: readonly string[]): Subject {
  if (!Array.isArray(list) || list.length < 1 || list.length > 20) throw invalid('keys', 'must be a list of 1 to 20')
  const keys = [...list].sort()
  keys.forEach((k, i) => {
    segment('key', k, 256)
    if (k === keys[i - 1]) throw invalid('keys', `have ${k} twice`)
  })
  const path = `${server.root}/lock-sets`
  const leases = (of: Granted) => Array.from(of.tokens, ([lock_key, fencing_token]) => ({ lock_key, fencing_token }))
  const read = (got: Record<string, unknown>, of?: Granted): Granted => {
    const tokens = checkSet(got, server, keys, of && leases(of))
    text(got['state'], 'state', 'ACTIVE')
    return {
      token: tokens[0]?.fencing_token ?? 0, tokens: new Map(tokens.map((t) => [t.lock_key, t.fencing_token])), permit: 0,
      expiresAt: text(got['expires_at'], 'expires_at'), remaining: count(got['remaining_ms'], 'remaining_ms', 1), waited: 0,
    }
  }
  const post = (path: string, body: object, timeout: number, signal?: AbortSignal) => server.send('POST', path, { owner_id: server.owner, ...body }, timeout, signal)
  const body = ({ owner_id, request_id, ttl_seconds, metadata }: AcquireRequest) => ({ owner_id, request_id, lock_keys: keys, ttl_seconds, metadata })
  return {
    name: keys.join(', '),
    waits: false,
    acquire: async (r, timeout, signal, left) => read(await server.ask(`${path}/acquire`, body(r), timeout, signal, left)),
    giveUp: (r) => server.giveUp(`${path}/acquire`, body(r)),
    renew: async (of, r, _, timeout, signal) => read(await post(`${path}/renew`, { ...r, leases: leases(of) }, timeout, signal), of),
    release: async (of, id, timeout) => {
      const got = await post(`${path}/release`, { request_id: id, leases: leases(of) }, timeout)
      checkSet(got, server, keys, leases(of))
      text(got['state'], 'state', 'RELEASED')
    },
  }
}

type Token = components['schemas']['LockSetToken']

/** Checks several leases. */
function checkSet(got: Json, a: Asked, keys: readonly string[], of?: readonly Token[]): Token[] {
  text(got['tenant_id'], 'tenant_id', a.tenant)
  owner(got['owner_id'], a.owner)
  const leases = got['leases']
  if (!Array.isArray(leases) || leases.length !== keys.length) bad('it has other locks')
  return keys.map((key) => {
    const l = (leases as Json[]).find((l) => l?.['lock_key'] === key) ?? bad(`it has no lock ${key}`)
    return { lock_key: key, fencing_token: token(l['fencing_token'], of?.find((t) => t.lock_key === key)?.fencing_token) }
  })
}
