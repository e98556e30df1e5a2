/**
 * Functions of AWS Lambda whose work runs once: a handler that uses the time that is left, and batches of SQS with partial failures.
 *
 * @packageDocumentation
 */
import { checkFunction } from './check.js'
import { LeaseholdError } from './fault.js'
import { RunNotStoredError, type Run, type RunOptions, type Runs } from './once.js'
import { Scope } from './time.js'

/** What a handler needs of the context of its call. */
export interface LambdaContext {
  getRemainingTimeInMillis(): number
}

/** Settings: those of a run, but for its time, which is what the function has left. */
export type LambdaOptions = Omit<RunOptions, 'ttl' | 'heartbeat' | 'signal'>

/** A function that has answered is frozen: so long before its time is over, the work is told to stop, its end is stored, and the lock released. */
const margin = 2500

/** The lock ends with the function, so that a retry does not wait for one that was cut off. The signal is aborted before, as a time that is over: an attempt that counts. */
async function within<T>(runs: Runs, context: LambdaContext, call: (o: RunOptions) => Promise<T>): Promise<T> {
  const left = context.getRemainingTimeInMillis()
  const late = Object.assign(new LeaseholdError('the function has no time left'), { name: 'TimeoutError' })
  const scope = new Scope().within(runs.clock, Math.max(0, left - margin), () => late)
  if (left <= margin) scope.abort(late)
  try {
    return await call({ ttl: Math.min(86_400_000, Math.max(1000, Math.ceil(left / 1000) * 1000)), signal: scope.signal })
  } finally {
    scope.end()
  }
}

/**
 * A handler whose work runs once for each ID, and whose result all callers get: see {@link Runs.once}. The event is what is compared.
 *
 * @param id the name of the run of an event
 */
export function lambda<E, T>(runs: Runs, id: (event: E) => string, work: (event: E, run: Run) => T | Promise<T>, options: LambdaOptions = {}): (event: E, context: LambdaContext) => Promise<T> {
  checkFunction('id', id)
  checkFunction('work', work)
  return (event, context) => within(runs, context, (o) => runs.once(id(event), event, (run) => work(event, run), { ...options, ...o }))
}

/** A message of SQS. */
export interface SQSRecord {
  readonly messageId: string
  readonly body: string
  readonly attributes?: { readonly MessageGroupId?: string }
}

/** Settings of {@link batch}. */
export interface BatchOptions<B, R extends SQSRecord> extends LambdaOptions {
  /** The name of a message's run; its ID if left out: one that is sent twice runs twice. */
  readonly id?: (body: B, record: R) => string
  /** Receives, at once, a message whose body is not JSON, and never will be: put it aside. It counts as done when this returns. Left out, it fails in each delivery until the queue gives it up. */
  readonly malformed?: (record: R, error: unknown) => unknown
  /** Receives why a message comes again. */
  readonly onFailure?: (error: unknown, record: R) => void
}

/** What SQS is told, with ReportBatchItemFailures: which messages come again. */
export interface BatchResponse {
  readonly batchItemFailures: readonly { readonly itemIdentifier: string }[]
}

/**
 * A handler of batches: the work runs once for each message, all of them at once, but those of a group of a FIFO queue one after the other, and none after one that failed. A message of
 * which the work is done does not come again, also if that could not be stored.
 */
export function batch<B, R extends SQSRecord = SQSRecord>(runs: Runs, work: (body: B, run: Run, record: R) => unknown, options: BatchOptions<B, R> = {}): (event: { readonly Records: readonly R[] }, context: LambdaContext) => Promise<BatchResponse> {
  checkFunction('work', work)
  const { id = (_: B, record: R) => record.messageId, malformed, onFailure, ...rest } = options
  return (event, context) => within(runs, context, async (o) => {
    const one = async (record: R): Promise<unknown> => {
      let body: B
      try {
        body = JSON.parse(record.body) as B
      } catch (error) {
        if (!malformed) throw error
        return malformed(record, error)
      }
      let done = false
      try {
        return await runs.once(id(body, record), body, async (run) => {
          await work(body, run, record)
          done = true
        }, { ...rest, ...o })
      } catch (error) {
        if (done && error instanceof RunNotStoredError) return undefined
        throw error
      }
    }
    const groups = new Map<string, R[]>()
    for (const record of event.Records) {
      const name = record.attributes?.MessageGroupId ?? record.messageId
      groups.set(name, [...(groups.get(name) ?? []), record])
    }
    const batchItemFailures: { itemIdentifier: string }[] = []
    await Promise.all([...groups.values()].map(async (group) => {
      let failed: unknown
      for (const record of group) {
        try {
          if (failed) throw new LeaseholdError('a message of its group before it comes again', { cause: failed })
          await one(record)
        } catch (error) {
          failed ??= error
          batchItemFailures.push({ itemIdentifier: record.messageId })
          onFailure?.(error, record)
        }
      }
    }))
    return { batchItemFailures }
  })
}
