// Fences at a server.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fences, OtherSubjectError, StaleTokenError } from '../src/fences.js'
import { InvalidResponseError, InvalidSettingError, NoResponseError, PermissionDeniedError } from '../src/index.js'
import { FakeClock, json, problem } from './world.js'

function world(...answers: ((body: Record<string, unknown>) => Response | Promise<Response> | Error)[]) {
  const clock = new FakeClock()
  const sent: [string, string, unknown][] = []
  let last = answers[0]
  const fetch = (async (url: string, init: RequestInit) => {
    const body = init.body ? (JSON.parse(String(init.body)) as Record<string, unknown>) : {}
    sent.push([init.method ?? '', new URL(url).pathname, init.body ? body : undefined])
    last = answers.shift() ?? last
    const got = await last?.(body)
    if (!got || got instanceof Error) throw got
    return got
  }) as unknown as typeof globalThis.fetch
  return { clock, sent, fences: new Fences({ url: 'https://fences.test', tenant: 'acme', owner: 'ann', clock, fetch }) }
}
const lease = { subject: 'lock/disks#2', token: 7 }
const passed = { fencing_token: 7, subject: 'lock/disks#2' }
const of = (more: object) => () => json({ tenant_id: 'acme', resource: 'a/b', ...more })

test('check, get, reset and remove', async () => {
  const { sent, fences } = world(of(passed), of({ highest_token: 9 }), () => problem('NOT_FOUND', 404), of({ reset_token: 9 }), of({ removed_token: 9 }))
  await fences.check('a/b', lease)
  assert.equal(await fences.get('a/b'), 9)
  assert.equal(await fences.get('a/b'), undefined)
  await fences.reset('a/b', 9, { reason: 'a wrong token' })
  await fences.remove('a/b', 9, { reason: 'the disk is gone' })
  const path = '/v1/tenants/acme/fences/a%2Fb'
  assert.deepEqual(sent, [
    ['POST', `${path}/check`, passed], ['GET', path, undefined], ['GET', path, undefined], ['POST', `${path}/reset`, { owner_id: 'ann', highest_token: 9, reason: 'a wrong token' }],
    ['POST', `${path}/remove`, { owner_id: 'ann', highest_token: 9, reason: 'the disk is gone' }],
  ])
})

test('a token that is too low is an error with the highest one', async () => {
  const { fences } = world(() => problem('STALE_TOKEN', 409, { highest_token: 9 }))
  await assert.rejects(fences.check('a/b', lease), (e: unknown) => e instanceof StaleTokenError && e.problem.highest_token === 9 && !e.retryable)
})

test('a token of another lock or run is an error of its own, and final', async () => {
  const { fences, sent } = world(() => problem('OTHER_SUBJECT', 409))
  await assert.rejects(fences.check('a/b', lease), (e: unknown) => e instanceof OtherSubjectError && !e.retryable)
  assert.equal(sent.length, 1)
})

test('a request without a response is sent again for five seconds', async () => {
  const lost = () => new TypeError('fetch failed')
  const { clock, sent, fences } = world(lost, () => problem('UNAVAILABLE', 503), of(passed))
  await clock.until(fences.check('a/b', lease))
  assert.equal(sent.length, 3)
  for (const fault of [lost, () => new Promise<Response>(() => undefined)]) {
    const { clock, fences } = world(fault)
    const began = clock.mono
    await assert.rejects(clock.until(fences.check('a/b', lease), 10), NoResponseError)
    assert.ok(clock.mono - began >= 4000 && clock.mono - began <= 5100, String(clock.mono - began))
    assert.equal(clock.timers, 0)
  }
  const denied = world(() => problem('PERMISSION_DENIED', 403))
  await assert.rejects(denied.fences.reset('a/b', 7, { reason: 'why' }), PermissionDeniedError)
  assert.equal(denied.sent.length, 1)
})

test('a signal ends it', async () => {
  const stop = new AbortController()
  const { clock, fences } = world(() => new Promise<Response>(() => undefined))
  const check = fences.check('a/b', lease, { signal: stop.signal })
  stop.abort(new RangeError('enough'))
  await assert.rejects(clock.until(check), RangeError)
})

test('a response that is about something else is none', async () => {
  for (const more of [{ fencing_token: 8 }, { resource: 'c' }, { tenant_id: 'other' }, { fencing_token: undefined }, { fencing_token: '7' }, { subject: 'lock/disks' }, { subject: undefined }]) {
    const { clock, fences } = world(of({ ...passed, ...more }))
    await assert.rejects(clock.until(fences.check('a/b', lease)), InvalidResponseError, JSON.stringify(more))
  }
})

test('arguments that cannot work are errors, before anything is sent', async () => {
  const { fences, sent } = world(of({}))
  const refused = (field: string, work: () => Promise<unknown>) => assert.rejects(work(), (e: unknown) => e instanceof InvalidSettingError && e.field === field, field)
  for (const token of [0, -1, 1.5, 2 ** 54, NaN, '7', undefined]) await refused('token', () => fences.check('a', { ...lease, token: token as never }))
  for (const subject of ['', 5, undefined, 'lock/a\nb', `lock/${'x'.repeat(316)}`]) await refused('subject', () => fences.check('a', { ...lease, subject: subject as never }))
  for (const l of [7, undefined, null, 'lock/disks']) await refused('lease', () => fences.check('a', l as never))
  for (const resource of ['', '.', 5, undefined, 'x'.repeat(257)]) await refused('resource', () => fences.check(resource as never, lease))
  await refused('highest', () => fences.reset('a', 0, { reason: 'why' }))
  await refused('reason', () => fences.remove('a', 7, { reason: '' }))
  await refused('change', () => fences.remove('a', 7, undefined as never))
  await refused('signal', () => fences.check('a', lease, { signal: 'now' as never }))
  assert.throws(() => new Fences({ url: 'https://fences.test' } as never), InvalidSettingError)
  assert.equal(sent.length, 0)
})
