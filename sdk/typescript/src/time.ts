/**
 * The time of a lease as its holder knows it. The server decides when a lease ends; its holder must know it no later than that, whatever happens to its
 * own clocks.
 *
 * A holder counts from before the request that granted or extended the lease, and on two clocks: `performance.now()` is right if the time is set, the wall
 * clock is right if the machine slept and the other one stood still. The first of the two to reach the end counts.
 *
 * @module
 */

import { invalid } from './check.js'
import type { AbortSignal } from './platform.js'

/** The clocks and timers that a client uses; tests set them. Times are in milliseconds. */
export interface Clock {
  /** The monotonic clock. */
  now(): number
  /** The wall clock, since 1970. */
  wall(): number
  /** Calls a function once, after a time. The result cancels that. */
  after(ms: number, call: () => void): () => void
}

/** A point in time on both clocks. */
export interface Moment {
  readonly mono: number
  readonly wall: number
}

const longest = 2 ** 31 - 1 // of a timer: longer ones fire at once

/** The clocks of the runtime. */
export const systemClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(ms, call) {
    let timer: ReturnType<typeof setTimeout> | undefined
    let over = false
    const set = (left = ms) => {
      if (!over) timer = left > longest ? setTimeout(() => set(left - longest), longest) : setTimeout(call, left)
    }
    if (globalThis.document?.hidden) outside(set)
    else set()
    return () => {
      over = true
      clearTimeout(timer)
    }
  },
}

/**
 * Calls a function outside of any timer. A timer that was set by a timer, and so on, also through promises, fires once a minute in a page that has been hidden for a
 * while: a lease would not be renewed in time. Other timers fire once a second.
 */
function outside(call: () => void): void {
  const { port1, port2 } = new MessageChannel()
  port1.onmessage = () => {
    port1.close()
    call()
  }
  port2.postMessage(0)
}

/** Reads both clocks. */
export const moment = (c: Clock): Moment => ({ mono: c.now(), wall: c.wall() })

/** The moment after some milliseconds. */
export const add = (m: Moment, ms: number): Moment => ({ mono: m.mono + ms, wall: m.wall + ms })

/** The time from now to a moment, by the clock that says less. */
export const until = (c: Clock, m: Moment): number => Math.min(m.mono - c.now(), m.wall - c.wall())

/** The time since a moment, by the clock that says less. */
export const elapsed = (c: Clock, m: Moment): number => Math.min(c.now() - m.mono, c.wall() - m.wall)

/** When a lease ends that was asked for at a moment: stores cut their time to whole milliseconds. */
export const endOf = (asked: Moment, ms: number): Moment => add(asked, ms - 1)

/** A timer that was set before the machine slept comes late: none is trusted for longer. */
const lookAgain = 1000

/** Waits until a moment has come by either clock. The result is false if the signal was aborted before. */
export async function sleepUntil(c: Clock, m: Moment, signal: AbortSignal): Promise<boolean> {
  for (;;) {
    if (signal.aborted) return false
    const left = until(c, m)
    if (left <= 0) return true
    await pause(c, Math.max(1, Math.min(left, lookAgain)), signal)
  }
}

const waiting = new WeakMap<AbortSignal, Set<() => void> & EventListenerObject>()

/**
 * Calls a function when a signal is aborted, unless what it returns was called before. A signal has one listener, however many wait for it, and none after the
 * last of them: beyond ten Node warns of a leak.
 */
export function onAbort(signal: AbortSignal, call: () => void): () => void {
  const calls = waiting.get(signal) ?? Object.assign(new Set<() => void>(), { handleEvent: () => calls.forEach((call) => call()) })
  if (!calls.size) {
    waiting.set(signal, calls)
    signal.addEventListener('abort', calls)
  }
  calls.add(call)
  return () => {
    calls.delete(call)
    if (!calls.size) signal.removeEventListener('abort', calls)
  }
}

/** Waits for some milliseconds, or until the signal is aborted: then the result is false. */
export function pause(c: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(false)
    const done = () => {
      cancel()
      off()
      resolve(!signal.aborted)
    }
    const cancel = c.after(ms, done)
    const off = onAbort(signal, done)
  })
}

/** Waits before the retry of a request: a random time below a bound that doubles, as "full jitter". */
export const backoff = (retry: number, first: number, max: number, min = 0): number =>
  Math.max(min, Math.random() * Math.min(max, first * 2 ** Math.min(retry, 30)))

/** How long a call insists beside its wait, in milliseconds, where its caller has no deadline of its own. */
export const callTime = 5000

/** By how much a call outlasts its caller at most: cleaning up goes on in the background. */
export const graceTime = 1000

/** The time of a try that follows so many which had no response: 2 s of the first, then twice as long each time, up to 15 s. */
export const tryTime = (failed: number): number => Math.min(15_000, 2000 * 2 ** Math.min(failed, 4))

/** A pause before the next renewal of a lease that lasts for so long: a part of that, so that one more try always comes before the loss. */
export const hasten = (pause: number, left: number): number => Math.max(50, Math.min(pause, Math.max(left / 4, Math.min(100, left / 2))))

/**
 * What work comes to, or what is given, when it has taken so long, or its caller's signal has been aborted for a second. It goes on in the background then.
 */
export async function patience<T>(c: Clock, work: Promise<T>, ms: number, signal: AbortSignal | undefined, otherwise: () => T): Promise<T> {
  const over = new Scope().within(c, ms, () => undefined)
  const left = () => void over.within(c, graceTime, () => undefined)
  const off = signal && onAbort(signal, left)
  if (signal?.aborted) left()
  try {
    return await orAborted(work, over.signal)
  } catch (error) {
    if (!over.signal.aborted) throw error
    work.catch(() => undefined)
    return otherwise()
  } finally {
    off?.()
    over.end()
  }
}

/**
 * Waits before a retry: a random time, or for as long as the server asks, but not for more than a third of the time that the scope has left, as the retry may
 * come too late then. The result is false if the scope was aborted.
 */
export const pauseBefore = (c: Clock, retry: number, asks: number, scope: Scope): Promise<boolean> =>
  pause(c, Math.max(backoff(retry, 200, 5000, 10), Math.min(asks, scope.left(c) / 3)), scope.signal)

/** An AbortController that follows signals, and a time if there is one, until it is ended. */
export class Scope {
  readonly #controller = new AbortController()
  readonly #ends: (() => void)[] = []
  #end = Infinity
  readonly signal: AbortSignal = this.#controller.signal

  constructor(...signals: (AbortSignal | undefined)[]) {
    for (const s of signals) {
      if (!s) continue
      if (typeof s.addEventListener !== 'function') throw invalid('signal', 'must be an AbortSignal')
      const follow = () => this.abort(s.reason)
      if (s.aborted) follow()
      this.#ends.push(onAbort(s, follow))
    }
  }

  /** Aborts it after a time; never after Infinity. */
  within(c: Clock, ms: number, reason: () => unknown): this {
    this.#end = Math.min(this.#end, c.now() + ms)
    if (ms < Infinity) this.#ends.push(c.after(ms, () => this.abort(reason())))
    return this
  }

  /** How many milliseconds it has left; Infinity without {@link within}. */
  left(c: Clock): number {
    return Math.max(0, this.#end - c.now())
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason)
  }

  /** Ends it without an abort. */
  end(): void {
    for (const end of this.#ends.splice(0)) end()
  }
}

/** Settles as a promise does, or rejects with the reason of a signal, also if the work goes on. */
export function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const aborted = () => reject(signal.reason)
    if (signal.aborted) aborted()
    work.then(resolve, reject).finally(onAbort(signal, aborted))
  })
}
