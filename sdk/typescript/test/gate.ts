// A gate of runs in this process.
import { type FakeClock, type Sent, json, problem } from './world.js'

/** A gate of runs by the rule: a lock expires, a late end is accepted if no other worker has begun. */
export class Gate {
  readonly sent: Sent[] = []
  away = false
  readonly runs = new Map<string, { token: number; until: number; print?: unknown; result?: unknown }>()

  constructor(readonly clock: FakeClock) {}

  readonly fetch = (async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const path = new URL(String(input)).pathname
    const [id = '', what = ''] = path.split('/').slice(-2)
    const body = JSON.parse(String(init?.body)) as Record<string, unknown>
    this.sent.push({ method: 'POST', path, body, at: this.clock.mono })
    if (this.away) throw new TypeError('fetch failed')
    const run = this.runs.get(id)
    const ttl = Number(body['ttl_seconds']) * 1000
    if (what === 'begin') {
      if (body['give_up']) return new Response(null, { status: 204 })
      if (run?.print !== undefined && run.print !== body['fingerprint']) return problem('RUN_DIFFERS', 422)
      if (run?.result !== undefined) return json({ run_id: id, acquired: false, reason: 'already_finished', status: 'READY', result: run.result })
      if (run && run.until > this.clock.time) return json({ run_id: id, acquired: false, reason: 'locked', retry_after_ms: Math.ceil(run.until - this.clock.time) })
      const next = { token: (run?.token ?? 0) + 1, until: this.clock.time + ttl, print: body['fingerprint'] }
      this.runs.set(id, next)
      return json({ run_id: id, acquired: true, owner_id: body['owner_id'], fencing_token: next.token, runs: 1, failures: 0, remaining_ms: ttl })
    }
    if (!run || run.token !== body['fencing_token'] || run.result !== undefined) return problem('LEASE_LOST', 409)
    if (what === 'refresh') run.until = this.clock.time + ttl
    if (what === 'release') run.until = 0
    if (what === 'finish') run.result = body['result']
    return json({ run_id: id, fencing_token: run.token, remaining_ms: ttl, ...(body['status'] !== undefined && { status: body['status'] }) })
  }) as typeof fetch
}
