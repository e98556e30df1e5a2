// What clients make of responses, against the vectors that all of them share.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { Server } from '../src/http.js'
import { ConfigurationError, IdGenerator, decodeId } from '../src/ids.js'
import { isFinal } from '../src/judge.js'
import { FakeClock } from './world.js'

const path = new URL('../../../../contracts/vectors/errors.json', import.meta.url)

interface Vectors {
  codes: unknown[]
  responses: { status: number; page?: string; code?: string; retryable?: boolean; final: boolean; configuration: boolean }[]
}

test('which responses say that the same request would be rejected again, and which are for the operator of an ID generator', {
  skip: existsSync(path) ? false : 'needs the repository',
}, async () => {
  const vectors = JSON.parse(readFileSync(path, 'utf8')) as Vectors
  assert.ok(vectors.codes.length > 50 && vectors.responses.length > 3 * vectors.codes.length)
  for (const v of vectors.responses) {
    const body = v.page ? { title: 'a page' } : { code: v.code, title: 'rejected', status: 400, ...('retryable' in v && { retryable: v.retryable }) }
    const answer = async () => new Response(JSON.stringify(body), { status: v.status, headers: { 'content-type': v.page ?? 'application/problem+json' } })
    const options = { url: 'https://locks.example.com', tenant: 'acme', clock: new FakeClock(), fetch: answer }
    await assert.rejects(new Server(options).send('GET', '/locks/deploy-prod', undefined, 1000), (e) => isFinal(e) === v.final, JSON.stringify(v))
    const ids = new IdGenerator({ ...options, serviceId: 'orders', log: { warn: () => undefined } })
    const got = await ids.next().then((id) => decodeId(id).fallback ? 'falls back' : 'has a lease', (e: unknown) => e instanceof ConfigurationError ? 'configuration' : e)
    assert.equal(got, v.configuration ? 'configuration' : 'falls back', JSON.stringify(v))
    await ids.close()
  }
})
