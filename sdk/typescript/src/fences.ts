/**
 * Fences at a server, which remember the highest fencing token that each resource has seen: for resources that cannot compare tokens themselves.
 *
 * @packageDocumentation
 */
import { checkNumber, checkObject, checkText } from './check.js'
import { NoResponseError } from './fault.js'
import { Server, segment, type ServerOptions } from './http.js'
import { isFinal, retryAfter } from './judge.js'
import { text, token as isToken } from './lease.js'
import type { AbortSignal } from './platform.js'
import { Scope, callTime, pauseBefore, tryTime } from './time.js'

export { OtherSubjectError, StaleTokenError } from './codes.gen.js'

/** A fencing token and what it is one of: a `Lock`, a `Leader` and a `Run` are such leases. */
export interface FencedLease {
  /** `lock/` and the key of the lock, with `#` and its number for a permit; `run/` and the ID of the run. */
  readonly subject: string
  readonly token: number
}

/** What ends a call. */
export interface FenceOptions {
  /** Ends it with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** Why an administrator changes a fence. */
export interface FenceChange extends FenceOptions {
  /** For people: it stays in the server's log. */
  readonly reason: string
}

/** The fences of one tenant. A request without a response is sent again for five seconds: it has no second effect. */
export class Fences {
  readonly #server: Server

  /** Makes a client; nothing is sent. */
  constructor(options: ServerOptions) {
    this.#server = new Server(options)
  }

  /**
   * Passes the fencing token of a lock or a run by the resource's fence.
   *
   * @throws StaleTokenError if a higher token was seen, which is its `problem.highest_token`: the holder of this one must stop;
   *   OtherSubjectError if tokens of another lock or run were seen, which have no order with this one
   */
  async check(resource: string, lease: FencedLease, options: FenceOptions = {}): Promise<void> {
    checkObject('lease', lease)
    const { subject, token } = lease
    checkNumber('token', token, 1, 2 ** 53, 1)
    checkText('subject', subject, 320)
    const got = await this.#call('POST', resource, '/check', { fencing_token: token, subject }, options)
    isToken(got['fencing_token'], token)
    text(got['subject'], 'subject', subject)
  }

  /** Reads the highest token that the resource's fence has seen; undefined if it has seen none. */
  async get(resource: string, options: FenceOptions = {}): Promise<number | undefined> {
    try {
      return isToken((await this.#call('GET', resource, '', undefined, options))['highest_token'])
    } catch (e) {
      if ((e as { code?: unknown }).code === 'NOT_FOUND') return undefined
      throw e
    }
  }

  /**
   * Lets the fence forget its highest token, if that still is the given one: an administrator's tool for a fence that a wrong token has closed. Until a current token has
   * been checked again, old ones pass.
   *
   * @throws StaleTokenError if the fence has seen another highest token by now
   */
  async reset(resource: string, highest: number, change: FenceChange): Promise<void> {
    const got = await this.#change(resource, highest, '/reset', change)
    isToken(got['reset_token'], highest)
  }

  /**
   * Removes the fence, if its highest token still is the given one, or was reset from it: an administrator's tool for a resource that is gone.
   *
   * @throws StaleTokenError if the fence has seen another highest token by now
   */
  async remove(resource: string, highest: number, change: FenceChange): Promise<void> {
    const got = await this.#change(resource, highest, '/remove', change)
    isToken(got['removed_token'], highest)
  }

  async #change(resource: string, highest: number, what: string, change: FenceChange) {
    checkObject('change', change)
    const { reason, signal } = change
    checkNumber('highest', highest, 1, 2 ** 53, 1)
    checkText('reason', reason, 512)
    return this.#call('POST', resource, what, { owner_id: this.#server.owner, highest_token: highest, reason }, { signal })
  }

  async #call(method: string, resource: string, what: string, body: object | undefined, { signal }: FenceOptions): Promise<Record<string, unknown>> {
    const server = this.#server
    const path = `${server.root}/fences/${segment('resource', resource, 256)}${what}`
    const late = new NoResponseError(`no response within ${callTime} ms`)
    const scope = new Scope(signal).within(server.clock, callTime, () => late)
    let last: unknown
    try {
      for (let retry = 0, unmet = 0; ; retry++) {
        try {
          const got = await server.send(method, path, body, tryTime(retry), scope.signal)
          text(got['tenant_id'], 'tenant_id', server.tenant)
          text(got['resource'], 'resource', resource)
          return got
        } catch (e) {
          if (e === late) throw last ?? e
          if (scope.signal.aborted || isFinal(e) || (server.unmet(e) && ++unmet > 2)) throw e
          last = e
        }
        if (!(await pauseBefore(server.clock, retry, retryAfter(last), scope))) throw scope.signal.reason === late ? last : scope.signal.reason
      }
    } finally {
      scope.end()
    }
  }
}
