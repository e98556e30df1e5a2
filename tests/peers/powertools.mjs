// A handler behind Powertools' idempotency, for the storm: see storm.go. Its function stands where an AWS Lambda
// function would: the context says that it ends after TTL milliseconds, and an execution that is in progress for longer
// is taken over.
import { createServer } from 'node:http'
import { createRequire } from 'node:module'

const { MODULES, STORE, RUNNER, TTL, PEERS_CLOCK } = process.env
if (PEERS_CLOCK) { // its clock is off
  const Right = Date
  globalThis.Date = class extends Right {
    constructor (...of) { super(...(of.length ? of : [Date.now()])) }
    static now () { return Right.now() + 1000 * PEERS_CLOCK }
  }
}
const require = createRequire(MODULES + '/')
const { IdempotencyConfig, makeIdempotent } = require('@aws-lambda-powertools/idempotency')
const { DynamoDBPersistenceLayer } = require('@aws-lambda-powertools/idempotency/dynamodb')
const { CreateTableCommand, DynamoDBClient } = require('@aws-sdk/client-dynamodb')

const aws = { endpoint: STORE, region: 'local', credentials: { accessKeyId: 'local', secretAccessKey: 'local' } }
await new DynamoDBClient(aws).send(new CreateTableCommand({
  TableName: 'powertools',
  BillingMode: 'PAY_PER_REQUEST',
  AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
  KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }]
})).catch(e => { if (e.name !== 'ResourceInUseException') throw e })
const persistenceStore = new DynamoDBPersistenceLayer({ tableName: 'powertools', clientConfig: aws })

const tell = async (what, key) => {
  const r = await fetch(`${RUNNER}/${what}?key=${key}&pid=${process.pid}`, { method: 'POST' })
  if (!r.ok) throw new Error(`${what}: ${r.status}`)
}

async function pay ({ key, body: { outcome } }) {
  await tell('before', key)
  await tell('effect', key)
  await tell('after', key)
  if (outcome === 'thrown') throw new Error('the handler fails')
  return { status: Number(outcome), text: `${outcome} for ${key}` }
}

async function respond (request) {
  let replayed = false
  const config = new IdempotencyConfig({
    eventKeyJmesPath: 'key',
    payloadValidationJmesPath: 'body',
    throwOnNoIdempotencyKey: true,
    expiresAfterSeconds: 86400,
    responseHook: response => { replayed = true; return response },
    lambdaContext: { getRemainingTimeInMillis: () => Number(TTL) }
  })
  try {
    return { ...await makeIdempotent(pay, { persistenceStore, config })(request), replayed }
  } catch (e) {
    switch (e.name) {
      case 'IdempotencyAlreadyInProgressError': return { status: 409, text: e.name, retry: true }
      case 'IdempotencyValidationError': return { status: 422, text: e.name }
      case 'IdempotencyPersistenceLayerError': return { status: 503, text: e.name }
      default: return { status: 500, text: e.name }
    }
  }
}

const server = createServer(async (r, w) => {
  let text = ''
  for await (const part of r) text += part
  const key = r.headers['idempotency-key']
  const { status, text: said, replayed, retry } = await respond({ key, body: JSON.parse(text) })
  if (status < 400) await tell('stored', key)
  w.writeHead(status, { ...(replayed && { 'Idempotency-Replayed': 'true' }), ...(retry && { 'Retry-After': '1' }) })
  w.end(said)
})
server.listen(0, '127.0.0.1', () => console.log(`127.0.0.1:${server.address().port}`))
process.stdin.on('end', () => process.exit()).resume()
