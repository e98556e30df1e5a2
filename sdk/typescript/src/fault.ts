/**
 * Errors. Programs act on `instanceof` or on `code`, never on the message.
 *
 * Every error of this package is a {@link LeaseholdError}. A rejection of the server is an {@link ApiError}, and codes.gen.ts has one class for each of its codes.
 *
 * @module
 */
import type { components } from './types.gen.js'

/** What the server says of a request that it rejected or could not carry out. */
export type Problem = components['schemas']['Problem']

/** The codes of the server. */
export type Code = components['schemas']['Code']

/** The base of all errors of this package. */
export class LeaseholdError extends Error {
  override readonly name: string = 'LeaseholdError'
}

/** An argument that cannot work. Nothing was sent. */
export class InvalidSettingError extends LeaseholdError {
  override readonly name = 'InvalidSettingError'
  constructor(
    /** Which one. */
    readonly field: string, detail: string,
  ) {
    super(`${field} ${detail}`)
  }
}

/** No usable response arrived: the server hangs, or the connection was refused or broke off. `cause` says what went wrong. */
export class NoResponseError extends LeaseholdError {
  override readonly name = 'NoResponseError'
  /** The server was not trusted, or does not speak TLS: nothing was sent, and no retry cures it. Only runtimes that say so, such as Node. */
  untrusted = false
  /** Whether the request may have been sent: then it may have been carried out, or may still be. False only in runtimes that say so, such as Node. */
  sent = true
}

/** A response that is not the one that was asked for: of another server, of a proxy, or about another lease. */
export class InvalidResponseError extends LeaseholdError {
  override readonly name = 'InvalidResponseError'
  /** How long to wait before the request is sent again, in milliseconds, if a proxy says so; else 0. */
  retryAfter = 0
  /** The status of the response. 0 for one whose content is not what was asked for. */
  status = 0
}

/** The lock is, or very soon will be, another's. `cause` says why: the rejection of the server, or why renewals failed. */
export class LockLostError extends LeaseholdError {
  override readonly name: string = 'LockLostError'
  /** The error of the work, if it failed otherwise than with this one. */
  workError?: unknown

  /** The code with which the server said that the lease is over; LEASE_EXPIRED if its time was over. */
  get code(): Code | undefined {
    return this.cause instanceof ApiError && isGone(this.cause) ? this.cause.code : 'LEASE_EXPIRED'
  }
}

/** The lock was held for as long as `maxHold` allows. */
export class MaxHoldError extends LockLostError {
  override readonly name = 'MaxHoldError'
  override get code(): undefined {
    return undefined
  }
}

/** The lock was not released, and is free when its lease expires. `cause` says why. */
export class NotReleasedError extends LeaseholdError {
  override readonly name = 'NotReleasedError'
}

/** The lock was released by its holder. It is the reason with which `lock.signal` is aborted then. */
export class ReleasedError extends LeaseholdError {
  override readonly name = 'ReleasedError'
}

/** The client was closed. */
export class ClosedError extends LeaseholdError {
  override readonly name = 'ClosedError'
}

/** Whether a status says by itself that the same request may succeed later, from any server. */
export const passes = (status: number): boolean => [408, 425, 429].includes(status)

/** The server rejected a request, or could not carry it out. */
export class ApiError extends LeaseholdError {
  override readonly name: string
  /** What happened, for programs. */
  readonly code: Code
  /** The status of the response. */
  readonly status: number
  /** Whether the same request may succeed later. */
  readonly retryable: boolean
  /** With INVALID_ARGUMENT the invalid field. */
  readonly field: string | undefined
  /** With LOCK_HELD the holder. */
  readonly owner: string | undefined
  /** With LOCK_HELD and LEASE_CHANGED when the lease expires, ISO 8601. */
  readonly expiresAt: string | undefined
  /** How long to wait before the request is sent again, in milliseconds; 0 if the server does not say. */
  readonly retryAfter: number
  /** With LOCK_HELD the caller's place in line, 1 being the next; undefined without one. */
  readonly position: number | undefined

  /**
   * @param problem what the server says
   * @param retryAfter in milliseconds, if the response has a Retry-After; the problem's own is more exact
   */
  constructor(readonly problem: Partial<Problem> & { readonly code: Code }, retryAfter = 0, options?: ErrorOptions) {
    super(`${problem.code}: ${problem.detail || problem.title || 'rejected'}${problem.field ? ` (field ${problem.field})` : ''}`, options)
    this.code = problem.code
    // LOCK_HELD is a LockHeldError, LEASE_LOST a LeaseLostError.
    this.name = `${this.code.toLowerCase().replace(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase())}Error`
    this.status = problem.status ?? 0
    this.retryable = problem.retryable ?? (passes(this.status) || this.status > 501)
    this.field = problem.field
    this.owner = problem.owner_id
    this.expiresAt = problem.expires_at
    const ms = Number(problem.retry_after_ms ?? retryAfter)
    this.retryAfter = ms > 0 ? ms : 0
    this.position = problem.position
  }
}

/**
 * Whether an error says that a lease is the caller's no more. LEASE_CHANGED is one of them unless a renewal of the caller may have changed it: then another
 * process renews the same lease, such as a copy of this one.
 */
export function isGone(e: unknown): boolean {
  return e instanceof ApiError && /^(LEASE_(LOST|EXPIRED|RELEASED|CHANGED)|NOT_OWNER)$/.test(e.code)
}
