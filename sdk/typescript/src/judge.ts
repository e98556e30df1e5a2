/**
 * What follows from an error: whether a request is sent again, and what became of it.
 *
 * @module
 */
import { DocumentDamagedError, NotConfiguredError, OverloadedError } from './codes.gen.js'
import { ApiError, InvalidResponseError, InvalidSettingError, NoResponseError } from './fault.js'

/** What an error says, which may be anything that was thrown. */
export function messageOf(e: unknown): string {
  try {
    return String(e instanceof Error ? e.message : e)
  } catch {
    return 'unknown'
  }
}

/** How long an error asks to wait, in milliseconds; 0 if it does not. */
export function retryAfter(e: unknown): number {
  return e instanceof ApiError || e instanceof InvalidResponseError ? e.retryAfter : 0
}

/** Whether the same request would be rejected again: the response does not say that a retry may help, and it is no failure of the server that may pass. */
export function isFinal(e: unknown): boolean {
  return e instanceof InvalidSettingError || (e instanceof NoResponseError && e.untrusted) || (e instanceof ApiError && !e.retryable && (e.status < 500 || e.status === 501 || e instanceof DocumentDamagedError))
}

/** Whether a request that failed may have been carried out, or may still be. */
export function isUnsettled(e: unknown): boolean {
  if (!(e instanceof ApiError)) return !(e instanceof InvalidSettingError || (e instanceof NoResponseError && !e.sent))
  return e.status >= 500 && !(e instanceof OverloadedError || e instanceof DocumentDamagedError || e instanceof NotConfiguredError)
}

/** Whether an error says that nothing comes of any try of the same request: it would be said to the others as well. */
export const isOver = (e: unknown): boolean => isSettled(e) && isFinal(e)

/** Whether an error says what became of earlier tries of the same request: the lease was looked at. */
export function isSettled(e: unknown): boolean {
  return e instanceof ApiError && e.status < 500 && e.status !== 401 && e.status !== 429
}
