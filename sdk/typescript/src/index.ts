/**
 * Locks with fencing tokens, and work that runs once, at a Leasehold server.
 *
 * @packageDocumentation
 */
export * from './errors.js'
export * from './codes.gen.js'
export { Lock, Locks } from './locks.js'
export type { LockEvent, LockOptions, LockSetOptions, LockState, LocksOptions, Rate, WaitOptions } from './locks.js'
export type { ServerOptions } from './http.js'
export type { Clock } from './time.js'
