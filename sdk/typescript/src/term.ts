/**
 * A lease from its grant to its loss.
 *
 * @module
 */
import type { AbortSignal } from './platform.js'
import { type Clock, type Moment, pause, until } from './time.js'

/** What tells a page that it goes on after it was frozen or hidden. */
const wakes = ['visibilitychange', 'resume', 'pageshow', 'focus', 'online'] as const

/**
 * Lets a signal consult the clocks when it is asked: the first step after a freeze may be taken before any timer fires. What check refers to lives as long as the
 * signal.
 */
export function consulting(signal: AbortSignal, check: () => unknown): AbortSignal {
  const aborted = Object.getOwnPropertyDescriptor(globalThis.AbortSignal.prototype, 'aborted')?.get
  if (aborted) {
    Object.defineProperty(signal, 'aborted', { configurable: true, get: () => (check(), aborted.call(signal) as boolean) })
    signal.throwIfAborted = () => {
      if (signal.aborted) throw signal.reason
    }
  }
  return signal
}

/** The end of a lease, and the signal of the work under it. Once lost it stays lost. */
export class Term {
  readonly #clock: Clock
  readonly #controller = new AbortController()
  readonly #expired: (trouble: unknown) => unknown
  #end: Moment
  #trouble: unknown
  #lost: unknown
  #settled = false
  readonly signal: AbortSignal = consulting(this.#controller.signal, () => this.check())

  /**
   * @param end when the signal is to be aborted
   * @param expired makes the reason; trouble is why the latest renewal failed
   */
  constructor(clock: Clock, end: Moment, expired: (trouble: unknown) => unknown) {
    this.#clock = clock
    this.#end = end
    this.#expired = expired
  }

  /** Consults the clocks. The result is the reason of the loss. */
  check(): unknown {
    if (this.#lost === undefined && !this.#settled && until(this.#clock, this.#end) <= 0) this.lose(this.#expired(this.#trouble))
    return this.#lost
  }

  lose(reason: unknown): void {
    if (this.#lost !== undefined || this.#settled) return
    this.#lost = reason
    this.cancel(reason)
  }

  /** Moves the end. The result is false if that comes too late. */
  extend(end: Moment): boolean {
    if (this.check() !== undefined) return false
    this.#end = end
    this.#trouble = undefined
    return true
  }

  failed(trouble: unknown): void {
    this.#trouble = trouble
  }

  get left(): number {
    return until(this.#clock, this.#end)
  }

  /** The last check: what has not been lost by now is not lost any more. */
  settle(): unknown {
    const lost = this.check()
    this.#settled = true
    return lost
  }

  /** Aborts the signal; the lease is not lost by that. */
  cancel(reason: unknown): void {
    this.#controller.abort(reason)
  }

  /** Ends the term when it expires, until the signal that is given is aborted. */
  async watch(stop: AbortSignal): Promise<void> {
    const look = () => void this.check()
    const where = [globalThis, (globalThis as { document?: Document }).document].filter((t) => typeof t?.addEventListener === 'function') as EventTarget[]
    for (const t of where) for (const w of wakes) t.addEventListener(w, look)
    while (!stop.aborted && !this.#settled && this.check() === undefined) {
      await pause(this.#clock, Math.max(1, Math.min(this.left, 1000)), stop)
    }
    for (const t of where) for (const w of wakes) t.removeEventListener(w, look)
  }
}
